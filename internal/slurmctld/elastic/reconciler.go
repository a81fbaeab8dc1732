package elastic

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/kit/exposition"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/pod/watch"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic/planner"
)

// Options are a Reconciler's surroundings.
type Options struct {
	// Dir has the files of the sets (SLURMLET_ELASTIC_SETS). GresConf is where slurmctld's part of gres.conf goes.
	Dir, GresConf string
	// Nodes asks slurmctld for all nodes, and for the nodes of suspended jobs. LookInterval is its Interval.
	Nodes  *clusterview.Collector
	Client slurm.Client
	// QuestionLimit bounds one question to slurmctld.
	QuestionLimit func() time.Duration
	// Slurmctld says whether slurmctld serves, and which configuration it has in place. Published is closed when
	// that may have changed.
	Slurmctld func() (serves bool, conf string)
	Published func() <-chan struct{}
	// PodsKnown says whether the controller's table of the pods is up to date.
	PodsKnown func() bool
	// Report reports all nodes to the controller. at is when slurmctld was asked for them.
	Report func(all []wire.NodeReport, at time.Time)
	// SetsChanged is called after a change of the files has changed the sets.
	SetsChanged func()
	// Done ends the watch of the files.
	Done <-chan struct{}
	Log  func(slog.Level, string, ...slog.Attr)
}

// Reconciler keeps the records of the elastic node sets. It looks at the nodes at once when somebody rouses it, every
// other second while nodes start or end, and else each minute.
type Reconciler struct {
	Options
	wake chan struct{}

	mu   sync.Mutex
	sets planner.Sets
	read bool // the directory was read
	// looked is closed after the next look.
	looked chan struct{}
	// fault is why files of the directory do not count.
	fault error
	// wakeAt is when somebody wanted a look last; zero after one.
	wakeAt time.Time
	pods   podTable
	// podFailures are the pods that do not start, as the controller sent them at failingAt.
	podFailures    []wire.Failure
	failingAt      time.Time
	status         Status
	elasticReports []wire.NodeReport
	starts         map[string]*exposition.Durations

	// The rest is Run's own.
	keeper   *planner.Keeper
	acted    time.Time // when records were changed last
	next     time.Time
	failures int
	known    knownConf
	foreign  map[string]string // what was logged of sets
}

// confAge is how old what is known of slurmctld's configuration may be.
const confAge = 10 * time.Minute

// knownConf is what slurmctld has said of its configuration at a time.
type knownConf struct {
	at            time.Time
	resumeTimeout time.Duration
	timed         bool
}

const (
	// LookInterval is the least time between two looks at the nodes, and usualLook is the one where nothing happens.
	LookInterval = 50 * time.Millisecond
	usualLook    = time.Minute
	// commandLimit bounds one command. slurmctld takes a second for the records of 10,000 nodes.
	commandLimit = 30 * time.Second
	// youngLook is how old a look may be for the second and later changes of a plan.
	youngLook = 2 * time.Second
	// mostHalves is how many commands there are at most where slurmctld refuses one for a list.
	mostHalves = 64
	// filesCalm is how long the directory must be left alone.
	filesCalm = 50 * time.Millisecond
)

// New is a Reconciler that knows no sets yet. A nil Reconciler is one for a cluster that has none.
func New(o Options) *Reconciler {
	return &Reconciler{
		Options: o, wake: make(chan struct{}, 1), looked: make(chan struct{}), keeper: planner.NewKeeper(),
		foreign: map[string]string{}, starts: map[string]*exposition.Durations{},
	}
}

// Wake has the nodes looked at at once.
func (r *Reconciler) Wake() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.wakeAt = time.Now() // the last time counts: a look that is under way has not seen what somebody reports now
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Current are the sets that count. known says whether the directory was read at all.
func (r *Reconciler) Current() (sets planner.Sets, known bool) {
	if r == nil {
		return planner.Sets{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sets, r.read
}

// endWaits wakes those who wait for the next look.
func (r *Reconciler) endWaits() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.looked)
	r.looked = make(chan struct{})
}

// Open reads the sets before slurmctld starts, whose configuration depends on them.
func (r *Reconciler) Open() {
	if r != nil {
		r.readSets()
	}
}

// Run looks and acts until ctx ends.
func (r *Reconciler) Run(ctx context.Context) {
	files := watch.New(watch.Options{Done: r.Done, Calm: watch.For(filesCalm), Changed: func() {
		if r.readSets() {
			r.SetsChanged()
			r.Wake()
		}
	}})
	if err := files.Add(r.Dir); err != nil {
		r.Log(slog.LevelWarn, "the kernel cannot report changes of SLURMLET_ELASTIC_SETS: it is looked at every "+
			watch.Every.String(), slog.Any("error", err))
		files.Tick(watch.Every)
	}
	files.Look() // a change before the watch has no event
	go files.Run()
	live := ""
	for {
		published := r.Published()
		var due <-chan time.Time
		if serves, conf := r.Slurmctld(); serves {
			if conf != live {
				live, r.known.at = conf, time.Time{}
				r.Wake() // a reconfigure takes weights back
			}
			due = time.After(time.Until(r.due()))
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

// due returns when slurmctld is to be asked for its nodes next.
func (r *Reconciler) due() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.wakeAt.IsZero() && r.failures == 0 {
		return r.wakeAt
	}
	return r.next
}

// round looks at the nodes. A slurmctld that does not answer is no news.
func (r *Reconciler) round(ctx context.Context) {
	r.mu.Lock()
	roused := r.wakeAt
	r.mu.Unlock()
	r.learn(ctx) // before the look, which must be young
	question, cancel := context.WithTimeout(ctx, 2*r.QuestionLimit())
	defer cancel()
	v := r.Nodes.Get(question, 0)
	nodes, suspended := v.Readings[clusterview.FamilyNodes], v.Readings[clusterview.FamilySuspended]
	if err := errors.Join(nodes.Err, suspended.Err); err != nil {
		r.next = time.Now().Add(backoff.Grow(time.Second, r.failures, backoff.LastQuiet))
		r.failures++
		return
	}
	r.failures = 0
	r.mu.Lock()
	sets, known := r.sets, r.read
	stale := nodes.At.Before(r.acted) || suspended.At.Before(r.acted)
	switch {
	case !r.wakeAt.Equal(roused) && !stale:
	case nodes.At.Before(roused), stale:
		r.wakeAt = time.Now().Add(LookInterval) // the collector has not asked anew yet
	default:
		r.wakeAt = time.Time{}
	}
	r.mu.Unlock()
	r.next = time.Now().Add(usualLook)
	if !known || stale { // 24.11 deletes a record, and may crash, when one is made that a stale look lacks
		r.endWaits()
		return
	}
	r.act(ctx, v, sets)
}

// act plans, publishes, and does what there is to do, as long as the look is young: where slurmctld takes its time, jobs
// get nodes meanwhile.
func (r *Reconciler) act(ctx context.Context, v *clusterview.View, sets planner.Sets) {
	look := planner.Look{
		At: v.Readings[clusterview.FamilyNodes].At, Nodes: v.Nodes, Suspended: v.Suspended, Sets: sets,
		Pod: r.podNames(), Failing: r.fails(), ResumeTimeout: r.known.resumeTimeout, Timed: r.known.timed,
	}
	plan := r.keeper.Plan(look, time.Now())
	r.publish(look, plan)
	for i := range plan.Steps {
		if i > 0 && time.Since(look.At) > youngLook {
			break
		}
		r.do(ctx, &plan.Steps[i])
	}
	switch {
	case len(plan.Steps) > 0:
		r.acted = time.Now()
		r.Wake()
	case !plan.Next.IsZero() && plan.Next.Before(r.next):
		r.next = plan.Next
	}
}

// publish publishes what a look has shown, and reports it to the controller.
func (r *Reconciler) publish(look planner.Look, plan planner.Plan) {
	all := r.Reports(look.Nodes, look.Suspended, plan.Elastic, look.At)
	reports := slices.DeleteFunc(slices.Clone(all), func(n wire.NodeReport) bool { return n.Elastic == "" })
	r.mu.Lock()
	revision := r.status.Revision
	if revision == 0 || !slices.Equal(reports, r.elasticReports) {
		revision++
	}
	r.elasticReports = reports
	for _, s := range plan.Started {
		if r.starts[s.Set] == nil {
			r.starts[s.Set] = &exposition.Durations{}
		}
		r.starts[s.Set].Add(StartBounds, s.Took, 1)
	}
	r.status = newStatus(look, plan, r.starts)
	r.status.Revision = revision
	r.mu.Unlock()
	r.endWaits()
	r.Report(all, look.At)
	for _, s := range plan.Standings {
		if names := joined(s.Foreign); names != r.foreign[s.Name] {
			r.foreign[s.Name] = names
			if names != "" {
				r.Log(slog.LevelError,
					s.Name+planner.Suffix+
						": nodes: records have these names that are no elastic nodes; they stay as they are", slog.String("nodes", names))
			}
		}
	}
}

// learn asks slurmctld for ResumeTimeout, which is 0 while it is not known, and whether records have a SuspendTime of
// their own.
func (r *Reconciler) learn(ctx context.Context) {
	if time.Since(r.known.at) < confAge {
		return
	}
	question, cancel := context.WithTimeout(ctx, r.QuestionLimit())
	defer cancel()
	conf, err := r.Client.Config(question)
	if err == nil {
		r.known.timed = conf["SLURM_VERSION"] >= "26" // after 25.11
		r.known.resumeTimeout, err = conf.Seconds("ResumeTimeout")
	}
	if err != nil {
		r.Log(slog.LevelDebug, "cannot ask slurmctld for ResumeTimeout", slog.Any("error", err))
		return
	}
	r.known.at = time.Now()
}
