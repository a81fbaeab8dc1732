package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/backoff"
	"github.com/slurmlet/slurmlet/internal/clusterview"
	"github.com/slurmlet/slurmlet/internal/elastic"
	"github.com/slurmlet/slurmlet/internal/merge"
	"github.com/slurmlet/slurmlet/internal/noderecords"
	"github.com/slurmlet/slurmlet/internal/peers"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/watch"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// elasticNodes keeps the records of the elastic node sets (internal/elastic). It looks at the nodes at once
// when somebody rouses it, every other second while nodes start or end, and else each minute.
type elasticNodes struct {
	agent *Agent
	look  *clusterview.Collector
	wake  chan struct{}
	// looked rings after each look.
	looked bell

	mu   sync.Mutex
	sets elastic.Sets
	read bool // the directory was read
	view *clusterview.View
	// fault is why files of the directory do not count.
	fault error
	// roused is when somebody wanted a look last; zero after one.
	roused time.Time
	pods   elasticPods
	// failing are the pods that do not start, as the controller told at failingAt.
	failing   []peers.Failure
	failingAt time.Time
	status    ElasticStatus
	reports   []peers.NodeReport
	starts    map[string]*startTimes

	// The rest is run's own.
	keeper   *elastic.Keeper
	acted    time.Time // when records were changed last
	next     time.Time
	failures int
	known    knownConf
	foreign  map[string]string // what was logged of sets
}

// knownConf is what slurmctld has told of its configuration at a time.
type knownConf struct {
	at            time.Time
	resumeTimeout time.Duration
	timed         bool
}

const (
	// soonestElastic is the least time between two looks at the nodes.
	soonestElastic = 50 * time.Millisecond
	// elasticLimit bounds one command. slurmctld takes a second for the records of 10,000 nodes.
	elasticLimit = 30 * time.Second
	// youngLook is how old a look may be that more than one change is made by.
	youngLook = 2 * time.Second
	// mostHalves is how many commands there are at most where slurmctld refuses one for a list.
	mostHalves = 64
	// elasticCalm is how long the directory must be left alone.
	elasticCalm = 50 * time.Millisecond
)

// newNodeLook asks slurmctld for all nodes, and for the nodes of suspended jobs.
func (a *Agent) newNodeLook(scontrol slurm.Scontrol) *clusterview.Collector {
	return clusterview.New(clusterview.Options{
		Stream: scontrol.Stream, Interval: soonestElastic, Only: []clusterview.Family{clusterview.FamilyNodes, clusterview.FamilySuspended},
		Timeout: a.questionLimit, Log: a.log,
	})
}

// newElasticNodes is nil where there are no elastic sets.
func (a *Agent) newElasticNodes(look *clusterview.Collector) *elasticNodes {
	if a.Config.ElasticSets == "" {
		return nil
	}
	return &elasticNodes{agent: a, look: look, wake: make(chan struct{}, 1), keeper: elastic.NewKeeper(), foreign: map[string]string{}, starts: map[string]*startTimes{}}
}

// rouse has the nodes looked at at once.
func (e *elasticNodes) rouse() {
	if e == nil {
		return
	}
	e.mu.Lock()
	e.roused = time.Now() // the last time counts: a look that is under way has not seen what somebody tells now
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// current are the sets that count. known says whether the directory was read at all.
func (e *elasticNodes) current() (sets elastic.Sets, known bool) {
	if e == nil {
		return elastic.Sets{}, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sets, e.read
}

// latest is the last look, nil before the first, and a channel that is closed after the next.
func (e *elasticNodes) latest() (*clusterview.View, <-chan struct{}) {
	next := e.looked.next()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.view, next
}

// open reads the sets before slurmctld starts, whose configuration depends on them.
func (e *elasticNodes) open() {
	if e != nil {
		e.readSets()
	}
}

// run looks and acts until ctx ends.
func (e *elasticNodes) run(ctx context.Context) {
	files := watch.New(watch.Options{Done: e.agent.over, Calm: watch.For(elasticCalm), Changed: func() {
		if e.readSets() {
			e.agent.members.reserve()
			e.agent.conf.Reread(e.agent.post)
			e.rouse()
		}
	}})
	if err := files.Add(filepath.Join(e.agent.Root, e.agent.Config.ElasticSets)); err != nil {
		e.agent.log(slog.LevelWarn, "the kernel cannot tell of changes of SLURMLET_ELASTIC_SETS: it is looked at every "+watch.Every.String(), slog.Any("error", err))
		files.Tick(watch.Every)
	}
	files.Look() // a change before the watch has no event
	go files.Run()
	live := ""
	for {
		published := e.agent.published.next()
		var due <-chan time.Time
		if s := e.agent.status.Load(); s.State.Serving() {
			if s.Conf != nil && s.Conf.Live != live {
				live, e.known.at = s.Conf.Live, time.Time{}
				e.rouse() // a reconfigure takes weights back
			}
			due = time.After(time.Until(e.due()))
		}
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		case <-published:
		case <-due:
			e.round(ctx)
		}
	}
}

// due is when to look next.
func (e *elasticNodes) due() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.roused.IsZero() && e.failures == 0 {
		return e.roused
	}
	return e.next
}

// round looks at the nodes. A slurmctld that does not answer is no news.
func (e *elasticNodes) round(ctx context.Context) {
	e.mu.Lock()
	roused := e.roused
	e.mu.Unlock()
	e.learn(ctx) // before the look, which must be young
	question, cancel := context.WithTimeout(ctx, 2*e.agent.questionLimit())
	defer cancel()
	v := e.look.Get(question, 0)
	nodes, suspended := v.Readings[clusterview.FamilyNodes], v.Readings[clusterview.FamilySuspended]
	if err := errors.Join(nodes.Err, suspended.Err); err != nil {
		e.next = time.Now().Add(backoff.Grow(time.Second, e.failures, backoff.LastQuiet))
		e.failures++
		return
	}
	e.failures = 0
	e.mu.Lock()
	e.view = v
	sets, known := e.sets, e.read
	stale := nodes.At.Before(e.acted) || suspended.At.Before(e.acted)
	switch {
	case !e.roused.Equal(roused) && !stale:
	case nodes.At.Before(roused), stale:
		e.roused = time.Now().Add(soonestElastic) // the collector has not asked anew yet
	default:
		e.roused = time.Time{}
	}
	e.mu.Unlock()
	e.next = time.Now().Add(usualLook)
	if !known || stale { // 24.11 deletes a record, and may crash, when one is made that a stale look lacks
		e.looked.ring()
		return
	}
	e.act(ctx, v, sets)
}

// act plans, tells, and does what there is to do, as long as the look is young: where slurmctld takes its time, jobs
// get nodes meanwhile.
func (e *elasticNodes) act(ctx context.Context, v *clusterview.View, sets elastic.Sets) {
	look := elastic.Look{
		At: v.Readings[clusterview.FamilyNodes].At, Nodes: v.Nodes, Suspended: v.Suspended, Sets: sets,
		Pod: e.podNames(), Failing: e.fails(), ResumeTimeout: e.known.resumeTimeout, Timed: e.known.timed,
	}
	plan := e.keeper.Plan(look, time.Now())
	e.tell(look, plan)
	for i := range plan.Steps {
		if i > 0 && time.Since(look.At) > youngLook {
			break
		}
		e.do(ctx, &plan.Steps[i])
	}
	switch {
	case len(plan.Steps) > 0:
		e.acted = time.Now()
		e.rouse()
	case !plan.Next.IsZero() && plan.Next.Before(e.next):
		e.next = plan.Next
	}
}

// tell publishes what a look has shown, and reports it to the controller.
func (e *elasticNodes) tell(look elastic.Look, plan elastic.Plan) {
	all := e.report(look.Nodes, look.Suspended, plan.Elastic, look.At)
	reports := slices.DeleteFunc(slices.Clone(all), func(n peers.NodeReport) bool { return n.Elastic == "" })
	e.mu.Lock()
	revision := e.status.Revision
	if revision == 0 || !slices.Equal(reports, e.reports) {
		revision++
	}
	e.reports = reports
	for _, s := range plan.Started {
		if e.starts[s.Set] == nil {
			e.starts[s.Set] = &startTimes{}
		}
		e.starts[s.Set].add(s.Took)
	}
	e.status = newElasticStatus(look, plan, e.starts)
	e.status.Revision = revision
	e.mu.Unlock()
	e.looked.ring()
	e.agent.records.report(all, look.At)
	for _, s := range plan.Sets {
		if names := joined(s.Foreign); names != e.foreign[s.Name] {
			e.foreign[s.Name] = names
			if names != "" {
				e.agent.log(slog.LevelError, s.Name+elastic.Suffix+": nodes: records have these names that are no elastic nodes; they stay as they are", slog.String("nodes", names))
			}
		}
	}
}

// do makes one step.
func (e *elasticNodes) do(ctx context.Context, s *elastic.Step) {
	client, list := e.agent.client, hostlist.Of(slices.Values(s.Nodes)).String()
	e.agent.log(slog.LevelInfo, "elastic nodes: "+string(s.Verb), slog.String("nodes", list), slog.String("why", s.Text))
	update := func(fields ...string) func(context.Context, string) error {
		return func(ctx context.Context, names string) error { return client.UpdateNode(ctx, names, fields) }
	}
	var said map[string]error
	switch s.Verb {
	case elastic.Create:
		// Not for a part of the list again: 24.11 deletes a record that is created twice.
		said = e.each(ctx, s.Nodes, 1, func(ctx context.Context, names string) error {
			return client.CreateNodes(ctx, names, strings.Fields(s.Text))
		})
		e.settle(ctx, s, said, !e.known.timed)
	case elastic.Settle:
		said = map[string]error{}
		e.settle(ctx, s, said, true)
	case elastic.Fail:
		said = e.each(ctx, s.Nodes, mostHalves, func(ctx context.Context, names string) error { return client.FailNode(ctx, names, s.Text) })
	case elastic.Drain:
		said = e.each(ctx, s.Nodes, mostHalves, func(ctx context.Context, names string) error { return client.DrainNode(ctx, names, s.Text) })
	case elastic.Resume:
		said = e.each(ctx, s.Nodes, mostHalves, client.ResumeNode)
	case elastic.Delete:
		said = e.each(ctx, s.Nodes, mostHalves, func(ctx context.Context, names string) error {
			_, err := client.DeleteNodes(ctx, names)
			return err
		})
	case elastic.Update:
		said = e.each(ctx, s.Nodes, mostHalves, update(s.Fields...))
	case elastic.PowerUp, elastic.PowerDown:
		said = e.each(ctx, s.Nodes, mostHalves, update("state="+string(s.Verb)))
	}
	refused := map[string][]string{}
	for _, name := range s.Nodes {
		err := said[name]
		e.keeper.Tried(s, name, err, time.Now())
		if err != nil {
			refused[err.Error()] = append(refused[err.Error()], name)
		}
	}
	for why, names := range refused {
		e.agent.log(slog.LevelWarn, "slurmctld refuses: "+string(s.Verb), listOf(names), slog.String("error", why))
	}
}

// settle marks new records. Before that it has slurmctld take them for nodes that jobs may have, where that is needed.
func (e *elasticNodes) settle(ctx context.Context, s *elastic.Step, said map[string]error, needed bool) {
	client := e.agent.client
	runs := []func(context.Context, string) error{
		func(ctx context.Context, names string) error { return client.FailNode(ctx, names, elastic.ReasonNew) },
		client.ResumeNode,
		func(ctx context.Context, names string) error { return client.UpdateNode(ctx, names, s.Fields) },
	}
	if !needed {
		runs = runs[2:]
	}
	for _, run := range runs {
		good := slices.DeleteFunc(slices.Clone(s.Nodes), func(name string) bool { return said[name] != nil })
		maps.Copy(said, e.each(ctx, good, mostHalves, run))
	}
}

// each runs a command for all nodes. slurmctld has changed a part of a list that it refuses, and does not say
// which. So the command is run again for halves of the list, and so many commands at most.
func (e *elasticNodes) each(ctx context.Context, nodes []string, most int, run func(ctx context.Context, names string) error) map[string]error {
	said, left := map[string]error{}, most
	var try func([]string)
	try = func(names []string) {
		left--
		limited, cancel := context.WithTimeout(ctx, elasticLimit)
		err := run(limited, hostlist.Of(slices.Values(names)).String())
		cancel()
		if err == nil || len(names) == 1 || left < 2 || errors.Is(err, slurm.ErrUnreachable) {
			for _, name := range names {
				said[name] = err
			}
			return
		}
		try(names[:len(names)/2])
		try(names[len(names)/2:])
	}
	for _, part := range merge.Parts(nodes) {
		try(part)
	}
	return said
}

// changed takes a change of the controller's table.
func (e *elasticNodes) changed(c peers.Change) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if stirred := e.pods.take(c); stirred || len(c.Gone) > 0 && e.ending() {
		go e.rouse()
	}
}

// ending: somebody waits for the end of a pod. The caller holds mu.
func (e *elasticNodes) ending() bool {
	return slices.ContainsFunc(e.status.Sets, func(s ElasticSet) bool { return s.Ending > 0 })
}

// podNames is nil while nobody knows the pods.
func (e *elasticNodes) podNames() func(string) bool {
	if e.agent.members == nil || !e.agent.members.client.Status().Fresh() {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pods.names()
}

// report is what the controller is told of all nodes. sets has the elastic sets, by node.
func (e *elasticNodes) report(nodes []clusterview.Node, suspended map[string]bool, sets map[string]string, at time.Time) []peers.NodeReport {
	all := noderecords.Report(nodes, suspended, sets)
	if e == nil {
		return all
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if old := e.pods.replace(all, nodes, at); len(old) > 0 {
		e.agent.log(slog.LevelInfo, "slurmctld wants nodes again whose old pods are still there: they are replaced, because it takes no slurmd that is older", listOf(old))
	}
	return all
}

// mostFailing bounds the nodes that are named there: a controller that is taken over costs the agent no more.
const mostFailing = 100_000

// failed takes what the controller tells of pods that do not start.
func (e *elasticNodes) failed(f peers.Failing) {
	named := uint64(0)
	for _, one := range f.Pods {
		count, err := hostlist.Count(one.Nodes)
		if named += count; err != nil || named > mostFailing {
			e.agent.log(slog.LevelWarn, fmt.Sprintf("the controller tells of pods that do not start, and names no nodes, or more than %d", mostFailing))
			return
		}
	}
	e.mu.Lock()
	e.failing, e.failingAt = f.Pods, time.Now()
	e.mu.Unlock()
	e.rouse()
}

// failingAge is how long that counts. A controller that is there tells it each minute, and each 5 s while pods start.
// One that is away may have told of a pod that is no more, and its node would be DOWN at once when it is wanted again.
const failingAge = 2 * time.Minute

func (e *elasticNodes) fails() []peers.Failure {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.failingAt) > failingAge {
		return nil
	}
	return e.failing
}

// learn asks slurmctld for ResumeTimeout, which is 0 while it is not known, and whether records have a SuspendTime of
// their own.
func (e *elasticNodes) learn(ctx context.Context) {
	if time.Since(e.known.at) < timeoutAge {
		return
	}
	question, cancel := context.WithTimeout(ctx, e.agent.questionLimit())
	defer cancel()
	conf, err := e.agent.client.Config(question)
	if err == nil {
		e.known.timed = conf["SLURM_VERSION"] >= "26" // after 25.11
		e.known.resumeTimeout, err = conf.Seconds("ResumeTimeout")
	}
	if err != nil {
		e.agent.log(slog.LevelDebug, "cannot ask slurmctld for ResumeTimeout", slog.Any("error", err))
		return
	}
	e.known.at = time.Now()
}

// has says whether a set has a node.
func (e *elasticNodes) has(node string) bool {
	sets, _ := e.current()
	_, has := sets.Of(node)
	return has
}
