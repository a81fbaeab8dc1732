package slurm

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// Node is a node record as slurmctld shows it. Its own agent asks for one ("scontrol show node --json", or sinfo), and
// slurmctld's agent for all of them at once (package clusterview), which knows more and has no NodeDetail: 10,000 records
// would be heavy with it. Memory and disk are in MiB, as Slurm counts them.
type Node struct {
	Name  string    `json:"name"`
	State NodeState `json:"state"`
	// Features are the available ones.
	Features []string `json:"features"`
	// CPUs is the configured count, CPUsEffective what is left for jobs (CpuSpecList).
	CPUs          int    `json:"cpus"`
	CPUsEffective int    `json:"effective_cpus"`
	RealMemory    int64  `json:"real_memory"`
	TmpDisk       int64  `json:"temporary_disk"`
	Gres          string `json:"gres"` // name[:type]:count, with the sockets in parentheses where gres.conf gave cores
	Reason        string `json:"reason"`
	Weight        int    `json:"weight"`
	// Extra is what slurmd or an admin has put there for any purpose.
	Extra string `json:"extra"`
	// Topology is where the node stands in the cluster's network (25.05 and later). sinfo does not have it, nor
	// SlurmdStartAt: when the slurmd that registered last was started.
	Topology      string `json:"topology"`
	SlurmdStartAt Time   `json:"slurmd_start_time"`
	// NodeDetail is nil in a clusterview.
	*NodeDetail

	// The rest is known in a clusterview alone. Equal texts and lists share their memory there, so nobody may change a list.

	Partitions, ActiveFeatures []string `json:"-"`
	// CPUsAlloc and MemoryAlloc are what jobs have. MemoryEffective is what is left of RealMemory for jobs (MemSpecLimit).
	// MemoryFree is what the node's kernel says is free, jobs or not, and negative where slurmd has not said it.
	CPUsAlloc                                int   `json:"-"`
	MemoryEffective, MemoryAlloc, MemoryFree int64 `json:"-"`
	// GPUs counts the GPUs that Gres has, and GPUsAlloc those that jobs have.
	GPUs, GPUsAlloc int `json:"-"`
	// ReasonUser and ReasonAt say who has written the reason, and when.
	ReasonUser                   string `json:"-"`
	ReasonAt, BootAt, LastBusyAt Time   `json:"-"`
	// Comment is a text that somebody has put there. Version is that of slurmd.
	Comment, Version string `json:"-"`
}

// NodeDetail is what matters of a node to its own agent, and to slurmctld's agent while nodes take an edit.
type NodeDetail struct {
	// Address is NodeAddr: of a dynamic node, where its last registration came from. sinfo does not have it.
	Address string `json:"address"`
	// SpecializedCPUs is CpuSpecList.
	SpecializedCPUs CPUList `json:"specialized_cpus"`
	// Cores are of one socket, Threads of one core.
	Sockets int `json:"sockets"`
	Cores   int `json:"cores"`
	Threads int `json:"threads"`
	// GresTypes is what slurmctld knows of at all, nil unless it was asked: of a Gres that is not among them it says
	// nothing. Suspended are jobs with steps on the node that slurmctld does not count there: it shows the node as IDLE, and
	// deletes its record. The agent fills both in.
	GresTypes []string `json:"-"`
	Suspended []string `json:"-"`
}

// Detail is never nil: where the record has no NodeDetail, it gets an empty one.
func (n *Node) Detail() *NodeDetail {
	if n.NodeDetail == nil {
		n.NodeDetail = &NodeDetail{}
	}
	return n.NodeDetail
}

// CPUList are CPU numbers as Slurm writes them: "0-2,5".
type CPUList string

// UnmarshalJSON reads a list, and writes it in the one way.
func (l *CPUList) UnmarshalJSON(text []byte) error {
	var set cgroup.Set
	if err := json.Unmarshal(text, &set); err != nil {
		return err
	}
	*l = CPUList(set.String())
	return nil
}

// Is says whether the state holds one of the names.
func (n *Node) Is(names ...string) bool { return n.State.Is(names...) }

// Busy says whether jobs hold the node, suspended ones too as far as they are known.
func (n *Node) Busy() bool {
	return n.State.HoldsJobs() || n.NodeDetail != nil && len(n.Suspended) > 0
}

// Allocated says whether jobs run on the node, which is more than that they hold it: of a job
// that is COMPLETING there only what it leaves behind is waited for.
func (n *Node) Allocated() bool { return n.State.RunsJobs() }

// Drained says whether somebody has set the node to drain, with work on it or not.
func (n *Node) Drained() bool { return n.State.Is("DRAIN") }

// Invalid says whether slurmctld refused what slurmd registered.
func (n *Node) Invalid() bool { return n.State.Is("INVALID_REG") }

// Responding says whether slurmctld counts the node's slurmd as alive.
func (n *Node) Responding() bool { return n.State.Responds() }

// Elastic says whether slurmctld's power saving may start and end the node.
func (n *Node) Elastic() bool { return n.State.Is("CLOUD") }

// Off says whether slurmctld has suspended the node, or does so now: it counts on nothing there, and wants no pod for an
// elastic node.
func (n *Node) Off() bool { return n.State.Off() }

// StaysWithoutPod says whether the record of a pod that is gone stays: somebody names the node, or the pod is made again.
func (n *Node) StaysWithoutPod() bool {
	_, kept := reasons.IsKept(n.Reason)
	return kept && n.Is("DOWN")
}

// ClosedByOthers says whether somebody else than slurmlet has drained the node or set it DOWN, or slurmctld because a prolog
// or the like has failed. slurmctld's own words for a node that is DOWN are nobody's.
func (n *Node) ClosedByOthers() bool {
	switch reasons.Of(n.Reason) {
	case reasons.Agent, reasons.Silent, reasons.Relaunched:
		return false
	}
	return n.Is("DRAIN", "FAIL") || n.Is("DOWN") && !reasons.Has(n.Reason, reasons.NotResponding) &&
		!reasons.Has(n.Reason, reasons.TimedOut)
}

// Time is in seconds since 1970, as Slurm counts it; 0 for a time that is not known.
type Time int64

// TimeOf leaves out what is less than a second.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.Unix())
}

// IsZero says whether the time is not known.
func (t Time) IsZero() bool { return t == 0 }

// Time is the same as the standard library's.
func (t Time) Time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.Unix(int64(t), 0)
}

// UnmarshalJSON reads {"set": …, "infinite": …, "number": …}, the form of all
// data_parser versions from 0.0.40 on.
func (t *Time) UnmarshalJSON(data []byte) error {
	var v struct {
		Set    bool  `json:"set"`
		Number int64 `json:"number"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("cannot read a time: %w", err)
	}
	*t = 0
	if v.Set && v.Number > 0 {
		*t = Time(v.Number)
	}
	return nil
}
