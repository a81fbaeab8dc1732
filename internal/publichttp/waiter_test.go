package publichttp

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// known lets those wait in the name that they give: its handler believes everybody.
func known(t testing.TB, limit int) *Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /wait", func(w http.ResponseWriter, r *http.Request) {
		WaitAs(w, r.URL.Query().Get("name"), r.URL.Query().Get("name"))
	})
	p, err := Listen("127.0.0.1:0", mux, Limits{Active: 1000, Waiting: limit, Timeout: time.Minute, WaitTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func waitAs(t *testing.T, p *Server, address byte, name string) *net.TCPConn {
	t.Helper()
	conn := from(t, p, address)
	say(t, conn, "GET /wait?name="+name+" HTTP/1.1\r\nHost: x\r\n\r\n")
	return conn
}

func (p *Server) names() map[string]int {
	return inside(p, func() map[string]int {
		names := map[string]int{}
		for _, c := range p.clients {
			if c.waiter != nil {
				names[c.waiter.name]++
			}
		}
		return names
	})
}

// TestKnown: names keep their places, from whatever address they come and however many strangers do.
func TestKnown(t *testing.T) {
	p := known(t, 4)
	for _, name := range []string{"a", "b", "c"} {
		waitAs(t, p, 1, name)
	}
	awaits(t, p, 3)
	for i := range byte(20) {
		waitAs(t, p, 1+i, "") // strangers
	}
	require.Eventually(t, func() bool { return p.names()[""] == 4 && p.count() == 7 }, limit, time.Millisecond)
	require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1, "": 4}, p.names())

	first := waitAs(t, p, 2, "c")
	awaits(t, p, 8)
	waitAs(t, p, 3, "d") // the name with the most connections loses its oldest
	require.Eventually(t, func() bool { return p.names()["d"] == 1 }, limit, time.Millisecond)
	require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "": 4}, p.names())

	at := func(last byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, last}) }
	waits := func(name string, last byte) bool { return inside(p, func() bool { return p.Waits(name, at(last)) }) }
	require.True(t, waits("c", 2))
	require.False(t, waits("c", 1), "it has lost its place")
	require.False(t, waits("", 1), "a stranger has no name")
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool { return !waits("c", 2) }, limit, time.Millisecond)
	p.Do(func() { p.SetWaiting(1) })
	awaits(t, p, 2)
}

// TestFewFiles: where there are few file descriptors, strangers make room for names.
func TestFewFiles(t *testing.T) {
	p := known(t, 100)
	inside(p, func() int { p.mostParked = 4; return 0 })
	for range 6 {
		waitAs(t, p, 1, "")
	}
	require.Eventually(t, func() bool { return p.names()[""] == 4 }, limit, time.Millisecond)
	for _, name := range []string{"a", "b", "c", "d"} {
		waitAs(t, p, 1, name)
	}
	all := map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}
	require.Eventually(t, func() bool { return maps.Equal(p.names(), all) }, limit, time.Millisecond)
	hungUp(t, waitAs(t, p, 2, ""))
	require.Equal(t, all, p.names())
}

// TestAnswerOne: one is answered and the others wait; one that has gone is answered nothing.
func TestAnswerOne(t *testing.T) {
	came := make(chan *Waiter, 2)
	p, err := Listen("127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { came <- WaitAs(w, "n1", nil) }), generous)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	say(t, from(t, p, 1), "GET / HTTP/1.1\r\n\r\n")
	<-came
	second := from(t, p, 1)
	say(t, second, "GET / HTTP/1.1\r\n\r\n")
	waiter := <-came
	gone := func() bool { return inside(p, waiter.Gone) }
	require.Eventually(t, func() bool { return !gone() }, limit, time.Millisecond)
	p.Do(func() { p.AnswerOne(waiter, func(w http.ResponseWriter) { fmt.Fprint(w, "news") }) })
	_, text := hear(t, second)
	require.Equal(t, "news", text)
	require.True(t, gone())
	p.Do(func() { p.AnswerOne(waiter, func(http.ResponseWriter) { t.Error("it is answered twice") }) })
	awaits(t, p, 1)
}

// crowd is how many wait in the benchmarks. They are in a process of their own: one alone may have
// too few file descriptors for both ends.
const (
	crowd         = 10_000
	crowdVariable = "PUBLICHTTP_TEST_CROWD"
)

// TestMain is the crowd, where it is told an address: each has a name, and waits until stdin ends.
func TestMain(m *testing.M) {
	address := os.Getenv(crowdVariable)
	if address == "" {
		os.Exit(m.Run())
	}
	all := make([]net.Conn, crowd)
	for i := range all {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_, err = fmt.Fprintf(conn, "GET /wait?name=n%d HTTP/1.1\r\n\r\n", i)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		all[i] = conn
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// gather has a crowd wait, which comes from one address.
func gather(b *testing.B, p *Server) (disperse func()) {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), crowdVariable+"="+p.Addr().String()), os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	require.Eventually(b, func() bool { return inside(p, p.Known) == crowd }, time.Minute, time.Millisecond)
	return func() {
		require.NoError(b, in.Close())
		require.NoError(b, cmd.Wait())
	}
}

// BenchmarkWave has a crowd come at once.
func BenchmarkWave(b *testing.B) {
	p := known(b, 2*crowd)
	for b.Loop() {
		disperse := gather(b, p)
		b.StopTimer()
		disperse()
		require.Eventually(b, func() bool { return inside(p, p.Known) == 0 }, time.Minute, time.Millisecond)
		b.StartTimer()
	}
}

// BenchmarkAnnounce answers a crowd.
func BenchmarkAnnounce(b *testing.B) {
	p := known(b, 2*crowd)
	for b.Loop() {
		b.StopTimer()
		disperse := gather(b, p)
		b.StartTimer()
		inside(p, func() int {
			p.Answer(func(_ any, w http.ResponseWriter) bool { _, _ = io.WriteString(w, "news"); return true })
			return 0
		})
		b.StopTimer()
		disperse()
		require.Eventually(b, func() bool { return inside(p, p.Known) == 0 }, time.Minute, time.Millisecond)
		b.StartTimer()
	}
}

// BenchmarkEvict has one client come where a crowd waits, and there is no room left.
func BenchmarkEvict(b *testing.B) {
	p := known(b, crowd)
	defer gather(b, p)()
	for i := 0; b.Loop(); i++ {
		conn, err := net.Dial("tcp", p.Addr().String())
		require.NoError(b, err)
		_, err = fmt.Fprintf(conn, "GET /wait?name=n%d HTTP/1.1\r\n\r\n", i%crowd)
		require.NoError(b, err)
		inside(p, func() int { return 0 })
		_ = conn.Close()
	}
}
