package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/elastic"
	"github.com/slurmlet/slurmlet/internal/exposition"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// ElasticStatus is how the elastic node sets stand.
type ElasticStatus struct {
	// Revision grows with each change of the nodes, and Looked is when slurmctld was asked for them last; zero for
	// never.
	Revision uint64    `json:"revision"`
	Looked   time.Time `json:"looked,omitzero"`
	// Fault is why files of SLURMLET_ELASTIC_SETS do not count.
	Fault string       `json:"fault,omitempty"`
	Sets  []ElasticSet `json:"sets"`
}

// ElasticSet is one of them. Counts are of node records.
type ElasticSet struct {
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
	Failing []ElasticFailure  `json:"failing,omitempty"`
	Kept    map[string]string `json:"kept,omitempty"`
	Refused map[string]string `json:"refused,omitempty"`
	// Foreign are records with names of the set that are not the set's.
	Foreign string `json:"foreign,omitempty"`
	starts  startTimes
}

// ElasticFailure is what keeps pods from starting.
type ElasticFailure struct {
	Nodes  string    `json:"nodes"`
	Reason string    `json:"reason"`
	Note   string    `json:"note,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// newElasticStatus is what a plan shows.
func newElasticStatus(look elastic.Look, plan elastic.Plan, starts map[string]*startTimes) ElasticStatus {
	s := ElasticStatus{Looked: look.At, Sets: []ElasticSet{}}
	for _, one := range plan.Sets {
		set := ElasticSet{
			Name: one.Name, Removed: one.Removed, Nodes: one.Nodes, Min: one.Min, Records: one.Records,
			Wanted: len(one.Wanted), WantedNodes: joined(one.Wanted), Up: len(one.Up),
			Starting: len(one.Starting), StartingNodes: joined(one.Starting), Since: one.Since,
			Ending: len(one.Ending), Failed: len(one.Failed), FailedNodes: joined(one.Failed), Retry: one.Retry,
			Kept: byReason(one.Kept), Refused: byReason(one.Refused), Foreign: joined(one.Foreign),
		}
		for _, f := range one.Failing {
			set.Failing = append(set.Failing, ElasticFailure{f.Nodes, f.Reason, f.Note, f.Since})
		}
		if t := starts[one.Name]; t != nil {
			set.starts = *t
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

// told is nil where there are no elastic sets.
func (e *elasticNodes) told() *ElasticStatus {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.status
	if e.fault != nil {
		s.Fault = e.fault.Error()
	}
	return &s
}

func (s *ElasticStatus) rows(row func(name, format string, args ...any)) {
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

func (s *ElasticSet) rows(row func(name, format string, args ...any)) {
	text := fmt.Sprintf("%s (%s): %d records, %d wanted, %d up, %d starting", s.Name, cmp.Or(s.Nodes, "removed"), s.Records, s.Wanted, s.Up, s.Starting)
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

// startBounds are of the histogram of starts.
var startBounds = [...]time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute}

// startTimes count how long nodes took from when they were wanted until they were up.
type startTimes struct {
	buckets [len(startBounds) + 1]int
	seconds float64
}

func (t *startTimes) add(d time.Duration) {
	i, _ := slices.BinarySearch(startBounds[:], d)
	t.buckets[i]++
	t.seconds += d.Seconds()
}

// exposeStarts writes the histogram.
func exposeStarts(w *exposition.Writer, s *ElasticStatus) {
	if s == nil || len(s.Sets) == 0 {
		return
	}
	const name = "slurmlet_elastic_start_seconds"
	w.Head(name, "Seconds from when Slurm wanted a node until it was up", exposition.Histogram)
	for i := range s.Sets {
		set, sum := &s.Sets[i], 0
		for i, n := range set.starts.buckets {
			bound := "+Inf"
			if i < len(startBounds) {
				bound = strconv.FormatFloat(startBounds[i].Seconds(), 'f', -1, 64)
			}
			sum += n
			w.Sample(name+"_bucket", exposition.Labels("set,le", set.Name, bound), float64(sum))
		}
		w.Sample(name+"_sum", exposition.Labels("set", set.Name), set.starts.seconds)
		w.Sample(name+"_count", exposition.Labels("set", set.Name), float64(sum))
	}
}

// elasticWait is how long a client of GET /elastic waits for a change: less than the socket's WriteTimeout.
const elasticWait = 8 * time.Second

// revisionHeader has the revision of an answer.
const revisionHeader = "Slurmlet-Revision"

// serveElastic answers with all elastic nodes as slurmlet's controller is told of them (peers.NodeReport). With
// ?after=REVISION it waits for another revision, and answers after some seconds in any case.
func (e *elasticNodes) serveElastic(w http.ResponseWriter, r *http.Request) {
	var after uint64
	if text := r.FormValue("after"); text != "" {
		var err error
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			http.Error(w, fmt.Sprintf("after: cannot use %q: want a revision, a whole number", text), http.StatusBadRequest)
			return
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), elasticWait)
	defer cancel()
	for {
		_, next := e.latest()
		e.mu.Lock()
		revision, reports := e.status.Revision, e.reports
		e.mu.Unlock()
		if revision == 0 && (after == 0 || ctx.Err() != nil) { // nobody knows the nodes: none would say that there are none
			http.Error(w, "slurmctld has not been asked for the nodes yet", http.StatusServiceUnavailable)
			return
		}
		if revision != 0 && (revision != after || ctx.Err() != nil) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set(revisionHeader, strconv.FormatUint(revision, 10))
			if len(reports) == 0 {
				_, _ = w.Write([]byte("[]\n")) // the reader has gone
				return
			}
			_ = json.NewEncoder(w).Encode(reports) // the reader has gone
			return
		}
		select {
		case <-ctx.Done():
		case <-next:
		}
	}
}
