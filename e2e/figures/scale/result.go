package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// result is what one cluster's scenarios have shown.
type result struct {
	version string
	nodes   int
	records int
	// simulated: the nodes are agents whose slurmd is only said to run.
	simulated bool
	measures  []measure
}

// measure is what one scenario took.
type measure struct {
	scenario string
	took     time.Duration
	asked    asked
	// slurmctld and agent are the processor time of slurmctld and of its agent, with all commands
	// that it ran.
	slurmctld, agent time.Duration
	// sent and agentSent are the bytes that they have sent, in connections that are closed; lost:
	// some were not counted.
	sent, agentSent int64
	// memory and agentMemory are what slurmctld and its agent have in the end, descriptors how many file
	// descriptors the agent has had at most.
	memory, agentMemory int64
	descriptors         int
	lost                bool
	users               users
	lines               []string
	fault               error
}

// failed says whether anything was not as it should be.
func (r result) failed() bool {
	return slices.ContainsFunc(r.measures, func(m measure) bool { return m.fault != nil })
}

func (m measure) print(w io.Writer, of result) error {
	what := "nodes"
	if of.simulated {
		what = "simulated agents"
	}
	fmt.Fprintf(w, "\n%s: Slurm %s, %d %s", m.scenario, of.version, of.nodes, what)
	if of.records > 0 && !of.simulated {
		fmt.Fprintf(w, " and %d further records", of.records)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "  questions to slurmctld\tcount\ttotal\tmean\t\n")
	for _, name := range m.asked.types() {
		c := m.asked[name]
		if c.count == 0 {
			continue
		}
		fmt.Fprintf(t, "  %s\t%d\t%v\t%v\t\n", name, c.count, tidy(c.took), tidy(c.took/time.Duration(c.count)))
	}
	if len(m.users.ping) > 0 {
		fmt.Fprint(t, "  a user's\tp50\tp99\tmost\t\n")
		for _, row := range []struct {
			what string
			took durations
		}{{"squeue", m.users.squeue}, {"scontrol ping", m.users.ping}, {"scontrol that asks nobody", m.users.bare}} {
			fmt.Fprintf(t, "  %s\t%v\t%v\t%v\t\n", row.what, row.took.at(.5), row.took.at(.99), row.took.at(1))
		}
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("cannot print the results: %w", err)
	}
	lost := ""
	if m.lost {
		lost = " (and more: the kernel could not tell of all)"
	}
	fmt.Fprintf(w, "  took %v; processor time: slurmctld %v, its agent %v; sent: slurmctld %s, its agent %s%s; memory: slurmctld %s, its agent %s, with %d file descriptors at most\n",
		tidy(m.took), tidy(m.slurmctld), tidy(m.agent), size(m.sent), size(m.agentSent), lost, size(m.memory), size(m.agentMemory), m.descriptors)
	for _, line := range m.lines {
		fmt.Fprintf(w, "  %s\n", line)
	}
	if m.fault != nil {
		fmt.Fprintf(w, "  FAILED: %s\n", strings.ReplaceAll(m.fault.Error(), "\n", "\n  "))
	}
	return nil
}

// printGrowth compares the first and the last of clusters of the same version.
func printGrowth(w io.Writer, results []result) error {
	if len(results) < 2 {
		return nil
	}
	a, b := results[0], results[len(results)-1]
	fmt.Fprintf(w, "\nSlurm %s, growth from %d to %d nodes: with an exponent of 1, twice the nodes cost twice as much\n", a.version, a.nodes, b.nodes)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "  scenario\tquestions\ttheir time\tprocessor time\tbytes sent\ttime\t\n")
	for i, x := range a.measures {
		y := b.measures[i]
		grown := func(from, to float64) string { return exponent(from, to, float64(b.nodes)/float64(a.nodes)) }
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\t\n", x.scenario,
			grown(float64(x.asked.others()), float64(y.asked.others())), grown(x.asked.time().Seconds(), y.asked.time().Seconds()),
			grown(x.slurmctld.Seconds(), y.slurmctld.Seconds()), grown(float64(x.sent), float64(y.sent)), grown(x.took.Seconds(), y.took.Seconds()))
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("cannot print the growth: %w", err)
	}
	return nil
}

// exponent is n in to = from × ratio^n.
func exponent(from, to, ratio float64) string {
	if from <= 0 || to <= 0 || ratio == 1 {
		return "-"
	}
	return fmt.Sprintf("%.2f", math.Log(to/from)/math.Log(ratio))
}

func tidy(d time.Duration) time.Duration {
	switch {
	case d > time.Minute:
		return d.Round(time.Second)
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

func size(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

type durations []time.Duration

// at is the duration that a part of all is not above.
func (d durations) at(part float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return tidy(sorted[int(math.Ceil(part*float64(len(d))))-1])
}
