package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// world is a controller that gives orders, and a Slurm with jobs.
type world struct {
	mu      sync.Mutex
	jobs    map[uint32]slurm.CommentedJob
	silent  bool
	did     []string
	orders  []wire.Order
	all     bool
	reports []wire.GatewayReport
}

var errSilent = errors.New("slurmctld does not answer")

func (w *world) ReportJobs(ctx context.Context, r *wire.GatewayReport) (wire.GatewayOrders, error) {
	w.mu.Lock()
	w.reports = append(w.reports, *r)
	answer := wire.GatewayOrders{Orders: w.orders, All: w.all}
	w.orders, w.all = nil, false
	w.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(time.Millisecond):
	}
	return answer, nil
}

func (w *world) FindAccount(_ context.Context, name string) (*slurm.Account, error) {
	if name == "system" {
		return &slurm.Account{Name: name, UID: 7}, nil
	}
	return &slurm.Account{Name: name, UID: 2001, GID: 2001, Groups: []uint32{2001}}, nil
}

func (w *world) do(what string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent {
		return errSilent
	}
	w.did = append(w.did, what)
	return nil
}

func (w *world) Sbatch(_ context.Context, a *slurm.Account, script string, args ...string) (uint32, error) {
	if err := w.do("submit " + a.Name); err != nil {
		return 0, err
	}
	if script != wire.HoldScript || args[len(args)-1] != "--export=NIL" {
		return 0, errors.New("another script")
	}
	return 7, nil
}

func (w *world) CancelAs(_ context.Context, a *slurm.Account, _ uint32) error {
	return w.do("cancel " + a.Name)
}

func (w *world) CommentAs(_ context.Context, _ *slurm.Account, _ uint32, comment string) error {
	return w.do(comment)
}

func (w *world) SignalBatchAs(_ context.Context, _ *slurm.Account, _ uint32, signal string) error {
	return w.do(signal)
}

func (w *world) CommentedLines(_ context.Context, beginning string) (map[uint32]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent {
		return nil, errSilent
	}
	all := map[uint32]string{}
	for id, j := range w.jobs {
		if strings.HasPrefix(j.Comment, beginning) {
			all[id] = strings.Join(j.State, "+") + j.Comment
		}
	}
	return all, nil
}

func (w *world) CommentedJobs(_ context.Context, ids []uint32) (all []slurm.CommentedJob, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent {
		return nil, errSilent
	}
	for _, id := range ids {
		if j, is := w.jobs[id]; is {
			all = append(all, j)
		}
	}
	return all, nil
}

func job(id int64, user, comment string, state ...string) slurm.CommentedJob {
	return slurm.CommentedJob{Job: slurm.Job{ID: id, User: user, State: state}, Comment: comment}
}

func newGateway(w *world) *Gateway {
	return New(Options{Users: []string{"alice", "system"}, LeastUID: 1000, Controller: w, Slurm: w, Log: func(slog.Level, string, ...slog.Attr) {}})
}

const comment = wire.GroupComment + "a hpc/pod"

func submission(args ...string) wire.Order {
	return wire.Order{ID: "1", Kind: wire.Submit, User: "alice", Script: wire.HoldScript, Args: append([]string{"--comment=" + comment}, args...)}
}

// TestSubmissions: the gateway submits jobs that hold, and nothing else.
func TestSubmissions(t *testing.T) {
	with := func(change func(*wire.Order)) wire.Order {
		o := submission()
		change(&o)
		return o
	}
	for name, c := range map[string]struct {
		order   wire.Order
		refused string
	}{
		"all that a job wants":   {submission("--nodes=2", "--exclusive", "--time=10", "--requeue", "--chdir=/", "--output=/dev/null", "--export=NIL"), ""},
		"another script":         {with(func(o *wire.Order) { o.Script += "id\n" }), "script"},
		"no script":              {with(func(o *wire.Order) { o.Script = "" }), "script"},
		"another user":           {with(func(o *wire.Order) { o.User = "bob" }), `user "bob"`},
		"a small uid":            {with(func(o *wire.Order) { o.User = "system" }), "uid 7"},
		"no comment":             {with(func(o *wire.Order) { o.Args = nil }), "0 comments"},
		"two comments":           {submission("--comment=" + comment), "2 comments"},
		"a comment of another":   {with(func(o *wire.Order) { o.Args = []string{"--comment=mine"} }), "comment"},
		"--uid":                  {submission("--uid=0"), "--uid=0"},
		"an abbreviation":        {submission("--ui=0"), "--ui=0"},
		"--wrap":                 {submission("--wrap=id"), "--wrap"},
		"a short option":         {submission("-o/etc/passwd"), "argument"},
		"a file":                 {submission("--output=/etc/passwd"), "--output"},
		"another directory":      {submission("--chdir=/tmp"), "--chdir"},
		"the environment":        {submission("--export=ALL"), "--export"},
		"another command":        {submission("/bin/sh"), "argument"},
		"the end of the options": {submission("--", "x"), "argument"},
		"an option of two words": {submission("--mem", "10"), "argument"},
		"a line":                 {submission("--job-name=a\nb"), "printable"},
		"too much":               {submission("--job-name=" + strings.Repeat("a", 5000)), "printable"},
		"too many":               {submission(strings.Fields(strings.Repeat("--requeue ", 70))...), "arguments"},
		"another order":          {wire.Order{Kind: "run"}, "no order"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{}
			r := newGateway(w).do(t.Context(), c.order)
			require.Contains(t, r.Refused, c.refused)
			require.Empty(t, r.Unknown)
			if c.refused == "" {
				require.Equal(t, uint32(7), r.Job)
				require.Empty(t, r.Refused)
				return
			}
			require.Zero(t, r.Job)
			require.Empty(t, w.did)
		})
	}
}

// TestEnds: jobs of groups are ended, as their users, and no others. Silence is no answer.
func TestEnds(t *testing.T) {
	jobs := map[uint32]slurm.CommentedJob{
		7: job(7, "alice", comment, "RUNNING"), 8: job(8, "alice", "mine", "RUNNING"), 9: job(9, "bob", comment, "RUNNING"),
	}
	for name, c := range map[string]struct {
		order wire.Order
		want  wire.OrderResult
		did   string
	}{
		"cancel":       {wire.Order{Kind: wire.Cancel, User: "alice", Job: 7}, wire.OrderResult{Job: 7}, "cancel alice"},
		"completed":    {wire.Order{Kind: wire.Finish, User: "alice", Job: 7}, wire.OrderResult{Job: 7}, "28"},
		"failed":       {wire.Order{Kind: wire.Finish, User: "alice", Job: 7, Status: 137}, wire.OrderResult{Job: 7}, comment + " exit=137 USR2"},
		"look":         {wire.Order{Kind: wire.Look, User: "alice", Job: 7}, wire.OrderResult{Job: 7}, ""},
		"gone":         {wire.Order{Kind: wire.Cancel, User: "alice", Job: 4}, wire.OrderResult{Job: 4, None: true}, ""},
		"found":        {wire.Order{Kind: wire.Find, User: "alice", Comment: wire.GroupComment + "a "}, wire.OrderResult{Job: 7}, ""},
		"not found":    {wire.Order{Kind: wire.Find, User: "alice", Comment: wire.GroupComment + "b "}, wire.OrderResult{None: true}, ""},
		"another job":  {wire.Order{Kind: wire.Cancel, User: "alice", Job: 8}, wire.OrderResult{Refused: "job 8 is of user alice"}, ""},
		"another user": {wire.Order{Kind: wire.Cancel, User: "alice", Job: 9}, wire.OrderResult{Refused: "job 9 is of user bob"}, ""},
		"any comment":  {wire.Order{Kind: wire.Find, User: "alice", Comment: "m"}, wire.OrderResult{Refused: "comment"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{jobs: jobs}
			r := newGateway(w).do(t.Context(), c.order)
			require.Contains(t, r.Refused, c.want.Refused)
			c.want.Refused = r.Refused
			require.Equal(t, c.want, r)
			require.Equal(t, c.did, strings.Join(w.did, " "))
			w.silent = true
			r = newGateway(w).do(t.Context(), c.order)
			require.False(t, r.None)
			require.True(t, r.Unknown != "" || r.Refused != "")
		})
	}
}

// TestOldest: of several live jobs of a group the oldest is found, and an ended one only where none lives.
func TestOldest(t *testing.T) {
	w := &world{jobs: map[uint32]slurm.CommentedJob{
		3: job(3, "alice", comment, "CANCELLED"), 5: job(5, "alice", comment, "PENDING"), 6: job(6, "alice", comment, "RUNNING"), 9: job(9, "alice", comment, "COMPLETED"),
	}}
	find := wire.Order{Kind: wire.Find, User: "alice", Comment: wire.GroupComment + "a "}
	require.Equal(t, uint32(5), newGateway(w).do(t.Context(), find).Job)
	delete(w.jobs, 5)
	delete(w.jobs, 6)
	require.Equal(t, uint32(9), newGateway(w).do(t.Context(), find).Job)
}

// TestAgain: an order that comes again is not carried out again.
func TestAgain(t *testing.T) {
	w := &world{jobs: map[uint32]slurm.CommentedJob{7: job(7, "alice", comment, "PENDING")}}
	g := newGateway(w)
	first := g.carryOut(t.Context(), []wire.Order{submission()})
	require.Equal(t, first, g.carryOut(t.Context(), []wire.Order{submission()}))
	require.Equal(t, []string{"submit alice"}, w.did)
}

// TestReports: the controller hears of all jobs of groups first, then of changes. Only slurmctld's own word makes a job gone.
func TestReports(t *testing.T) {
	w := &world{silent: true, jobs: map[uint32]slurm.CommentedJob{
		7: job(7, "alice", comment, "PENDING"), 8: job(8, "alice", "mine", "RUNNING"), 9: job(9, "bob", comment, "RUNNING"),
	}}
	g := newGateway(w)
	require.Error(t, g.askForAll(t.Context()))
	require.Empty(t, g.report(true, nil).Jobs)
	w.silent = false
	require.NoError(t, g.askForAll(t.Context()))
	jobs := g.report(true, nil).Jobs
	require.Len(t, jobs, 1)
	require.Equal(t, wire.QueuedJob{ID: 7, User: "alice", Comment: comment, State: "PENDING"}, jobs[0])
	clear(g.changed)
	require.NoError(t, g.askForAll(t.Context()))
	require.Empty(t, g.report(false, nil).Jobs, "nothing has changed")
	w.jobs[7] = job(7, "alice", "mine now", "RUNNING", "COMPLETING")
	require.NoError(t, g.askForAll(t.Context()))
	jobs = g.report(false, nil).Jobs
	require.Len(t, jobs, 1)
	require.False(t, jobs[0].Gone, "its user has changed its comment")
	require.Equal(t, "COMPLETING", jobs[0].State)
	clear(g.changed)
	w.silent = true
	require.Error(t, g.askForAll(t.Context()))
	require.Empty(t, g.report(false, nil).Jobs)
	w.silent = false
	delete(w.jobs, 7)
	require.NoError(t, g.askForAll(t.Context()))
	require.True(t, g.report(false, nil).Jobs[0].Gone)
}

// TestRows: people see how many jobs are in which state, why they wait, and how old that is.
func TestRows(t *testing.T) {
	w := &world{jobs: map[uint32]slurm.CommentedJob{
		7: job(7, "alice", comment, "PENDING"), 8: job(8, "alice", comment, "RUNNING"), 9: job(9, "alice", comment, "PENDING"), 10: job(10, "alice", comment, "PENDING"),
	}}
	for id, reason := range map[uint32]string{7: "Priority", 9: "Priority", 10: "Resources"} {
		j := w.jobs[id]
		j.Reason = reason
		w.jobs[id] = j
	}
	g := newGateway(w)
	require.NoError(t, g.askForAll(t.Context()))
	g.noteJobs()
	rows := map[string]string{}
	g.Status().Rows(func(name, format string, args ...any) { rows[name] = fmt.Sprintf(format, args...) })
	require.Contains(t, rows["Gateway"], "waits for the controller; users alice, system from uid 1000; 4 jobs of Kubernetes' pods")
	require.Contains(t, rows["Queue"], "3 PENDING, 1 RUNNING (waiting: 2 Priority, 1 Resources); slurmctld told of all at "+time.Now().Format("2006-"))
	g.connected(0)
	g.Status().Rows(func(name, format string, args ...any) { rows[name] = fmt.Sprintf(format, args...) })
	require.Contains(t, rows["Gateway"], ", which answered last at ")
}

// TestRun: a new controller gets all jobs, and results once.
func TestRun(t *testing.T) {
	w := &world{jobs: map[uint32]slurm.CommentedJob{7: job(7, "alice", comment, "PENDING")}, orders: []wire.Order{submission()}}
	g := newGateway(w)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		g.Run(ctx)
		close(ended)
	}()
	count := func(is func(wire.GatewayReport) bool) func() bool {
		return func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			n := 0
			for _, r := range w.reports {
				if is(r) {
					n++
				}
			}
			return n == 1
		}
	}
	result := func(r wire.GatewayReport) bool { return len(r.Results) == 1 && r.Results[0].Job == 7 }
	whole := func(r wire.GatewayReport) bool { return r.Whole && len(r.Jobs) == 1 }
	require.Eventually(t, count(result), 10*time.Second, time.Millisecond)
	require.True(t, count(whole)())
	w.mu.Lock()
	w.reports, w.all = nil, true
	w.mu.Unlock()
	require.Eventually(t, count(whole), 10*time.Second, time.Millisecond)
	require.True(t, g.Status().Connected)
	cancel()
	<-ended
}
