package merge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/keyring"
	"github.com/slurmlet/slurmlet/internal/proof"
	"github.com/slurmlet/slurmlet/internal/publichttp"
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

func newWorld(t *testing.T, states string) *world {
	w := &world{records: newRecords(states)}
	m := &Merger{Slurm: w.records, Verifier: &proof.Verifier{Keys: ring(t, "a")}, Done: t.Context().Done(), Log: quiet}
	mux := http.NewServeMux()
	mux.Handle("GET "+proof.ChallengePath, m.Verifier)
	mux.Handle("GET "+Path, m)
	mux.HandleFunc("GET /follow", func(w http.ResponseWriter, r *http.Request) { publichttp.WaitAs(w, r.URL.Query().Get("node"), nil) })
	var err error
	w.port, err = publichttp.Listen("127.0.0.1:0", mux, publichttp.Limits{Active: 200, Waiting: 200, Timeout: time.Minute, WaitTimeout: time.Minute})
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
	require.Eventually(t, func() bool { return w.waiting() == 0 }, 20*time.Second, time.Millisecond)
}

func (w *world) asker(t *testing.T, key string) *Asker {
	_, text, err := net.SplitHostPort(w.port.Addr().String())
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	return &Asker{Prover: &proof.Client{Keys: ring(t, key)}, Controller: "127.0.0.1:6817", AgentPort: port, Log: quiet}
}

var errDirect = errors.New("asked directly")

func direct(context.Context) error { return errDirect }

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
		all.Go(func() { faults[i] = asker.Change(t.Context(), Change{Delete, fmt.Sprintf("n%d", i), ""}, direct) })
	}
	all.Wait()
	for i, err := range faults {
		if i%3 == 2 {
			require.ErrorIs(t, err, slurm.ErrBusy)
			continue
		}
		require.NoError(t, err)
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

// TestWhoIsAsked: where slurmctld's agent cannot be asked, or does not say, slurmctld is.
func TestWhoIsAsked(t *testing.T) {
	for _, c := range []struct {
		name, key string
		change    Change
		prepare   func(*world, *Asker)
		want      error
		commands  int
	}{
		{"its own", "a", Change{Delete, "n1", ""}, nil, nil, 1},
		{"its own, gone already", "a", Change{Delete, "n7", ""}, nil, nil, 1},
		{"drained", "a", Change{Drain, "n1", "r"}, nil, nil, 1},
		{"another cluster's agent", "b", Change{Delete, "n1", ""}, nil, errDirect, 0},
		{"another node's", "a", Change{Delete, "n2", ""}, nil, errDirect, 0},
		{"one that follows from elsewhere", "a", Change{Delete, "n3", ""}, func(w *world, _ *Asker) { w.followed(t, 2, "n3") }, errDirect, 0},
		{"a list", "a", Change{Delete, "n[1-2]", ""}, nil, errDirect, 0},
		{"slurmctld is silent", "a", Change{Delete, "n1", ""}, func(w *world, _ *Asker) { w.fallSilent() }, slurm.ErrUnreachable, 1},
		{"nobody listens", "a", Change{Delete, "n1", ""}, func(w *world, _ *Asker) { _ = w.port.Close() }, errDirect, 0},
		{"no agent", "a", Change{Delete, "n1", ""}, func(_ *world, a *Asker) { a.AgentPort = 0 }, errDirect, 0},
		{"one of two answers", "a", Change{Delete, "n1", ""}, func(_ *world, a *Asker) { a.Controller = "127.0.0.3:1," + a.Controller }, nil, 1},
		{"munge", "a", Change{Delete, "n1", ""}, func(_ *world, a *Asker) { a.Prover.Keys = func() *keyring.Ring { return nil } }, errDirect, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, "n1=idle n2=idle")
			w.followed(t, 1, "n1", "n7")
			asker := w.asker(t, c.key)
			if c.prepare != nil {
				c.prepare(w, asker)
			}
			err := asker.Change(t.Context(), c.change, direct)
			if c.want == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, c.want)
			}
			require.Len(t, w.ran(), c.commands)
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
	require.ErrorIs(t, asker.Change(ctx, Change{Delete, "n1", ""}, direct), errDirect)
	require.NoError(t, asker.Change(t.Context(), Change{Delete, "n1", ""}, direct))
}

// TestStranger: without a proof, nothing is asked of slurmctld.
func TestStranger(t *testing.T) {
	w := newWorld(t, "n1=idle")
	for _, path := range []string{"", "?verb=delete&node=n1"} {
		response, err := http.Get("http://" + w.port.Addr().String() + Path + path)
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
	go func() { second <- a.Change(t.Context(), Change{Delete, "n2", ""}, direct) }()
	require.Eventually(t, func() bool { return w.begun.Load() == 1 }, 20*time.Second, time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- b.Change(ctx, Change{Delete, "n1", ""}, direct) }()
	require.Eventually(t, func() bool { return w.waiting() == 2 }, 20*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-first, errDirect)
	require.Eventually(t, func() bool { return w.waiting() == 1 }, 20*time.Second, time.Millisecond)
	w.lock.Unlock()
	require.NoError(t, <-second)
	require.NoError(t, w.asker(t, "a").Change(t.Context(), Change{Delete, "n3", ""}, direct)) // the lane goes on
	require.Equal(t, "n1=idle", w.String())
}

// waiting is how many wait for an answer to a change.
func (w *world) waiting() int {
	n := make(chan int, 1)
	w.port.Do(func() { n <- w.port.Waiting() })
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
		go func() { faults <- asker.Change(t.Context(), Change{Delete, name, ""}, direct) }()
	}
	require.Eventually(t, func() bool { return w.waiting() == 2 }, 20*time.Second, time.Millisecond)
	began := time.Now()
	require.NoError(t, w.port.Close())
	require.ErrorIs(t, <-faults, errDirect)
	require.ErrorIs(t, <-faults, errDirect)
	require.Less(t, time.Since(began), askLimit/2)
}
