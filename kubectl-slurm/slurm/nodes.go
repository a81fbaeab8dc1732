package slurm

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// Group are nodes of a partition that sinfo has in one row, because they are alike. 10,000 nodes are a few groups.
type Group struct {
	Partition string `json:"partition"`
	// State is sinfo's long form without its last character, which is Mark: * does not answer, ~ is suspended, # starts,
	// % is being suspended, and so on.
	State string `json:"state"`
	Mark  string `json:"mark,omitempty"`
	// CPUs, Memory and Disk are those of each node; memory and disk in MiB.
	CPUs   int64  `json:"cpus"`
	Memory int64  `json:"memory"`
	Disk   int64  `json:"disk"`
	Gres   string `json:"gres,omitempty"`
	// Features are the available ones, separated by commas.
	Features string `json:"features,omitempty"`
	// Idle are the CPUs that no job has, of all nodes together.
	Idle  int64  `json:"idle"`
	Count int    `json:"count"`
	Nodes string `json:"nodes"`
	// User, Since and Reason are of the drain or the failure; empty where there is none.
	User   string `json:"user,omitempty"`
	Since  string `json:"since,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// rowMark begins each row of sinfo's: a reason may have several lines.
const rowMark = "#|"

const groupFormat = "--format=" + rowMark + "%R|%T|%c|%m|%d|%G|%f|%C|%D|%N|%u|%H|%E"

// Groups asks sinfo for the nodes of partitions; of all without one.
func Groups(ctx context.Context, a Asker, partitions ...string) ([]Group, error) {
	command := []string{"sinfo", "--local", "--noheader", "--exact", groupFormat}
	if len(partitions) > 0 {
		command = append(command, "--partition="+strings.Join(partitions, ",")) // hidden ones, too
	} else {
		command = append(command, "--all")
	}
	out, err := a.Ask(ctx, command...)
	if err != nil {
		return nil, err
	}
	var all []Group
	for line := range strings.Lines(out) {
		row, begins := strings.CutPrefix(strings.TrimSpace(line), rowMark)
		switch {
		case begins:
			if g, is := parseGroup(row); is {
				all = append(all, g)
			}
		case len(all) > 0:
			all[len(all)-1].Reason += " " + row
		}
	}
	return all, nil
}

// parseGroup reads a row; a partition without a node has one, too.
func parseGroup(row string) (g Group, is bool) {
	f := strings.SplitN(row, "|", 13)
	if len(f) != 13 {
		return g, false
	}
	g = Group{Partition: f[0], State: f[1], Gres: known(f[5]), Features: known(f[6]), Nodes: f[9], User: known(f[10]), Since: known(f[11]), Reason: known(f[12])}
	g.State = strings.TrimRight(f[1], "*~#!%$@^-+")
	g.Mark = f[1][len(g.State):]
	for i, into := range map[int]*int64{2: &g.CPUs, 3: &g.Memory, 4: &g.Disk} {
		*into, _ = strconv.ParseInt(strings.TrimRight(f[i], "+"), 10, 64) // of sinfo, it is a number
	}
	if parts := strings.Split(f[7], "/"); len(parts) == 4 {
		g.Idle, _ = strconv.ParseInt(parts[1], 10, 64)
	}
	g.Count, _ = strconv.Atoi(f[8])
	return g, g.Count > 0
}

// known leaves out sinfo's words for nothing.
func known(text string) string {
	if text == "(null)" || text == "none" || text == "Unknown" || text == "N/A" {
		return ""
	}
	return text
}

// Names are the group's nodes one by one.
func (g *Group) Names() []string {
	list, err := hostlist.Parse(g.Nodes)
	if err != nil {
		return []string{g.Nodes}
	}
	return slices.Collect(list.All())
}

// Closed says whether the nodes get no new jobs until somebody or slurmctld lifts that.
func (g *Group) Closed() bool {
	return slices.Contains([]string{"drained", "draining", "down", "fail", "failing", "error", "inval", "unknown", "future"}, g.State) || g.Mark == "*"
}

// Node is what "scontrol show node --json" has of a node.
type Node struct {
	Name       string   `json:"name"`
	State      []string `json:"state"`
	Reason     string   `json:"reason"`
	User       string   `json:"reason_set_by_user"`
	Since      Number   `json:"reason_changed_at"`
	CPUs       int64    `json:"cpus"`
	Allocated  int64    `json:"alloc_cpus"`
	Memory     int64    `json:"real_memory"`
	Gres       string   `json:"gres"`
	Comment    string   `json:"comment"`
	Partitions []string `json:"partitions"`
	Address    string   `json:"address"`
	Host       string   `json:"hostname"`
}

// Is says whether the state or a flag of it has one of the names.
func (n *Node) Is(names ...string) bool {
	return slices.ContainsFunc(n.State, func(one string) bool { return slices.Contains(names, one) })
}

// FindNode asks "scontrol show node --json"; nil where there is no record.
func FindNode(ctx context.Context, a Asker, name string) (*Node, error) {
	var answer struct {
		Nodes []Node `json:"nodes"`
	}
	err := ask(ctx, a, &answer, "scontrol", "show", "node", name, "--json")
	if refused, is := errors.AsType[*Refusal](err); err != nil && (!is || !strings.Contains(refused.Said, "not found")) {
		return nil, err
	}
	for i := range answer.Nodes {
		if answer.Nodes[i].Name == name {
			return &answer.Nodes[i], nil
		}
	}
	return nil, nil
}
