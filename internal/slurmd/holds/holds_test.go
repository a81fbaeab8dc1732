package holds

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// world is a controller and slurmctld, of which each answers as a test says.
type world struct {
	*Holds
	t *testing.T

	mu      sync.Mutex
	pods    map[uint32][]string
	silent  bool
	started map[wire.Started]int
	asked   int
	states  map[string]string
	reason  string // of the node's drain
	fails   bool   // slurmctld does not answer
}

func newWorld(t *testing.T, timeout string) *world {
	t.Helper()
	w := &world{t: t, pods: map[uint32][]string{}, started: map[wire.Started]int{}, states: map[string]string{}}
	w.open(t.TempDir(), t.TempDir(), timeout)
	return w
}

func (w *world) open(run, spool, timeout string) {
	w.t.Helper()
	var err error
	w.Holds, err = Open(Options{
		Node: "n1", RunDir: run, SpoolDir: spool, Controller: w, Drains: w,
		Config: func(context.Context) (slurm.Config, error) { return slurm.Config{"PrologEpilogTimeout": timeout}, nil },
		States: func(context.Context, []string) (map[string]string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.states, nil
		},
		Log: func(slog.Level, string, ...slog.Attr) {},
	})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.t.Context())
	w.t.Cleanup(cancel)
	w.Start(ctx)
}

var errSilent = errors.New("no answer")

func (w *world) ReportStarted(_ context.Context, s wire.Started) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started[s]++
	return nil
}

func (w *world) JobPods(ctx context.Context, job uint32, _ string) ([]string, bool, error) {
	for range 20 { // it holds the answer
		w.mu.Lock()
		pods, silent := w.pods[job], w.silent
		w.asked++
		w.mu.Unlock()
		if silent {
			return nil, false, errSilent
		}
		if len(pods) == 0 {
			return nil, true, nil
		}
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[job], false, nil
}

func (w *world) Set(_ context.Context, owner reasons.Owner, reason string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fails {
		return false, errSilent
	}
	require.Equal(w.t, reasons.Pods, owner)
	require.Equal(w.t, reasons.Pods, reasons.Of(reason))
	changed := w.reason != reason
	w.reason = reason
	return changed, nil
}

func (w *world) Lift(context.Context, reasons.Owner) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fails {
		return false, errSilent
	}
	changed := w.reason != ""
	w.reason = ""
	return changed, nil
}

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *world) is(f func() bool) func() bool {
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return f()
	}
}

// prolog places a hold, as the script of the chart does.
func (w *world) prolog(job uint32) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(filepath.Join(w.RunDir, linkName, strconv.FormatUint(uint64(job), 10)), nil, 0o600))
}

// epilog is one that waits; its channel is closed when it may end.
func (w *world) epilog(job string) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = AwaitEpilog(w.t.Context(), w.RunDir, job)
	}()
	return ended
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

const soon, often = 10 * time.Second, 2 * time.Millisecond

// TestEpilogWaits: an epilog ends only when the controller says that no pod is left. Silence is no such word.
func TestEpilogWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "300")
	none := w.epilog("9")
	require.Eventually(t, func() bool { return closed(none) }, soon, often, "a job without a hold")
	w.set(func() { w.pods[7] = []string{"hpc/a"} })
	w.prolog(7)
	require.Eventually(t, w.is(func() bool { return w.started[wire.Started{Job: 7}] == 1 }), soon, often)
	ended := w.epilog("7")
	require.Eventually(t, func() bool { return len(w.Status().Jobs) == 1 && w.Status().Jobs[0].Ended }, soon, often)
	w.set(func() { w.silent = true })
	asked := 0
	w.set(func() { asked = w.asked })
	require.Eventually(t, w.is(func() bool { return w.asked > asked+1 }), soon, often)
	require.False(t, closed(ended))
	require.FileExists(t, w.path(7))
	w.set(func() { w.silent = false; delete(w.pods, 7) })
	require.Eventually(t, func() bool { return closed(ended) }, soon, often)
	require.NoFileExists(t, w.path(7))
	require.Empty(t, w.reason)
}

// TestDrain: an epilog that has waited for long ends when the node is drained, which it stays until the pods are gone.
func TestDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "1")
	w.set(func() { w.pods[7], w.fails = []string{"hpc/a"}, true })
	w.prolog(7)
	ended := w.epilog("7")
	require.Eventually(t, func() bool { s := w.Status(); return len(s.Jobs) == 1 && s.Jobs[0].Drained }, soon, often)
	require.False(t, closed(ended), "slurmctld has not drained the node")
	w.set(func() { w.fails = false })
	require.Eventually(t, func() bool { return closed(ended) }, soon, often)
	w.set(func() { require.Equal(t, "slurmlet pods: job 7 has left pods: hpc/a", w.reason) })
	require.FileExists(t, w.path(7))
	w.set(func() { delete(w.pods, 7) })
	require.Eventually(t, w.is(func() bool { return w.reason == "" }), soon, often)
	require.Empty(t, w.Status().Jobs)
}

// TestAgentRestarts: the next agent knows which jobs have ended, and drains the node for them.
func TestAgentRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "300")
	w.set(func() { w.pods[7], w.pods[8] = []string{"hpc/a"}, []string{"hpc/b"} })
	w.prolog(7)
	w.prolog(8)
	w.epilog("7")
	require.Eventually(t, func() bool { text, _ := os.ReadFile(w.path(7)); return string(text) == endedMark }, soon, often)
	next := &world{t: t, pods: map[uint32][]string{7: {"hpc/a"}, 8: {"hpc/b"}}, started: map[wire.Started]int{}, states: map[string]string{"8": "RUNNING"}}
	next.open(t.TempDir(), w.SpoolDir, "300")
	require.Eventually(t, next.is(func() bool { return next.started[wire.Started{Job: 8}] == 1 && strings.Contains(next.reason, "job 7") }), soon, often)
	next.SlurmdReady()
	next.set(func() { delete(next.pods, 7) })
	require.Eventually(t, next.is(func() bool { return next.reason == "" }), soon, often)
	require.Len(t, next.Status().Jobs, 1, "job 8 runs")
	next.set(func() { next.states = map[string]string{"8": "COMPLETING"} })
	next.SlurmdReady()
	require.Eventually(t, next.is(func() bool { return strings.Contains(next.reason, "job 8") }), soon, often)
}

// TestNewPod: an agent without holds drains the node while pods of an earlier one's jobs are on it.
func TestNewPod(t *testing.T) {
	t.Parallel()
	w := &world{t: t, pods: map[uint32][]string{0: {"hpc/a"}}, started: map[wire.Started]int{}}
	w.open(t.TempDir(), t.TempDir(), "300")
	require.Eventually(t, w.is(func() bool { return w.reason == "slurmlet pods: an earlier job has left pods: hpc/a" }), soon, often)
	w.set(func() { clear(w.pods) })
	require.Eventually(t, w.is(func() bool { return w.reason == "" }), 2*soon, often)
}

// TestHint: a script that is to end waits for its pods, and strangers cost one report in a while.
func TestHint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "300")
	w.set(func() { w.pods[7] = []string{"hpc/a"} })
	w.prolog(7)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { _ = AwaitPods(t.Context(), w.RunDir, "7") })
	}
	ending := wire.Started{Job: 7, Ending: true}
	require.Eventually(t, w.is(func() bool { return w.started[ending] == 1 }), soon, often)
	w.set(func() { delete(w.pods, 7) })
	all.Wait()
	w.set(func() { require.Equal(t, 1, w.started[ending]) })
	require.FileExists(t, w.path(7), "Slurm has not ended the job")
}

// TestStrangers: what is no job's number is not answered.
func TestStrangers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "300")
	for _, line := range []string{"", "x", "-1", "7 8", strings.Repeat("7", 100)} {
		word, err := ask(t.Context(), w.RunDir, scriptSocket, line)
		require.Error(t, err, line)
		require.Empty(t, word)
	}
}

func TestLimit(t *testing.T) {
	for _, c := range []struct {
		config slurm.Config
		want   time.Duration
	}{
		{slurm.Config{}, time.Minute},
		{slurm.Config{"PrologEpilogTimeout": "300"}, time.Minute},
		{slurm.Config{"PrologEpilogTimeout": "25"}, 20 * time.Second},
		{slurm.Config{"PrologEpilogTimeout": "65534"}, time.Minute},
		{slurm.Config{"EpilogTimeout": "10 sec", "PrologTimeout": "5"}, 8 * time.Second},
	} {
		require.Equal(t, c.want, limitOf(c.config), "%v", c.config)
	}
}
