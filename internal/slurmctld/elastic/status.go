package elastic

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/exposition"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic/planner"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// Status is how the elastic node sets stand.
type Status struct {
	// Revision grows with each change of the nodes, and Looked is when slurmctld was asked for them last; zero for
	// never.
	Revision uint64    `json:"revision"`
	Looked   time.Time `json:"looked,omitzero"`
	// Fault is why files of SLURMLET_ELASTIC_SETS do not count.
	Fault string      `json:"fault,omitempty"`
	Sets  []SetStatus `json:"sets"`
}

// SetStatus is how one of them stands. Counts are of node records.
type SetStatus struct {
	Name string `json:"name"`
	// Removed: there is no such set any more, and records of it are left.
	Removed bool   `json:"removed,omitempty"`
	Nodes   string `json:"nodes,omitempty"`
	Min     int    `json:"min"`
	Records int    `json:"records"`
	// Wanted are nodes whose pods Slurm wants, WantedNodes as a host list.
	Wanted      int    `json:"wanted"`
	WantedNodes string `json:"wanted_nodes,omitempty"`
	Up          int    `json:"up"`
	// Starting are wanted and not up yet, the first of them since Since.
	Starting      int       `json:"starting"`
	StartingNodes string    `json:"starting_nodes,omitempty"`
	Since         time.Time `json:"starting_since,omitzero"`
	Ending        int       `json:"ending"`
	// Failed are DOWN because they did not start; the first of them is tried again at Retry.
	Failed      int       `json:"failed"`
	FailedNodes string    `json:"failed_nodes,omitempty"`
	Retry       time.Time `json:"retry,omitzero"`
	// Failing are pods that do not start, Kept records that should be others or none, Refused what slurmctld has
	// refused, by the nodes of which it is true.
	Failing []Failure         `json:"failing,omitempty"`
	Kept    map[string]string `json:"kept,omitempty"`
	Refused map[string]string `json:"refused,omitempty"`
	// Foreign are records with names of the set that are not the set's.
	Foreign string `json:"foreign,omitempty"`
	// Starts are a metric.
	Starts exposition.Durations `json:"-"`
}

// Failure is what keeps pods from starting.
type Failure struct {
	Nodes  string    `json:"nodes"`
	Reason string    `json:"reason"`
	Note   string    `json:"note,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// newStatus makes the part of slurmlet status that a plan shows.
func newStatus(look planner.Look, plan planner.Plan, starts map[string]*exposition.Durations) Status {
	s := Status{Looked: look.At, Sets: []SetStatus{}}
	for _, one := range plan.Standings {
		set := SetStatus{
			Name: one.Name, Removed: one.Removed, Nodes: one.Nodes, Min: one.Min, Records: one.Records,
			Wanted: len(one.Wanted), WantedNodes: joined(one.Wanted), Up: len(one.Up),
			Starting: len(one.Starting), StartingNodes: joined(one.Starting), Since: one.Since,
			Ending: len(one.Ending), Failed: len(one.Failed), FailedNodes: joined(one.Failed), Retry: one.Retry,
			Kept: byReason(one.Kept), Refused: byReason(one.Refused), Foreign: joined(one.Foreign),
		}
		for _, f := range one.Failing {
			set.Failing = append(set.Failing, Failure{f.Nodes, f.Reason, f.Note, f.Since})
		}
		if t := starts[one.Name]; t != nil {
			set.Starts = *t
		}
		s.Sets = append(s.Sets, set)
	}
	return s
}

func joined(names []string) string { return hostlist.Of(slices.Values(names)).Set().String() }

// byReason turns nodes with their reasons into host lists with theirs.
func byReason(of map[string]string) map[string]string {
	names := map[string][]string{}
	for name, why := range of {
		names[why] = append(names[why], name)
	}
	all := map[string]string{}
	for why, some := range names {
		all[joined(some)] = why
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// Status is nil where there are no elastic sets.
func (r *Reconciler) Status() *Status {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	if r.fault != nil {
		s.Fault = r.fault.Error()
	}
	return &s
}

// Rows shows it to people.
func (s *Status) Rows(row func(name, format string, args ...any)) {
	for line := range strings.Lines(s.Fault) {
		row("Fault", "%s", strings.TrimSpace(line))
	}
	if s.Looked.IsZero() {
		row("Elastic sets", "slurmctld has not been asked for their nodes yet")
	}
	for i := range s.Sets {
		s.Sets[i].rows(row)
	}
}

func (s *SetStatus) rows(row func(name, format string, args ...any)) {
	text := fmt.Sprintf("%s (%s): %d records, %d wanted, %d up, %d starting", s.Name, cmp.Or(s.Nodes, "removed"),
		s.Records, s.Wanted, s.Up, s.Starting)
	if s.Ending > 0 {
		text += fmt.Sprintf(", %d ending", s.Ending)
	}
	if s.Failed > 0 {
		text += fmt.Sprintf(", %d failed", s.Failed)
	}
	if s.Min > 0 {
		text += fmt.Sprintf(", at least %d stay", s.Min)
	}
	row("Elastic set", "%s", text)
	if s.Starting > 0 {
		row("Starting", "%s since %s", s.StartingNodes, s.Since.Format(time.RFC3339))
	}
	for _, f := range s.Failing {
		row("Does not start", "%s since %s: %s %s", f.Nodes, f.Since.Format(time.RFC3339), f.Reason, f.Note)
	}
	if s.Failed > 0 {
		text := s.FailedNodes
		if !s.Retry.IsZero() {
			text += ", tried again at " + s.Retry.Format(time.RFC3339)
		}
		row("Failed", "%s", text)
	}
	for _, nodes := range slices.Sorted(maps.Keys(s.Kept)) {
		row("Record stays", "%s: %s", nodes, s.Kept[nodes])
	}
	for _, nodes := range slices.Sorted(maps.Keys(s.Refused)) {
		row("Fault", "slurmctld refuses for %s: %s", nodes, s.Refused[nodes])
	}
	if s.Foreign != "" {
		row("Fault", "records have names of the elastic set %s and are none of it: %s", s.Name, s.Foreign)
	}
}
