package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

// results is everything that is printed.
type results struct {
	binary float64 // 10^6 bytes
	inits  []*initResult
	slurms []*slurmResult
}

// The budgets of slurmlet.
const (
	maxStart   = 3    // milliseconds over direct exec
	maxRSS     = 10   // 10^6 bytes
	maxWakeups = 0    // in effort.idleFor
	maxRelay   = .5   // milliseconds
	maxBinary  = 10   // 10^6 bytes
	maxToIdle  = 1.1  // of a bare slurmd's time
	maxIdle    = 500  // milliseconds from SIGTERM to the exit, with the record gone
	maxBusy    = 1000 // milliseconds from the job's end to the exit
	maxEdit    = 1.2  // of a bare scontrol reconfigure's time, without the debounce
)

func (r results) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	v := &verdict{}
	r.printInits(t, v)
	r.printNode(t, v)
	r.printEdits(t, v)
	fmt.Fprintf(t, "\nMedians of %d rounds (supervisord: %d), %d with Slurm, %d of edits; ratios are medians of the rounds' ratios.\n",
		todo.inits, todo.inits/todo.supervised, todo.slurm, todo.edits)
	if err := t.Flush(); err != nil {
		return fmt.Errorf("cannot print the results: %w", err)
	}
	v.print(w)
	return nil
}

func (r results) printInits(t io.Writer, v *verdict) {
	if len(r.inits) == 0 {
		return
	}
	fmt.Fprintf(t, "\tstart, ms\tover direct\tSIGTERM relay, ms\tidle RSS, MB\tof no file\twake-ups in %v\n", todo.idleFor)
	for _, i := range r.inits {
		start, relay := i.start.median(), i.relay.median()
		if i.name != "slurmlet" {
			fmt.Fprintf(t, "%s\t%.2f\t%+.2f\t%.3f\t%.1f\t%.1f\t%d\n", i.name, start, i.over.median(), relay, i.rss, i.own, i.wakeups)
			continue
		}
		fmt.Fprintf(t, "%s\t%.2f\t%+.2f %s\t%.3f %s\t%.1f %s\t%.1f\t%d %s\n", i.name, start,
			i.over.median(), v.judge("start over direct exec, ms", i.over.median(), maxStart),
			relay, v.judge("SIGTERM relay, ms", relay, maxRelay),
			i.rss, v.judge("idle RSS, MB", i.rss, maxRSS), i.own,
			i.wakeups, v.judge("wake-ups", float64(i.wakeups), maxWakeups))
	}
	fmt.Fprintf(t, "\nbinary, MB\t%.1f %s\n", r.binary, v.judge("binary, MB", r.binary, maxBinary))
}

// printNode prints a node's registrations and ways down.
func (r results) printNode(t io.Writer, v *verdict) {
	if len(r.inits) == 0 || len(r.slurms) == 0 {
		return
	}
	fmt.Fprint(t, "\nstart to IDLE, ms\tslurmd -D\tslurmd --systemd\tslurmlet\tto -D\tto --systemd\n")
	for _, s := range r.slurms {
		what := "start to IDLE, Slurm " + s.version
		toPlain, toSystemd := s.slurmlet.over(s.plain).median(), s.slurmlet.over(s.systemd).median()
		fmt.Fprintf(t, "Slurm %s\t%.1f\t%.1f\t%.1f\t%.2f %s\t%.2f %s\n", s.version,
			s.plain.median(), s.systemd.median(), s.slurmlet.median(),
			toPlain, v.judge(what+", to slurmd -D", toPlain, maxToIdle),
			toSystemd, v.judge(what+", to slurmd --systemd", toSystemd, maxToIdle))
	}
	fmt.Fprint(t, "\nto the exit, ms\tslurmd -D\tpreStop hook, slurmd -D\tslurmlet, idle\tslurmlet, from its job's end\n")
	for _, s := range r.slurms {
		idle, busy := s.idle.median(), s.busy.median()
		fmt.Fprintf(t, "Slurm %s\t%.1f\t%.1f\t%.1f %s\t%.1f %s\n", s.version, s.bare.median(), s.hooked.median(),
			idle, v.judge("SIGTERM to exit, Slurm "+s.version+", ms", idle, maxIdle),
			busy, v.judge("job's end to exit, Slurm "+s.version+", ms", busy, maxBusy))
	}
}

func (r results) printEdits(t io.Writer, v *verdict) {
	if len(r.slurms) == 0 {
		return
	}
	fmt.Fprintf(t, "\nan edit to the last of %d nodes, ms\tscontrol reconfigure\tslurmlet\tits debounce\twithout it, to scontrol\n", editNodes)
	for _, s := range r.slurms {
		e, what := s.changes, "Slurm "+s.version
		over := e.undelayed().over(e.bare).median()
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%d\t%.2f %s\n", what, e.bare.median(), e.edited.median(), reconfig.Debounce.Milliseconds(),
			over, v.judge("edit, "+what+", to scontrol reconfigure", over, maxEdit))
	}
}
