package merge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/keyring"
	"github.com/slurmlet/slurmlet/internal/link/ask"
	"github.com/slurmlet/slurmlet/internal/link/proof"
	"github.com/slurmlet/slurmlet/internal/link/publichttp"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

func ring(t *testing.T, name string) func() *keyring.Ring {
	key, err := keyring.NewKey(name, bytes.Repeat([]byte(name), 16), time.Time{})
	require.NoError(t, err)
	r := &keyring.Ring{Keys: []keyring.Key{key}}
	return func() *keyring.Ring { return r }
}

func quiet(slog.Level, string, ...slog.Attr) {}

// world is a slurmctld with its agent, on a real port.
type world struct {
	*records
	port *publichttp.Server
	// followers is how many agents follow.
	followers int
}

func newWorld(t *testing.T, states string) *world { return newCrowdedWorld(t, states, 200) }

// newCrowdedWorld has room for so many connections that ask.
func newCrowdedWorld(t *testing.T, states string, active int) *world {
	w := &world{records: newRecords(states)}
	m := &Merger{Slurm: w.records, Verifier: &proof.Verifier{Keys: ring(t, "a")}, Done: t.Context().Done(), Log: quiet}
	mux := http.NewServeMux()
	mux.Handle("GET "+proof.ChallengePath, m.Verifier)
	mux.Handle("GET "+ask.Path, m)
	mux.HandleFunc("GET /follow", func(w http.ResponseWriter, r *http.Request) { publichttp.WaitAs(w, r.URL.Query().Get("node"), nil) })
	var err error
	w.port, err = publichttp.Listen("127.0.0.1:0", mux, publichttp.Limits{Active: active, Waiting: 200, Timeout: time.Minute, WaitTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.port.Close() })
	return w
}

// followed has the agents of nodes follow, which are at this address.
func (w *world) followed(t *testing.T, last byte, nodes ...string) {
	for _, name := range nodes {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, last)}}
		conn, err := dialer.Dial("tcp", w.port.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, "GET /follow?node=%s HTTP/1.1\r\n\r\n", name)
		require.NoError(t, err)
	}
	w.followers += len(nodes)
	require.Eventually(t, func() bool { return w.waiting() == 0 }, time.Minute, time.Millisecond)
}

func (w *world) asker(t *testing.T, key string) *ask.Asker {
	_, text, err := net.SplitHostPort(w.port.Addr().String())
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	return &ask.Asker{Prover: &proof.Client{Keys: ring(t, key)}, Slurmctld: "127.0.0.1:6817", AgentPort: port, Log: quiet}
}

var errDirect = errors.New("asked directly")

func direct(context.Context) error { return errDirect }

// isDeleted: slurmctld has deleted the record, and its agent may have seen that it is gone.
func isDeleted(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		require.ErrorIs(t, err, slurm.ErrNoNode)
	}
}

// TestManyAtOnce: slurmctld is asked a few times, and each agent is told of its own node.
func TestManyAtOnce(t *testing.T) {
	var states []string
	for i := range 60 {
		states = append(states, fmt.Sprintf("n%d=%s", i, []string{"idle", "drained", "busy"}[i%3]))
	}
	w := newWorld(t, strings.Join(states, " "))
	for i := range states {
		w.followed(t, 1, fmt.Sprintf("n%d", i))
	}
	var all sync.WaitGroup
	faults := make([]error, 60)
	for i := range faults {
		asker := w.asker(t, "a")
		all.Go(func() {
			faults[i] = asker.Ask(t.Context(), ask.Change{Verb: ask.Delete, Node: fmt.Sprintf("n%d", i)}, direct)
		})
	}
	all.Wait()
	for i, err := range faults {
		if i%3 == 2 {
			require.ErrorIs(t, err, slurm.ErrBusy)
			continue
		}
		isDeleted(t, err)
	}
	require.Len(t, strings.Fields(w.String()), 20)
	lists := 0
	for _, command := range w.ran() {
		if strings.ContainsAny(command, "[,") {
			lists++
		}
	}
	require.LessOrEqual(t, lists, 20, "%v", w.ran())
}

// TestCalm: a node alone does not wait for others. Many that end together are deleted together, and wait for no more.
func TestCalm(t *testing.T) {
	for name, c := range map[string]struct {
		verb        ask.Verb
		made        int
		ended, want time.Duration
		crowd       bool
	}{
		"the first one":          {ask.Delete, 0, time.Hour, collectTime, false},
		"one that deletes again": {ask.Delete, 1, 0, collectTime, false},
		"of two":                 {ask.Delete, 2, 0, 2 * collectTime, false},
		"of many":                {ask.Delete, 100, 0, lookAfter, false},
		"of many, and more wait": {ask.Delete, 100, 0, collectTime, true},
		"of many, new sizes":     {ask.Renew, 100, 0, lookAfter, false},
		"of many, long ago":      {ask.Delete, 100, time.Second, collectTime, false},
		"drains":                 {ask.Drain, 100, 0, collectTime, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := lane{verb: c.verb, made: c.made, ended: time.Now().Add(-c.ended), crowd: make(chan struct{}, 1)}
				if c.crowd {
					l.crowd <- struct{}{}
				}
				began := time.Now()
				require.True(t, new(Merger).wait(&l))
				require.Equal(t, c.want, time.Since(began))
			})
		})
	}
}

// TestLookedAgain: after a deletion it is asked who names the node, by the next deletion or some time later, and a job that has come
// meanwhile has the record made anew.
func TestLookedAgain(t *testing.T) {
	asked := func(w *world) (n int) {
		for _, command := range w.ran() {
			if command == "claims" {
				n++
			}
		}
		return n
	}
	w := newWorld(t, "n1=idle n2=idle")
	w.followed(t, 1, "n1", "n2")
	asker := w.asker(t, "a")
	require.NoError(t, asker.Ask(t.Context(), ask.Change{Verb: ask.Delete, Node: "n1", Conf: "CPUs=2"}, direct))
	namedByJob(w, nil)
	require.NoError(t, asker.Ask(t.Context(), ask.Change{Verb: ask.Delete, Node: "n2"}, direct))
	require.Eventually(t, func() bool { return strings.Contains(w.String(), "n1=down") }, time.Minute, time.Millisecond, "%v", w.ran())
	require.Eventually(t, func() bool { return asked(w) >= 3 }, time.Minute, time.Millisecond, "the last deletion, too: %v", w.ran())
}

// namedByJob: job 7 names n1.
func namedByJob(w *world, _ *ask.Asker) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.claims = []slurm.Claim{{Job: "7", Nodes: "n1"}}
}

// TestManyAreConfirmed: agents whose records are deleted together need not delete them again.
func TestManyAreConfirmed(t *testing.T) {
	var states []string
	for i := range 40 {
		states = append(states, fmt.Sprintf("n%d=idle", i))
	}
	w := newWorld(t, strings.Join(states, " "))
	for i := range states {
		w.followed(t, 1, fmt.Sprintf("n%d", i))
	}
	w.lock.Lock() // the first deletion takes until all others have been asked for
	faults := make(chan error, 40)
	ask := func(i int) {
		asker := w.asker(t, "a")
		go func() {
			faults <- asker.Ask(t.Context(), ask.Change{Verb: ask.Delete, Node: fmt.Sprintf("n%d", i)}, direct)
		}()
	}
	ask(0)
	require.Eventually(t, func() bool { return w.begun.Load() == 1 }, time.Minute, time.Millisecond)
	for i := 1; i < 40; i++ {
		ask(i)
	}
	require.Eventually(t, func() bool { return w.waiting() == 40 }, time.Minute, time.Millisecond)
	w.lock.Unlock()
	told := 0
	for range 40 {
		if err := <-faults; err != nil {
			require.ErrorIs(t, err, slurm.ErrNoNode)
			told++
		}
	}
	require.Equal(t, 39, told)
	require.Len(t, w.changes(), 3, "%v", w.ran())
}

// TestRecounts: whenever agents ask, slurmctld counts for all of them, and after each has asked.
func TestRecounts(t *testing.T) {
	const agents, rounds = 20, 3
	w := newWorld(t, "")
	for i := range agents {
		w.followed(t, 1, fmt.Sprintf("n%d", i))
	}
	began := time.Now()
	var all sync.WaitGroup
	for i := range agents {
		asker := w.asker(t, "a")
		all.Go(func() {
			for range rounds {
				before := w.begun.Load()
				if err := asker.Ask(t.Context(), ask.Change{Verb: ask.Recount, Node: fmt.Sprintf("n%d", i)}, direct); err != nil {
					t.Error(err)
				}
				if w.begun.Load() == before {
					t.Error("it was counted before the question")
				}
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, len(w.ran()), 1+int(time.Since(began)/recountEvery), "%v", w.ran())
}

// TestCrowd: an agent whose connection slurmctld's agent ends, because too many ask, asks again. It
// does not ask slurmctld itself, which would have a command of each.
func TestCrowd(t *testing.T) {
	const agents = 80
	var names, states []string
	for i := range agents {
		names = append(names, fmt.Sprintf("n%d", i))
		states = append(states, names[i]+"=idle")
	}
	w := newCrowdedWorld(t, strings.Join(states, " "), 4)
	for _, name := range names {
		w.followed(t, 1, name)
	}
	var all sync.WaitGroup
	faults := make([]error, agents)
	for i := range faults {
		asker := w.asker(t, "a")
		all.Go(func() { faults[i] = asker.Ask(t.Context(), ask.Change{Verb: ask.Delete, Node: names[i]}, direct) })
	}
	all.Wait()
	for _, err := range faults {
		isDeleted(t, err)
	}
	require.Empty(t, w.String())
}

// TestSlow: an agent asks slurmctld's agent again that is late. Were slurmctld asked instead, it would have
// one command of each agent for half a minute.
func TestSlow(t *testing.T) {
	w := newWorld(t, "n1=idle")
	w.followed(t, 1, "n1")
	asker := w.asker(t, "a")
	address := w.port.Addr().String()
	slow, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = slow.Close() })
	go func() {
		for tries := 0; ; tries++ {
			conn, err := slow.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			if tries > 0 { // the first one has no answer
				go pass(conn, address)
			}
		}
	}()
	_, text, err := net.SplitHostPort(slow.Addr().String())
	require.NoError(t, err)
	asker.AgentPort, err = strconv.Atoi(text)
	require.NoError(t, err)
	require.NoError(t, asker.Ask(t.Context(), ask.Change{Verb: ask.Delete, Node: "n1"}, direct))
	require.Empty(t, w.String())
}

// pass makes two connections one.
func pass(conn net.Conn, address string) {
	defer conn.Close()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(to, conn) }()
	_, _ = io.Copy(conn, to)
}

// TestHangs: slurmctld is asked where its agent does not answer, and soon the next time.
func TestHangs(t *testing.T) {
	w := newWorld(t, "n1=idle")
	asker := w.asker(t, "a")
	mute, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections
	require.NoError(t, err)
	t.Cleanup(func() { _ = mute.Close() })
	_, text, err := net.SplitHostPort(mute.Addr().String())
	require.NoError(t, err)
	asker.AgentPort, err = strconv.Atoi(text)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), ask.Limit)
	defer cancel()
	require.ErrorIs(t, asker.Ask(ctx, ask.Change{Verb: ask.Delete, Node: "n1"}, direct), errDirect)
	require.NoError(t, ctx.Err(), "nothing is left of the time")
	began := time.Now()
	require.ErrorIs(t, asker.Ask(ctx, ask.Change{Verb: ask.Delete, Node: "n1"}, direct), errDirect)
	require.Less(t, time.Since(began), ask.StartLimit)
}

// TestWhoIsAsked: where slurmctld's agent cannot be asked, or does not say, slurmctld is.
func TestWhoIsAsked(t *testing.T) {
	for _, c := range []struct {
		name, key string
		change    ask.Change
		prepare   func(*world, *ask.Asker)
		want      error
		commands  int
	}{
		{"its own", "a", ask.Change{Verb: ask.Delete, Node: "n1"}, nil, nil, 1},
		{"its own, gone already", "a", ask.Change{Verb: ask.Delete, Node: "n7"}, nil, nil, 1},
		{"counted", "a", ask.Change{Verb: ask.Recount, Node: "n1"}, nil, nil, 1},
		{"counted, and slurmctld is silent", "a", ask.Change{Verb: ask.Recount, Node: "n1"}, func(w *world, _ *ask.Asker) { w.fallSilent() }, slurm.ErrUnreachable, 1},
		{"drained", "a", ask.Change{Verb: ask.Drain, Node: "n1", Reason: "r"}, nil, nil, 1},
		{"another cluster's agent", "b", ask.Change{Verb: ask.Delete, Node: "n1"}, nil, errDirect, 0},
		{"another node's", "a", ask.Change{Verb: ask.Delete, Node: "n2"}, nil, errDirect, 0},
		{"one that follows from elsewhere", "a", ask.Change{Verb: ask.Delete, Node: "n3"}, func(w *world, _ *ask.Asker) { w.followed(t, 2, "n3") }, errDirect, 0},
		{"a list", "a", ask.Change{Verb: ask.Delete, Node: "n[1-2]"}, nil, errDirect, 0},
		{"slurmctld is silent", "a", ask.Change{Verb: ask.Delete, Node: "n1"}, func(w *world, _ *ask.Asker) { w.fallSilent() }, slurm.ErrUnreachable, 0},
		{"a job names it", "a", ask.Change{Verb: ask.Delete, Node: "n1", Conf: "CPUs=2"}, namedByJob, slurm.ErrKept, 2},
		{"a job names it, and the agent is an old one", "a", ask.Change{Verb: ask.Delete, Node: "n1"}, namedByJob, slurm.ErrNoNode, 2},
		{"another size, and a job names it", "a", ask.Change{Verb: ask.Renew, Node: "n1", Conf: "CPUs=2"}, namedByJob, slurm.ErrKept, 3},
		{"another size", "a", ask.Change{Verb: ask.Renew, Node: "n1", Conf: "CPUs=2"}, nil, nil, 1},
		{"nobody listens", "a", ask.Change{Verb: ask.Delete, Node: "n1"}, func(w *world, _ *ask.Asker) { _ = w.port.Close() }, errDirect, 0},
		{"no agent", "a", ask.Change{Verb: ask.Delete, Node: "n1"}, func(_ *world, a *ask.Asker) { a.AgentPort = 0 }, errDirect, 0},
		{"one of two answers", "a", ask.Change{Verb: ask.Delete, Node: "n1"}, func(_ *world, a *ask.Asker) { a.Slurmctld = "127.0.0.3:1," + a.Slurmctld }, nil, 1},
		{"munge", "a", ask.Change{Verb: ask.Delete, Node: "n1"}, func(_ *world, a *ask.Asker) { a.Prover.Keys = func() *keyring.Ring { return nil } }, errDirect, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, "n1=idle n2=idle")
			w.followed(t, 1, "n1", "n7")
			asker := w.asker(t, c.key)
			if c.prepare != nil {
				c.prepare(w, asker)
			}
			err := asker.Ask(t.Context(), c.change, direct)
			if c.want == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, c.want)
			}
			require.Len(t, w.changes(), c.commands)
		})
	}
}

// TestGivenUp: a question that was given up says nothing about slurmctld's agent.
func TestGivenUp(t *testing.T) {
	w := newWorld(t, "n1=idle")
	w.followed(t, 1, "n1")
	asker := w.asker(t, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, asker.Ask(ctx, ask.Change{Verb: ask.Delete, Node: "n1"}, direct), errDirect)
	require.NoError(t, asker.Ask(t.Context(), ask.Change{Verb: ask.Delete, Node: "n1"}, direct))
}

// TestStranger: without a proof, nothing is asked of slurmctld.
func TestStranger(t *testing.T) {
	w := newWorld(t, "n1=idle")
	for _, path := range []string{"", "?verb=delete&node=n1"} {
		response, err := http.Get("http://" + w.port.Addr().String() + ask.Path + path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusUnauthorized, response.StatusCode)
	}
	require.Empty(t, w.ran())
}

// TestGoneBefore: what an agent has asked for that waits no more is not done: it has asked slurmctld
// itself, and its name may be another pod's.
func TestGoneBefore(t *testing.T) {
	w := newWorld(t, "n1=idle n2=idle")
	w.followed(t, 1, "n1", "n2", "n3")
	// While slurmctld is asked for n2, n1 is asked for by one that goes.
	w.lock.Lock()
	second, a, b := make(chan error, 1), w.asker(t, "a"), w.asker(t, "a")
	go func() { second <- a.Ask(t.Context(), ask.Change{Verb: ask.Delete, Node: "n2"}, direct) }()
	require.Eventually(t, func() bool { return w.begun.Load() == 1 }, time.Minute, time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- b.Ask(ctx, ask.Change{Verb: ask.Delete, Node: "n1"}, direct) }()
	require.Eventually(t, func() bool { return w.waiting() == 2 }, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-first, errDirect)
	require.Eventually(t, func() bool { return w.waiting() == 1 }, time.Minute, time.Millisecond)
	w.lock.Unlock()
	require.NoError(t, <-second)
	require.NoError(t, w.asker(t, "a").Ask(t.Context(), ask.Change{Verb: ask.Delete, Node: "n3"}, direct)) // the lane goes on
	require.Equal(t, "n1=idle", w.String())
}

// waiting is how many wait for an answer to a change.
func (w *world) waiting() int {
	n := make(chan int, 1)
	w.port.Do(func() { n <- w.port.CountWaiting() })
	return <-n - w.followers
}

// TestAgentEnds: agents that wait when slurmctld's agent ends ask slurmctld themselves, at once.
func TestAgentEnds(t *testing.T) {
	w := newWorld(t, "n1=idle n2=idle")
	w.followed(t, 1, "n1", "n2")
	w.lock.Lock()
	defer w.lock.Unlock()
	faults := make(chan error, 2)
	for _, name := range []string{"n1", "n2"} {
		asker := w.asker(t, "a")
		go func() { faults <- asker.Ask(t.Context(), ask.Change{Verb: ask.Delete, Node: name}, direct) }()
	}
	require.Eventually(t, func() bool { return w.waiting() == 2 }, time.Minute, time.Millisecond)
	began := time.Now()
	require.NoError(t, w.port.Close())
	require.ErrorIs(t, <-faults, errDirect)
	require.ErrorIs(t, <-faults, errDirect)
	require.Less(t, time.Since(began), ask.Limit/2)
}
