package slurm

import (
	"context"
	"errors"
	"os/exec"
	"strings"

	"github.com/slurmlet/slurmlet/cgroup"
)

// A question of scontrol's for one node has slurmctld send all of its nodes. sinfo asks for one
// node alone when it is given one name, and for the partitions.

// Node asks sinfo(1), and scontrol where sinfo shows no such node.
func (s Scontrol) Node(ctx context.Context, name string) (*Node, error) {
	n, err := s.Glance(ctx, name)
	if err == nil && n == nil {
		return s.WholeNode(ctx, name)
	}
	return n, err
}

// Glance asks "sinfo --nodes= --json". sinfo lists a node once for each partition, and leaves
// out a node that is in none. slurmctld counts a node's allocated CPUs anew when somebody asks for
// all nodes, and not for one alone (proc_req.c, _slurm_rpc_dump_node_single): an idle node is MIXED
// here until then.
func (s Scontrol) Glance(ctx context.Context, name string) (*Node, error) {
	const what = "sinfo"
	out, err := s.command(ctx, what, exec.CommandContext(ctx, s.Sinfo, "--all", "--nodes="+name, "--json"))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Rows []sinfoRow `json:"sinfo"`
	}
	if err := read(what, out, &answer); err != nil {
		return nil, err
	}
	if answer.Rows == nil {
		return nil, errors.New(`cannot read the answer of sinfo: there is no list "sinfo" in it`)
	}
	for i := range answer.Rows {
		if row := &answer.Rows[i]; len(row.Nodes.Names) == 1 && row.Nodes.Names[0] == name {
			return row.node(), nil
		}
	}
	return nil, nil
}

// WholeNode asks "scontrol show node --json".
func (s Scontrol) WholeNode(ctx context.Context, name string) (*Node, error) {
	nodes, err := s.shown(ctx, name)
	for i := range nodes {
		if nodes[i].Name == name {
			return &nodes[i], nil
		}
	}
	return nil, err
}

// shown are the nodes of a host list that have a record.
func (s Scontrol) shown(ctx context.Context, names string) ([]Node, error) {
	var answer struct {
		Nodes []Node `json:"nodes"`
	}
	if err := s.ask(ctx, &answer, "show", "node", names, "--json"); err != nil {
		return nil, err
	}
	if answer.Nodes == nil {
		return nil, listless("show node", "nodes")
	}
	return answer.Nodes, nil
}

// NodesOf asks "scontrol show node --json" for a host list, and leaves out those without a record.
func (s Scontrol) NodesOf(ctx context.Context, names string) ([]Node, error) {
	return s.shown(ctx, names)
}

// Recorded asks "scontrol show node --json" for a host list.
func (s Scontrol) Recorded(ctx context.Context, names string) ([]string, error) {
	nodes, err := s.shown(ctx, names)
	all := make([]string, len(nodes))
	for i := range nodes {
		all[i] = nodes[i].Name
	}
	return all, err
}

// sinfoRow is what sinfo has of one node in one partition. What sinfo counts for many nodes
// has the same minimum and maximum for one.
type sinfoRow struct {
	Node struct {
		State []string `json:"state"`
	} `json:"node"`
	Nodes struct {
		Names []string `json:"nodes"`
	} `json:"nodes"`
	CPUCount least    `json:"cpus"`
	Sockets  least    `json:"sockets"`
	Cores    least    `json:"cores"`
	Threads  least    `json:"threads"`
	Memory   least    `json:"memory"`
	Disk     least    `json:"disk"`
	Weight   least    `json:"weight"`
	Features sinfoAll `json:"features"`
	Gres     sinfoAll `json:"gres"`
	Extra    string   `json:"extra"`
	Reason   struct {
		Text string `json:"description"`
	} `json:"reason"`
	Reserved struct {
		CPUs cgroup.Set `json:"cpus"`
	} `json:"resource_spec"`
}

type least struct {
	Value int64 `json:"minimum"`
}

type sinfoAll struct {
	Text string `json:"total"`
}

func (r *sinfoRow) node() *Node {
	n := &Node{
		Name: r.Nodes.Names[0], State: r.Node.State, CPUs: int(r.CPUCount.Value),
		RealMemory: r.Memory.Value, TmpDisk: r.Disk.Value, Weight: int(r.Weight.Value),
		Gres: r.Gres.Text, Reason: r.Reason.Text, Extra: r.Extra,
		NodeDetail: &NodeDetail{
			SpecializedCPUs: CPUList(r.Reserved.CPUs.String()),
			Sockets:         int(r.Sockets.Value), Cores: int(r.Cores.Value), Threads: int(r.Threads.Value),
		},
	}
	if r.Features.Text != "" {
		n.Features = strings.Split(r.Features.Text, ",")
	}
	// slurmctld counts CpuSpecList in whole cores, as it shows it.
	n.CPUsEffective = n.CPUs - r.Reserved.CPUs.Len()
	return n
}
