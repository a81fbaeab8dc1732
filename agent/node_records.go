package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/link/confsync"
	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elasticnodes"
	"github.com/slurmlet/slurmlet/internal/slurmctld/noderecords"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// RecordsStatus is what slurmctld's agent tells slurmlet's controller, and what it does with the records
// of pods that are gone.
type RecordsStatus struct {
	// Looked is when slurmctld was asked for its nodes last, and told them; the counts are of that time.
	Looked time.Time `json:"looked,omitzero"`
	Idle   int       `json:"idle"`
	Busy   int       `json:"busy"`
	Absent int       `json:"absent"`
	// Connected counts nodes' agents that follow slurmctld's agent, or have done so a moment ago.
	Connected int `json:"connected"`
	// Fault is why slurmctld has told nothing since.
	Fault string `json:"fault,omitempty"`
	// Waiting counts pods that are gone whose records stay for now. Kept has some of them, and why.
	Waiting int               `json:"waiting"`
	Kept    map[string]string `json:"kept,omitempty"`
	// Deleted counts records, and Lost nodes whose machines were gone while jobs held them.
	Deleted int `json:"deleted"`
	Lost    int `json:"lost"`
}

// nodeRecords keeps slurmctld's node records and the cluster's pods in step. It asks slurmctld for all
// nodes, and for suspended jobs, while the controller is connected, and nothing while it is not.
//
// With 10,000 nodes one look costs slurmctld 20 ms for REQUEST_NODE_INFO, and 0.1 ms for each 1,000 jobs
// (REQUEST_JOB_STATE). Every 10 s that is 0.2 % of one core, and one report to the controller
// (noderecords.Report).
type nodeRecords struct {
	agent    *Agent
	look     *clusterview.Collector
	client   *peers.Client
	reporter *peers.Reporter
	// wake says that there may be something to do.
	wake chan struct{}

	mu   sync.Mutex
	pods *noderecords.Pods
	// soon is when to look before the interval is over; zero for not at all.
	soon  time.Time
	tally RecordsStatus

	// reporting is held by who reports; reported is of the look that was reported last.
	reporting sync.Mutex
	reported  time.Time

	// The rest is run's own. looked is when slurmctld was asked, and notBefore when it may be asked again.
	looked, notBefore time.Time
	// began is when nodes' agents could connect, and settles when those that live have done so.
	began, settles time.Time

	// ending are jobs of nodes that were set DOWN.
	ending []ending

	failures  int
	timeout   time.Duration // SlurmdTimeout, as it was at timeoutAt
	timeoutAt time.Time
}

const (
	// leastLook is the least time between two looks, and soonestLook between two that only a change or a
	// new pod has caused.
	leastLook   = 250 * time.Millisecond
	soonestLook = 2 * time.Second
	// usualLook is the interval where nothing is reported.
	usualLook = time.Minute
	// timeoutAge is how old what is known of SlurmdTimeout may be.
	timeoutAge = 10 * time.Minute
	// mostKept is how many records the status names.
	mostKept = 20
)

// newNodeLook asks slurmctld for all nodes, and for the nodes of suspended jobs.
func (a *Agent) newNodeLook(scontrol slurm.Scontrol) *clusterview.Collector {
	return clusterview.New(clusterview.Options{
		Stream: scontrol.Stream, Interval: elasticnodes.LookInterval, Only: []clusterview.Family{clusterview.FamilyNodes, clusterview.FamilySuspended},
		Timeout: a.questionLimit, Log: a.log,
	})
}

// newNodeRecords is nil where there is nothing to do.
func (a *Agent) newNodeRecords(look *clusterview.Collector) *nodeRecords {
	if a.Config.Peers == "" || a.Config.ReportInterval == 0 && !a.Config.GonePods {
		return nil
	}
	return &nodeRecords{agent: a, look: look, wake: make(chan struct{}, 1), pods: noderecords.NewPods()}
}

// follow gives it the controller.
func (r *nodeRecords) follow(c *peers.Client) {
	if r != nil {
		r.client, r.reporter = c, peers.NewReporter(c)
		if r.agent.elasticNodes != nil {
			r.reporter.Failing = r.agent.elasticNodes.PodsFailing
		}
	}
}

// changed takes a change of the table.
func (r *nodeRecords) changed(c peers.Change) {
	if r == nil {
		return
	}
	r.mu.Lock()
	if r.agent.Config.GonePods {
		r.pods.Take(c, time.Now())
	}
	if slices.ContainsFunc(c.Put, func(p peers.Peer) bool { return Role(p.Role) == Slurmd && len(p.Addresses) > 0 }) {
		r.lookSoon()
	}
	r.mu.Unlock()
	r.rouse()
}

// stir is told that slurmctld has changed nodes for their agents.
func (r *nodeRecords) stir() {
	r.mu.Lock()
	r.lookSoon()
	r.mu.Unlock()
	r.rouse()
}

// lookSoon is for the holder of mu.
func (r *nodeRecords) lookSoon() {
	if r.soon.IsZero() {
		r.soon = time.Now().Add(soonestLook)
	}
}

func (r *nodeRecords) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run looks and acts until ctx ends.
func (r *nodeRecords) run(ctx context.Context) {
	r.began = time.Now()
	_, _ = r.agent.feed.Recent(ctx, 0) // the port notes from now on who goes
	if r.agent.Config.ReportInterval > 0 {
		go r.reporter.Run(ctx)
	}
	for {
		published := r.agent.published.Next()
		var due <-chan time.Time
		if at := r.next(); !at.IsZero() {
			due = time.After(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-published:
		case <-due:
			r.round(ctx)
		}
	}
}

// interval is the time between two looks that nothing has caused.
func (r *nodeRecords) interval() time.Duration {
	if d := r.agent.Config.ReportInterval; d > 0 {
		return d
	}
	return usualLook
}

// next is when slurmctld is to be asked; zero while there is no controller, or no slurmctld.
func (r *nodeRecords) next() (at time.Time) {
	if !r.client.Status().Connected || !r.agent.status.Load().State.Serving() {
		return time.Time{}
	}
	at = r.looked.Add(r.interval())
	r.mu.Lock()
	_, gone := r.pods.Gone()
	if !gone.IsZero() && gone.Before(r.settles) {
		gone = r.settles
	}
	for _, sooner := range []time.Time{r.soon, gone} {
		if !sooner.IsZero() && sooner.Before(at) {
			at = sooner
		}
	}
	r.mu.Unlock()
	if at.Before(r.notBefore) {
		at = r.notBefore
	}
	return at
}

// round asks slurmctld, tells the controller, and does what follows. A slurmctld that does not answer is
// no news: nothing becomes idle or absent, and no record goes.
func (r *nodeRecords) round(ctx context.Context) {
	began := time.Now()
	r.mu.Lock()
	r.soon = time.Time{}
	r.mu.Unlock()
	question, cancel := context.WithTimeout(ctx, 2*r.agent.questionLimit())
	defer cancel()
	v := r.look.Get(question, 0)
	nodes, suspended := v.Readings[clusterview.FamilyNodes], v.Readings[clusterview.FamilySuspended]
	if err := errors.Join(nodes.Err, suspended.Err); err != nil {
		r.looked, r.notBefore = began, time.Now().Add(backoff.Grow(time.Second, r.failures, backoff.LastQuiet))
		r.failures++
		r.note(func(s *RecordsStatus) { s.Fault = err.Error() })
		return
	}
	r.notBefore = time.Now().Add(leastLook)
	if nodes.At.Before(began) {
		return // slurmctld is slow, and is asked only now and then
	}
	r.looked, r.failures = began, 0
	sets, _ := r.agent.elasticNodes.Current()
	r.report(r.agent.elasticNodes.Reports(v.Nodes, v.Suspended, sets.Members(v.Nodes), nodes.At), nodes.At)
	if r.agent.Config.GonePods {
		r.settle(ctx, noderecords.Records{At: nodes.At, Nodes: v.Nodes, Suspended: v.Suspended})
	}
}

// report tells the controller of all nodes, unless it has heard of a later look.
func (r *nodeRecords) report(report []peers.NodeReport, at time.Time) {
	if r == nil || r.client == nil {
		return
	}
	r.reporting.Lock()
	defer r.reporting.Unlock()
	if at.Before(r.reported) {
		return
	}
	r.reported = at
	r.count(report, at)
	if r.agent.Config.ReportInterval > 0 {
		r.reporter.Set(report)
	}
}

func (r *nodeRecords) count(report []peers.NodeReport, at time.Time) {
	count := map[peers.State]int{}
	for _, n := range report {
		count[n.State]++
	}
	r.note(func(s *RecordsStatus) {
		s.Looked, s.Fault, s.Idle, s.Busy, s.Absent = at, "", count[peers.Idle], count[peers.Busy], count[peers.Absent]
	})
}

func (r *nodeRecords) note(change func(*RecordsStatus)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.tally)
}

// settle does what is to be done with the records of the pods that are gone.
func (r *nodeRecords) settle(ctx context.Context, records noderecords.Records) {
	question, cancel := context.WithTimeout(ctx, time.Second)
	away := confsync.MostAway(len(records.Nodes))
	r.settles = r.began.Add(away)
	connected, err := r.agent.feed.Recent(question, away)
	cancel()
	if err != nil || !r.client.Status().Fresh() || time.Now().Before(r.settles) {
		return // the table may be an old one, and agents may not have come back yet
	}
	r.note(func(s *RecordsStatus) { s.Connected = len(connected) })
	records.Connected = func(name string) bool {
		_, found := slices.BinarySearch(connected, name)
		return found
	}
	if time.Since(r.timeoutAt) < timeoutAge {
		records.SlurmdTimeout = r.timeout
	}
	r.mu.Lock()
	plan := r.pods.Plan(records, time.Now())
	r.mu.Unlock()
	r.tell(plan)
	if plan.Unsettled {
		r.learnTimeout(ctx)
	}
	r.agent.feed.Doubt(plan.Doubt)
	r.hold(ctx, plan.Held)
	r.agent.keptRecords.Keep(plan.Stay)
	r.fail(ctx, plan.Fail)
	r.delete(ctx, plan.Delete)
}

func (r *nodeRecords) learnTimeout(ctx context.Context) {
	if time.Since(r.timeoutAt) < timeoutAge {
		return
	}
	question, cancel := context.WithTimeout(ctx, r.agent.questionLimit())
	defer cancel()
	conf, err := r.agent.client.Config(question)
	if err == nil {
		r.timeout, err = conf.Seconds("SlurmdTimeout")
	}
	if err != nil {
		r.agent.log(slog.LevelDebug, "cannot ask slurmctld for SlurmdTimeout", slog.Any("error", err))
		return
	}
	r.timeoutAt = time.Now()
}

// listOf is for the log.
func listOf(names []string) slog.Attr {
	return slog.String("nodes", hostlist.Of(slices.Values(slices.Sorted(slices.Values(names)))).String())
}

// tell logs what is new about the pods that are gone, once for all nodes of which it is true.
func (r *nodeRecords) tell(plan noderecords.Plan) {
	names := map[string][]string{}
	for name, why := range plan.Told {
		names[why] = append(names[why], name)
	}
	doubted := map[string]bool{}
	for _, name := range plan.Doubt {
		doubted[name] = true
	}
	for _, why := range slices.Sorted(maps.Keys(names)) {
		level := slog.LevelDebug
		if doubted[names[why][0]] {
			level = slog.LevelWarn
		}
		r.agent.log(level, "pods of nodes are gone: "+why, listOf(names[why]))
	}
}

// delete deletes records with one command.
func (r *nodeRecords) delete(ctx context.Context, names []string) {
	if names = r.over(ctx, names); len(names) == 0 {
		return
	}
	said := r.agent.keptRecords.Delete(ctx, names)
	var deleted []string
	kept := map[string]string{}
	for _, name := range names {
		switch err := said[name]; {
		case errors.Is(err, slurm.ErrKept):
			kept[name] = strings.TrimPrefix(err.Error(), slurm.ErrKept.Error()+": ")
		case err != nil:
			r.refused(name, err, slog.LevelDebug)
		default:
			deleted = append(deleted, name)
		}
	}
	if len(kept) > 0 {
		r.agent.keptRecords.Keep(kept)
	}
	if len(deleted) > 0 {
		r.agent.log(slog.LevelInfo, "deleted the records of nodes whose pods are gone", listOf(deleted))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range kept {
		r.pods.Deleted(name) // it is settled: they look after it
	}
	if len(deleted) == 0 {
		return
	}
	r.tally.Deleted += len(deleted)
	for _, name := range deleted {
		r.pods.Deleted(name)
	}
	r.lookSoon()
}

func (r *nodeRecords) refused(name string, err error, level slog.Level) {
	r.agent.log(level, "slurmctld keeps a node whose pod is gone", slog.String("node", name), slog.Any("error", err))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods.Refused(name, err.Error())
}

// told is nil where there is no controller to tell.
func (r *nodeRecords) told() *RecordsStatus {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s, kept := r.tally, r.pods.Kept()
	s.Waiting = len(kept)
	if len(kept) > 0 {
		s.Kept = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(kept))[:min(len(kept), mostKept)] {
		s.Kept[name] = kept[name]
	}
	return &s
}

func (s *RecordsStatus) rows(row func(name, format string, args ...any)) {
	if s.Looked.IsZero() {
		row("Nodes", "slurmctld has not been asked for the controller yet")
	} else {
		row("Nodes", "%d idle, %d busy, %d absent, %d agents connected at %s", s.Idle, s.Busy, s.Absent, s.Connected, s.Looked.Format(time.RFC3339))
	}
	if s.Fault != "" {
		row("Fault", "%s", s.Fault)
	}
	if s.Waiting > 0 || s.Deleted > 0 || s.Lost > 0 {
		row("Pods gone", "%d records deleted, %d nodes lost with jobs, %d records stay for now", s.Deleted, s.Lost, s.Waiting)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Kept)) {
		row("Record stays", "%s", fmt.Sprintf("%s: %s", name, s.Kept[name]))
	}
}
