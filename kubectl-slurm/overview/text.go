package overview

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteText writes the report for people.
func (r Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "Cluster %s in namespace %s\n\n", r.Cluster, r.Namespace)
	var table strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for _, d := range r.Daemons {
		where := d.Pod
		if d.Machine != "" {
			where += " on " + d.Machine
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", d.Role, d.State, where, d.Reason)
	}
	for _, s := range r.Sets {
		states := ""
		if len(r.Nodes) == 0 {
			states = counts(s.States)
		}
		fmt.Fprintf(t, "nodes %s\t%d of %d Ready\t%s\t\n", s.Name, s.Ready, s.Pods, states)
	}
	if len(r.Nodes) > 0 {
		fmt.Fprintf(t, "nodes\t\t%s\t\n", counts(r.Nodes))
	}
	if r.Jobs != nil {
		fmt.Fprintf(t, "jobs\t\t%s\t\n", counts(r.Jobs))
	}
	if r.Configuration != "" {
		state := "live"
		if len(r.Refused) > 0 {
			state = "an edit is refused"
		}
		fmt.Fprintf(t, "configuration\t%s\t%s\t\n", state, r.Configuration)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(table.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
	section(w, "Refused edit of slurm.conf", r.Refused)
	var drains []string
	for _, d := range r.Drains {
		since := ""
		if d.Since != "" {
			since = " since " + d.Since
		}
		drains = append(drains, fmt.Sprintf("%s: %s by %s%s: %s", d.Nodes, d.State, d.Owner, since, d.Reason))
	}
	section(w, "Nodes without new jobs", drains)
	section(w, "Warnings", r.Warnings)
	section(w, "Not known", r.Unknown)
	return nil
}

func section(w io.Writer, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	for _, line := range lines {
		fmt.Fprintf(w, "  %s\n", line)
	}
}

// counts are "3 idle, 1 mixed", the most first.
func counts(of map[string]int) string {
	if len(of) == 0 {
		return "none"
	}
	states := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		if of[a] != of[b] {
			return of[b] - of[a]
		}
		return strings.Compare(a, b)
	})
	for i, state := range states {
		states[i] = fmt.Sprintf("%d %s", of[state], strings.ToLower(state))
	}
	return strings.Join(states, ", ")
}
