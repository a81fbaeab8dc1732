// Package gateway submits, finds and ends the jobs that stand for groups of Kubernetes' pods, as slurmlet's controller orders.
//
// The controller says what is to be done, and slurmctld what there is. The controller is trusted no further than its orders
// need: jobs belong to users whom the gateway's settings name, their script is always the same, and options that would make
// the job do anything else are refused.
package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// Controller takes a gateway's reports.
type Controller interface {
	ReportJobs(ctx context.Context, report *wire.GatewayReport) (wire.GatewayOrders, error)
}

// Slurm has the questions and commands that a gateway has for Slurm.
type Slurm interface {
	FindAccount(ctx context.Context, name string) (*slurm.Account, error)
	Sbatch(ctx context.Context, a *slurm.Account, script string, args ...string) (uint32, error)
	CancelAs(ctx context.Context, a *slurm.Account, job uint32) error
	CommentAs(ctx context.Context, a *slurm.Account, job uint32, comment string) error
	SignalBatchAs(ctx context.Context, a *slurm.Account, job uint32, signal string) error
	CommentedLines(ctx context.Context, beginning string) (map[uint32]string, error)
	CommentedJobs(ctx context.Context, ids []uint32) ([]slurm.CommentedJob, error)
}

var _ Slurm = slurm.Scontrol{}

// Options are the surroundings of a Gateway.
type Options struct {
	// Users are those whose jobs it submits and ends, and LeastUID bounds their uids.
	Users    []string
	LeastUID int

	Controller Controller
	Slurm      Slurm
	Log        func(level slog.Level, text string, attrs ...slog.Attr)
}

// Gateway carries out orders. A nil Gateway is that of a pod without one.
type Gateway struct {
	Options
	id string

	// What follows is Run's.
	jobs    map[uint32]known
	asked   time.Time // when slurmctld was asked for all jobs
	done    map[string]wire.OrderResult
	order   []string // the keys of done, the oldest first
	changed map[uint32]wire.QueuedJob

	mu     sync.Mutex
	status Status
}

// known is a job as it was reported last.
type known struct {
	line string
	wire.QueuedJob
}

const (
	// lookEvery is how often slurmctld is asked for all jobs while there are some of groups.
	lookEvery = 15 * time.Second
	// mostAtOnce is how many orders are carried out at the same time.
	mostAtOnce = 4
	// orderLimit bounds one order: Slurm's commands try for MessageTimeout.
	orderLimit = time.Minute
	// mostDone is how many results are kept, for orders that come again.
	mostDone = 4096
	// patience is how many failures in a row are nothing to worry about.
	patience = 3
)

// The signals for the batch script of a job whose pods have ended: SIGWINCH, which Slurm has no name for, and SIGUSR2. A script
// that does not listen yet outlives the first, and ends by the second.
const completeSignal, failSignal = "28", "USR2"

// New makes a gateway that has asked nobody.
func New(o Options) *Gateway {
	return &Gateway{
		Options: o, id: rand.Text(), jobs: map[uint32]known{}, done: map[string]wire.OrderResult{}, changed: map[uint32]wire.QueuedJob{},
		status: Status{Users: o.Users, LeastUID: o.LeastUID},
	}
}

// Run reports and carries out orders until ctx ends.
func (g *Gateway) Run(ctx context.Context) {
	if g == nil {
		return
	}
	var results []wire.OrderResult
	whole, tries := true, 0
	for ctx.Err() == nil {
		if g.isDue(whole) {
			if err := g.askForAll(ctx); err != nil && whole {
				pause(ctx, backoff.Grow(time.Second, tries, lookEvery))
				tries++
				continue
			}
		}
		g.noteJobs()
		orders, err := g.Controller.ReportJobs(ctx, g.report(whole, results))
		if err != nil {
			g.failed(err, tries)
			pause(ctx, peers.PauseAfter(err, tries))
			tries++
			continue
		}
		g.connected(tries)
		clear(g.changed)
		tries, whole = 0, orders.All
		results = g.carryOut(ctx, orders.Orders)
	}
}

// isDue says whether to ask slurmctld for all jobs. Without jobs of groups, new ones are those that this gateway submits, or
// another one.
func (g *Gateway) isDue(whole bool) bool {
	since := time.Since(g.asked)
	return whole || since >= 4*lookEvery || len(g.jobs) > 0 && since >= lookEvery
}

// report has what the controller does not know.
func (g *Gateway) report(whole bool, results []wire.OrderResult) *wire.GatewayReport {
	r := &wire.GatewayReport{Gateway: g.id, Whole: whole, Results: results}
	if !whole {
		for _, j := range g.changed {
			r.Jobs = append(r.Jobs, j)
		}
	} else {
		for _, j := range g.jobs {
			r.Jobs = append(r.Jobs, j.QueuedJob)
		}
	}
	slices.SortFunc(r.Jobs, func(a, b wire.QueuedJob) int { return cmp.Compare(a.ID, b.ID) })
	return r
}

// askForAll brings the jobs up to date. What slurmctld does not answer stays as it was.
func (g *Gateway) askForAll(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, orderLimit)
	defer cancel()
	defer func() { g.noteSilence(err) }()
	lines, err := g.Slurm.CommentedLines(ctx, wire.GroupComment)
	if err != nil {
		return err
	}
	var news, missing []uint32
	for id, line := range lines {
		if g.jobs[id].line != line {
			news = append(news, id)
		}
	}
	for id := range g.jobs {
		if _, there := lines[id]; !there {
			missing = append(missing, id)
		}
	}
	slices.Sort(news)
	if err := g.look(ctx, news, lines, false); err != nil {
		return err
	}
	if err := g.look(ctx, missing, nil, true); err != nil {
		return err
	}
	g.asked = time.Now()
	return nil
}

// look asks for jobs, and has them reported: those of groups, and all where the controller has asked for these. Of those that
// slurmctld has no more, the known ones are reported as gone.
func (g *Gateway) look(ctx context.Context, ids []uint32, lines map[uint32]string, all bool) error {
	if len(ids) == 0 {
		return nil
	}
	shown, err := g.Slurm.CommentedJobs(ctx, ids)
	if err != nil {
		return err
	}
	there := map[uint32]bool{}
	for i := range shown {
		job := queued(&shown[i])
		there[job.ID] = true
		if !all && !strings.HasPrefix(job.Comment, wire.GroupComment) || !slices.Contains(g.Users, job.User) {
			continue
		}
		g.jobs[job.ID] = known{lines[job.ID], job}
		g.changed[job.ID] = job
	}
	for _, id := range ids {
		if was, known := g.jobs[id]; known && !there[id] {
			was.Gone = true
			g.changed[id] = was.QueuedJob
			delete(g.jobs, id)
		}
	}
	return nil
}

// queued is a job as the controller is told of it.
func queued(j *slurm.CommentedJob) wire.QueuedJob {
	state := "UNKNOWN"
	if len(j.State) > 0 {
		state = j.State[0]
	}
	if j.Completing() {
		state = "COMPLETING"
	}
	for _, flag := range j.State {
		if flag == "CONFIGURING" || flag == "REQUEUE_HOLD" || flag == "SPECIAL_EXIT" {
			state = flag
		}
	}
	q := wire.QueuedJob{
		ID: uint32(j.ID), User: j.User, Comment: j.Comment, State: state, Reason: j.Reason, //nolint:gosec // a job's number has 32 bits
		Nodes: j.NodeNames, Tasks: j.NodeTasks, Restarts: j.Restarts,
	}
	if !j.Start.IsZero() && !j.State.Pending() {
		q.Start = j.Start.Time()
	}
	return q
}

// carryOut carries out orders, so many at once, and returns what has become of them, in their order. Only the commands that
// change something run beside each other.
func (g *Gateway) carryOut(ctx context.Context, orders []wire.Order) []wire.OrderResult {
	results := make([]wire.OrderResult, len(orders))
	places := make(chan struct{}, mostAtOnce)
	var all sync.WaitGroup
	for i, order := range orders {
		if before, again := g.done[order.ID]; again {
			results[i] = before
			continue
		}
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			results[i] = g.do(ctx, order)
		})
	}
	all.Wait()
	var looks []uint32
	for i, order := range orders {
		if results[i].Job != 0 {
			looks = append(looks, results[i].Job)
		}
		if changes := order.Kind != wire.Find && order.Kind != wire.Look; changes && results[i].Unknown == "" {
			g.remember(results[i])
		}
	}
	g.lookAtAll(ctx, looks)
	return results
}

// lookAtAll has jobs of orders reported. What fails comes with the next look at all jobs.
func (g *Gateway) lookAtAll(ctx context.Context, ids []uint32) {
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, orderLimit)
	defer cancel()
	slices.Sort(ids)
	g.noteSilence(g.look(ctx, slices.Compact(ids), nil, true))
}

// remember keeps a result for an order that comes again.
func (g *Gateway) remember(r wire.OrderResult) {
	if _, there := g.done[r.Order]; there {
		return
	}
	g.done[r.Order] = r
	if g.order = append(g.order, r.Order); len(g.order) > mostDone {
		delete(g.done, g.order[0])
		g.order = g.order[1:]
	}
}

// do carries out one order.
func (g *Gateway) do(ctx context.Context, o wire.Order) wire.OrderResult {
	ctx, cancel := context.WithTimeout(ctx, orderLimit)
	defer cancel()
	result := wire.OrderResult{Order: o.ID}
	job, none, err := g.perform(ctx, o)
	refused, is := errors.AsType[*slurm.RefusedError](err)
	switch {
	case is:
		result.Refused = refused.Text
	case err != nil:
		result.Unknown = err.Error()
	default:
		result.Job, result.None = job, none
	}
	g.mu.Lock()
	g.status.count(o.Kind, result)
	g.mu.Unlock()
	level := slog.LevelInfo
	if err != nil {
		level = slog.LevelWarn
	}
	if o.Kind == wire.Look || o.Kind == wire.Find {
		level = slog.LevelDebug
	}
	g.Log(level, "an order of slurmlet's controller", slog.String("kind", string(o.Kind)), slog.String("user", o.User),
		slog.Uint64("job", uint64(cmp.Or(job, o.Job))), slog.String("refused", result.Refused), slog.String("unknown", result.Unknown))
	return result
}

// perform does what an order says. A RefusedError says that nothing was done.
func (g *Gateway) perform(ctx context.Context, o wire.Order) (job uint32, none bool, err error) {
	switch o.Kind {
	case wire.Submit:
		a, err := g.account(ctx, o.User)
		if err == nil {
			err = checkSubmission(&o)
		}
		if err != nil {
			return 0, false, err
		}
		job, err := g.Slurm.Sbatch(ctx, a, wire.HoldScript, append(slices.Clone(o.Args), ownArgs...)...)
		return job, false, err
	case wire.Find:
		return g.find(ctx, o)
	case wire.Look:
		shown, err := g.Slurm.CommentedJobs(ctx, []uint32{o.Job})
		return o.Job, err == nil && len(shown) == 0, err
	case wire.Cancel, wire.Finish:
		return g.end(ctx, o)
	}
	return 0, false, refuse("the gateway knows no order %q", o.Kind)
}

// find looks for the job of a group: one that has not ended, the oldest first, and else the one that ended last.
func (g *Gateway) find(ctx context.Context, o wire.Order) (job uint32, none bool, err error) {
	if !strings.HasPrefix(o.Comment, wire.GroupComment) {
		return 0, false, refuse("comment %q: want one that begins with %s", o.Comment, wire.GroupComment)
	}
	lines, err := g.Slurm.CommentedLines(ctx, o.Comment)
	if err != nil {
		return 0, false, err
	}
	var ids []uint32
	for id := range lines {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	shown, err := g.Slurm.CommentedJobs(ctx, ids)
	if err != nil {
		return 0, false, err
	}
	var ended uint32
	for i := range shown {
		one := &shown[i]
		id := uint32(one.ID) //nolint:gosec // a job's number has 32 bits
		if one.User != o.User || !strings.HasPrefix(one.Comment, o.Comment) {
			continue
		}
		if live := one.State.Pending() || one.State.HasNodes() || one.Completing(); live && (job == 0 || id < job) {
			job = id
		} else if !live {
			ended = max(ended, id)
		}
	}
	job = cmp.Or(job, ended)
	return job, job == 0, nil
}

// end ends a job of a group, by a signal to its script or by scancel.
func (g *Gateway) end(ctx context.Context, o wire.Order) (job uint32, none bool, err error) {
	a, err := g.account(ctx, o.User)
	if err != nil {
		return 0, false, err
	}
	shown, err := g.Slurm.CommentedJobs(ctx, []uint32{o.Job})
	if err != nil || len(shown) == 0 {
		return o.Job, err == nil, err
	}
	one := &shown[0]
	if one.User != o.User || !strings.HasPrefix(one.Comment, wire.GroupComment) {
		return 0, false, refuse("job %d is of user %s and has the comment %q: want one of user %s that begins with %s",
			o.Job, one.User, one.Comment, o.User, wire.GroupComment)
	}
	switch {
	case o.Kind == wire.Cancel:
		err = g.Slurm.CancelAs(ctx, a, o.Job)
	case o.Status == 0:
		err = g.Slurm.SignalBatchAs(ctx, a, o.Job, completeSignal)
	default:
		_ = g.Slurm.CommentAs(ctx, a, o.Job, wire.WithStatus(one.Comment, o.Status)) // without it the script exits with 1
		err = g.Slurm.SignalBatchAs(ctx, a, o.Job, failSignal)
	}
	return o.Job, false, err
}

// account is a user whom the settings allow.
func (g *Gateway) account(ctx context.Context, name string) (*slurm.Account, error) {
	if !slices.Contains(g.Users, name) {
		return nil, refuse("user %q: the gateway has %s", name, strings.Join(g.Users, ", "))
	}
	a, err := g.Slurm.FindAccount(ctx, name)
	if err != nil {
		return nil, err
	}
	if int64(a.UID) < int64(max(1, g.LeastUID)) {
		return nil, refuse("user %s has uid %d: the gateway wants %d at least", name, a.UID, max(1, g.LeastUID))
	}
	return a, nil
}

func refuse(format string, args ...any) error {
	return &slurm.RefusedError{Text: fmt.Sprintf(format, args...)}
}

// noteSilence notes whether slurmctld has answered.
func (g *Gateway) noteSilence(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status.Silent = ""
	if err != nil {
		g.status.Silent = err.Error()
	}
}

// noteJobs notes which jobs are known.
func (g *Gateway) noteJobs() {
	states, waiting := map[string]int{}, map[string]int{}
	for _, j := range g.jobs {
		states[j.State]++
		if j.State == "PENDING" {
			waiting[j.Reason]++
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status.Jobs, g.status.States, g.status.Waiting, g.status.Asked = len(g.jobs), states, waiting, g.asked
}

func (g *Gateway) failed(err error, tries int) {
	g.mu.Lock()
	if g.status.Connected || g.status.Since.IsZero() {
		g.status.Connected, g.status.Since = false, time.Now()
	}
	g.status.Fault = err.Error()
	g.mu.Unlock()
	if tries == patience {
		g.Log(slog.LevelWarn, "cannot report jobs of Kubernetes' pods to the controller", slog.Any("error", err))
	}
}

func (g *Gateway) connected(tries int) {
	g.mu.Lock()
	if !g.status.Connected {
		g.status.Connected, g.status.Since = true, time.Now()
	}
	g.status.Fault, g.status.Ordered = "", time.Now()
	g.mu.Unlock()
	if tries > patience {
		g.Log(slog.LevelInfo, "the controller takes the reports of jobs of Kubernetes' pods again")
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
