package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"
)

// result is what one cluster's drain has shown.
type result struct {
	version string
	started time.Duration
	memory  int64 // bytes, of all processes
	// idle are from SIGTERM to the exit, busy from the jobs' end.
	idle, busy  durations
	rest, drain pings
	// asked is what slurmctld was, spent its processor time for the drain.
	askedAtStart, asked asked
	spent               time.Duration
}

func (r result) answered() error { return errors.Join(r.rest.answered(), r.drain.answered()) }

func (r result) print(w io.Writer) error {
	nodes := len(r.idle) + len(r.busy)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "Slurm %s, %d nodes\tp50\tp99\tmax\n", r.version, nodes)
	for _, row := range []struct {
		what string
		took durations
	}{
		{"scontrol ping, at rest", r.rest.took},
		{"  scontrol without a question", r.rest.bare},
		{"scontrol ping, during the drain", r.drain.took},
		{"  scontrol without a question", r.drain.bare},
		{fmt.Sprintf("%d idle nodes, SIGTERM to exit", len(r.idle)), r.idle},
		{fmt.Sprintf("%d busy nodes, their jobs' end to exit", len(r.busy)), r.busy},
	} {
		fmt.Fprintf(t, "%s\t%v\t%v\t%v\n", row.what, row.took.at(.5), row.took.at(.99), row.took.at(1))
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("cannot print the results: %w", err)
	}
	fmt.Fprintf(w, "started in %v, %d MiB in all; %d pings, all answered; every agent exited with 0, no record is left, %d jobs COMPLETED\n",
		r.started.Round(time.Second), r.memory>>20, len(r.drain.took), len(r.busy))
	fmt.Fprintf(w, "slurmctld took %v of a processor for the drain; what it was asked, for each node:\n  at the start %s\n  for the drain %s\n\n",
		r.spent, r.askedAtStart.each(nodes), r.asked.each(nodes))
	return nil
}

type durations []time.Duration

// at is the duration that a part of all is not above.
func (d durations) at(part float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return sorted[int(math.Ceil(part*float64(len(d))))-1].Round(100 * time.Microsecond)
}
