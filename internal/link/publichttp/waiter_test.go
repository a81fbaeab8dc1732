package publichttp

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
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
	require.Eventually(b, func() bool { return inside(p, p.CountKnown) == crowd }, time.Minute, time.Millisecond)
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
		require.Eventually(b, func() bool { return inside(p, p.CountKnown) == 0 }, time.Minute, time.Millisecond)
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
		require.Eventually(b, func() bool { return inside(p, p.CountKnown) == 0 }, time.Minute, time.Millisecond)
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

// TestFaultOfALateAnswer: who waits is told of a fault, and the server lives on.
func TestFaultOfALateAnswer(t *testing.T) {
	told := make(chan error, 2)
	l := generous
	l.Report = func(err error) { told <- err }
	p := open(t, l)
	first, second := from(t, p, 1), from(t, p, 1)
	say(t, first, "GET /wait?tag=a HTTP/1.1\r\n\r\n")
	say(t, second, "GET /wait?tag=b HTTP/1.1\r\n\r\n")
	require.Eventually(t, func() bool { return inside(p, p.CountWaiting) == 2 }, limit, time.Millisecond)
	p.Do(func() {
		p.Answer(func(tag any, w http.ResponseWriter) bool {
			if tag == "a" {
				panic("a fault")
			}
			fmt.Fprint(w, "news")
			return true
		})
	})
	code, _ := hear(t, first)
	require.Equal(t, http.StatusInternalServerError, code)
	_, text := hear(t, second)
	require.Equal(t, "news", text)
	require.EqualError(t, <-told, "cannot answer one that waits: a fault")
}

// TestDoubt: one that waits, and has gone without a word, is found at once. One that lives stays.
func TestDoubt(t *testing.T) {
	p := known(t, 10)
	dead, alive := waitAs(t, p, 1, "a"), waitAs(t, p, 1, "b")
	awaits(t, p, 2)
	vanish(t, dead)
	p.Do(func() { p.Doubt("a"); p.Doubt("b"); p.Doubt("nobody") })
	require.Eventually(t, func() bool { return p.names()["a"] == 0 }, limit, time.Millisecond)
	require.Equal(t, map[string]int{"b": 1}, p.names())
	p.Do(func() {
		p.Answer(func(_ any, w http.ResponseWriter) bool { _, err := w.Write([]byte("x")); return err == nil })
	})
	code, _ := hear(t, alive)
	require.Equal(t, http.StatusOK, code)
}

// TestRecentNames: who was here a moment ago is not away.
func TestRecentNames(t *testing.T) {
	p := known(t, 10)
	recent := func(within time.Duration) []string {
		return inside(p, func() []string { return p.RecentNames(within) })
	}
	require.Empty(t, recent(time.Hour))
	gone, stays := waitAs(t, p, 1, "a"), waitAs(t, p, 2, "b")
	stranger := waitAs(t, p, 3, "")
	awaits(t, p, 3)
	named := func(names ...string) { // a connection is counted before its name has been read
		t.Helper()
		require.Eventually(t, func() bool { return slices.Equal(names, recent(0)) }, limit, time.Millisecond)
	}
	named("a", "b")
	require.NoError(t, errors.Join(gone.Close(), stranger.Close()))
	awaits(t, p, 1)
	require.Equal(t, []string{"a", "b"}, recent(time.Hour))
	p.Do(func() {
		p.Answer(func(_ any, w http.ResponseWriter) bool { _, err := w.Write([]byte("x")); return err == nil })
	})
	_, _ = hear(t, stays)
	awaits(t, p, 0)
	require.Equal(t, []string{"a", "b"}, recent(time.Hour), "an answer ends a question, and the next one comes")
	waitAs(t, p, 2, "b")
	named("b")
	require.Equal(t, []string{"b"}, recent(time.Hour), "it has forgotten who went long ago")
}

// vanish ends a connection as a power cut does: nobody is told (tcp(7), TCP_REPAIR).
func vanish(t *testing.T, conn *net.TCPConn) {
	raw, err := conn.SyscallConn()
	require.NoError(t, err)
	var repair error
	require.NoError(t, raw.Control(func(fd uintptr) { repair = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_REPAIR, 1) }))
	if errors.Is(repair, unix.EPERM) {
		t.Skip("it needs CAP_NET_ADMIN")
	}
	require.NoError(t, repair)
	require.NoError(t, conn.Close())
}

// TestWaiters: those that wait for one answer get it, and nobody else. Clients that come and go leave
// nothing behind.
func TestWaiters(t *testing.T) {
	var group Waiters
	p, err := Listen("127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/group" {
			group.Wait(w)
			return
		}
		Wait(w, nil)
	}), generous)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	first, second, other := from(t, p, 1), from(t, p, 2), from(t, p, 3)
	for conn, path := range map[net.Conn]string{first: "group", second: "group", other: "other"} {
		say(t, conn, "GET /"+path+" HTTP/1.1\r\n\r\n")
	}
	require.Eventually(t, func() bool { return inside(p, p.CountWaiting) == 3 }, limit, time.Millisecond)
	most := 0
	for range 10 * leastTidied {
		gone := from(t, p, 4)
		say(t, gone, "GET /group HTTP/1.1\r\n\r\n")
		require.Eventually(t, func() bool { return inside(p, p.CountWaiting) == 4 }, limit, 100*time.Microsecond)
		require.NoError(t, gone.Close())
		require.Eventually(t, func() bool { return inside(p, p.CountWaiting) == 3 }, limit, 100*time.Microsecond)
		most = max(most, inside(p, func() int { return len(group.all) }))
	}
	require.LessOrEqual(t, most, leastTidied)
	inside(p, func() int {
		p.AnswerAll(&group, func(w http.ResponseWriter) { fmt.Fprint(w, "news") })
		return 0
	})
	for _, conn := range []net.Conn{first, second} {
		_, text := hear(t, conn)
		require.Equal(t, "news", text)
	}
	require.Equal(t, 1, inside(p, p.CountWaiting))
}
