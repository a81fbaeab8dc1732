package main

import "time"

// effort is how much is measured.
type effort struct {
	// inits is how many rounds of start and SIGTERM; supervisord, of 1.2 s each,
	// takes part in every supervised one.
	inits, supervised int
	// idleAfter is how long an init is Ready before it counts as idle, idleFor how
	// long it is watched. The agent of slurmctld looks at all records once, 10 s
	// after its start and then each hour (internal/slurmctld/keptrecords).
	idleAfter, idleFor time.Duration
	// slurm is how many rounds with a node of Slurm's, edits how many edits.
	slurm, edits int
}

var (
	// whole is enough for stable medians.
	whole = effort{inits: 25, supervised: 5, idleAfter: 12 * time.Second, idleFor: 10 * time.Second, slurm: 15, edits: 10}
	// short is enough to see that all of it still works.
	short = effort{inits: 1, supervised: 1, idleAfter: 100 * time.Millisecond, idleFor: time.Second, slurm: 1, edits: 1}

	todo = whole
)
