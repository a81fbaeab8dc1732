package planner

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// A slurmctld that was killed has forgotten what it had not saved for up to 5 s (SAVE_MAX_WAIT, state_save.c), such
// as the start of a job. It asks all nodes to register 3 s after its own start, and ends the runs there that it does
// not know. Until then it may start such a job on another node, beside its first run.

// unasked are the flags of nodes that slurmctld does not ask to register (ping_nodes.c), or that do not answer. One that
// is POWERING_DOWN is not asked either, but counts: slurmctld suspends a node at once whose only job it has forgotten.
var unasked = []string{"POWERED_DOWN", "POWERING_UP", "INVALID_REG", "REBOOT_ISSUED", "EXTERNAL", "NOT_RESPONDING"}

// registered says whether all nodes have registered on which a forgotten job may run. slurmctld does not save when a
// node was booted.
func registered(nodes []slurm.Node) bool {
	for i := range nodes {
		n := &nodes[i]
		if n.BootAt.IsZero() && !n.Is("DOWN", "FUTURE") && !n.Is(unasked...) {
			return false
		}
	}
	return true
}

const (
	// settlingTime bounds how long a slurmctld that has started may wait for its nodes.
	settlingTime = 30 * time.Second
	// endingTime is what slurmctld and slurmd take from a registration to the end of a forgotten run.
	endingTime = time.Second
)

// settling is what is known of a slurmctld that has started.
type settling struct {
	// began is when it was started, zero once it has settled; registered is since when all nodes are known to have.
	began, registered time.Time
	// wanted: somebody waits for that, also while no job does.
	wanted bool
}

// over says whether no run is left that slurmctld has forgotten.
func (s *settling) over(now time.Time) bool {
	return s.began.IsZero() || now.Sub(s.began) >= settlingTime || !s.registered.IsZero() && now.Sub(s.registered) >= endingTime
}

// survey takes what a look at all nodes has found.
func (s *settling) survey(nodes []slurm.Node, at, now time.Time) {
	switch {
	case at.Before(s.began): // it shows what the former slurmctld knew
	case !registered(nodes):
		s.registered = time.Time{}
	case s.registered.IsZero():
		s.registered = now
	}
}
