package reconfig

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// baseline is what the nodes are compared with.
type baseline struct {
	// since is when scontrol reconfigure ran last.
	since time.Time
	// starts is when the slurmd of each node that has to follow started, nil if slurmctld
	// did not answer, and empty if there are no nodes.
	starts map[string]time.Time
}

// took says whether a node that had a slurmd from before has taken the reconfigure. Two
// slurmds may start in one second, so one as young as the reconfigure counts too. Clocks
// differ from node to node, so age alone decides only where before is zero, not known.
func (b baseline) took(before, now time.Time) bool {
	if before.IsZero() {
		return !now.Before(b.since)
	}
	return !now.Equal(before) || !before.Before(b.since)
}

// nodeStarts is a question to slurmctld: when did the slurmd of each node start?
type nodeStarts struct {
	asked time.Time
	over  chan struct{}
	// starts is the answer, once over is closed.
	starts map[string]time.Time
}

func (n *nodeStarts) fresh() bool { return time.Since(n.asked) < headStart }

func (n *nodeStarts) answer() map[string]time.Time {
	<-n.over
	return n.starts
}

// follows: slurmctld expects the node to take a configuration. A node that has not registered
// with this slurmctld yet, as after its start, is no exception.
func follows(n *slurm.Node) bool {
	return n.Responding() && !n.Is("POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "REBOOT_ISSUED")
}

const (
	// precheckCalm is how long the sources have to stay as they are before a precheck.
	precheckCalm = Debounce / 3
	// headStart is how old a precheck, or a prefetch, may be when the edit's own check
	// uses it. A slurmd that is restarted after a prefetch counts as one that took the edit.
	headStart = time.Second
)
