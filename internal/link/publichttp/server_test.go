package publichttp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// limit is for a busy machine.
const limit = time.Minute

var generous = Limits{Active: 100, Waiting: 100, Timeout: time.Minute, WaitTimeout: time.Minute}

func open(t *testing.T, l Limits) *Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /short", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "from ", r.RemoteAddr) })
	mux.HandleFunc("GET /long", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, long) })
	mux.HandleFunc("GET /wait", func(w http.ResponseWriter, r *http.Request) { Wait(w, r.URL.Query().Get("tag")) })
	mux.HandleFunc("GET /fault", func(http.ResponseWriter, *http.Request) { panic("a fault") })
	p, err := Listen("127.0.0.1:0", mux, l)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// long is more than any socket takes.
var long = strings.Repeat("x", 5<<20)

// from dials from an address of this machine's.
func from(t *testing.T, p *Server, last byte) *net.TCPConn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, last)}}
	conn, err := d.Dial("tcp", p.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

// patiently bounds a read of a connection from now on: the test may have needed long for what came before.
func patiently(t *testing.T, conn net.Conn) net.Conn {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(limit)))
	return conn
}

func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
}

// hear reads an answer to its end, which is that of the connection.
func hear(t *testing.T, conn net.Conn) (code int, text string) {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(patiently(t, conn)), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	require.True(t, response.Close)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	return response.StatusCode, string(body)
}

// hungUp waits for the end of a connection that gets no answer.
func hungUp(t *testing.T, conn net.Conn) {
	t.Helper()
	text, err := io.ReadAll(patiently(t, conn))
	require.Empty(t, text)
	require.False(t, errors.Is(err, unix.ETIMEDOUT) || isTimeout(err), "it is still there")
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// inside runs on the server's goroutine.
func inside[T any](p *Server, f func() T) T {
	c := make(chan T, 1)
	p.Do(func() { c <- f() })
	return <-c
}

func (p *Server) count() int { return inside(p, func() int { return len(p.clients) }) }

func awaits(t *testing.T, p *Server, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return p.count() == n }, limit, time.Millisecond, "not %d connections", n)
}

func TestAnswers(t *testing.T) {
	told := make(chan error, 1)
	l := generous
	l.Report = func(err error) { told <- err }
	p := open(t, l)
	for _, c := range []struct {
		request string
		want    int
	}{
		{"GET /short HTTP/1.1\r\nHost: x\r\n\r\n", 200},
		{"GET /short HTTP/1.0\n\n", 200},
		{"GET /none HTTP/1.1\r\nHost: x\r\n\r\n", 404},
		{"POST /short HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", 405},
		{"BREW /short HTTP/1.1\r\nHost: x\r\n\r\n", 405},
		{"PRI * HTTP/2.0\r\n\r\n", 405},
		{"GET /short HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", 413},
		{"GET /short HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 413},
		{"GET /short HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", 400},
		{"GET * HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		{"hello\r\n\r\n", 400},
		{"GET /short HTTP/1.1\r\nX: " + strings.Repeat("x", mostHead), 431},
		{"GET /fault HTTP/1.1\r\nHost: x\r\n\r\n", 500},
	} {
		conn := from(t, p, 1)
		say(t, conn, c.request)
		code, _ := hear(t, conn)
		require.Equal(t, c.want, code, c.request)
	}
	require.ErrorContains(t, <-told, "cannot answer /fault: a fault")
	conn := from(t, p, 1)
	say(t, conn, "HEAD /short HTTP/1.1\r\nHost: x\r\n\r\n")
	text, err := io.ReadAll(patiently(t, conn)) // the server says when it is over
	require.NoError(t, err)
	require.Regexp(t, "(?s)^HTTP/1.1 200 OK\r\n.*\r\n\r\n$", string(text))
	require.NoError(t, conn.Close())
	awaits(t, p, 0)
}

// TestInPieces: a request comes as it likes, and its answer is read so.
func TestInPieces(t *testing.T) {
	p := open(t, generous)
	conn := from(t, p, 1)
	for _, c := range "GET /long HTTP/1.1\r\nHost: x\r\n\r\n" {
		say(t, conn, string(c))
		inside(p, func() int { return 0 })
	}
	_, text := hear(t, conn)
	require.Len(t, text, len(long))
	awaits(t, p, 0)
}

// TestHalfClosed: who says nothing more hears the answer, but does not wait for one.
func TestHalfClosed(t *testing.T) {
	p := open(t, generous)
	for _, c := range []struct {
		request string
		want    int
	}{
		{"GET /short HTTP/1.1\r\nHost: x\r\n\r\n", 200},
		{"GET /long HTTP/1.1\r\nHost: x\r\n\r\n", 200},
		{"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n", 0},
		{"GET /sho", 0},
		{"", 0},
	} {
		conn := from(t, p, 1)
		say(t, conn, c.request)
		require.NoError(t, conn.CloseWrite())
		if c.want == 0 {
			hungUp(t, conn)
			continue
		}
		code, _ := hear(t, conn)
		require.Equal(t, c.want, code)
	}
	awaits(t, p, 0)
}

// TestWait: who waits is told, or gone, and may say nothing more.
func TestWait(t *testing.T) {
	p := open(t, generous)
	var waiting []*net.TCPConn
	for _, tag := range []string{"a", "b", "c", "d"} {
		conn := from(t, p, 1)
		say(t, conn, "GET /wait?tag="+tag+" HTTP/1.1\r\nHost: x\r\n\r\n")
		waiting = append(waiting, conn)
	}
	require.Eventually(t, func() bool { return inside(p, p.CountWaiting) == 4 }, limit, time.Millisecond)
	say(t, waiting[2], "more")
	hungUp(t, waiting[2])
	require.NoError(t, waiting[3].Close())
	awaits(t, p, 2)
	p.Do(func() {
		p.Answer(func(tag any, w http.ResponseWriter) bool {
			fmt.Fprint(w, "news")
			return tag == "b"
		})
	})
	_, text := hear(t, waiting[1])
	require.Equal(t, "news", text)
	awaits(t, p, 1)
	p.Do(func() { p.SetWaiting(0) })
	hungUp(t, waiting[0])
}

// TestTooMany: it is the address with the most that loses its oldest, whether it asks, reads or waits.
func TestTooMany(t *testing.T) {
	for name, text := range map[string]string{
		"asks": "GET /short HTTP/1.1\r\nHo", "reads": "GET /long HTTP/1.1\r\nHost: x\r\n\r\n", "waits": "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, Limits{Active: 10, Waiting: 10, Timeout: time.Hour, WaitTimeout: time.Hour})
			stranger := []*net.TCPConn{from(t, p, 2)}
			say(t, stranger[0], text)
			awaits(t, p, 1)
			alone := from(t, p, 3)
			say(t, alone, text)
			awaits(t, p, 2)
			for range 30 {
				conn := from(t, p, 2)
				say(t, conn, text)
				stranger = append(stranger, conn)
				inside(p, func() int { return 0 })
			}
			awaits(t, p, 10)
			require.Equal(t, 1, inside(p, func() int { return p.from(3) })) // now: who reads nothing for TCP_USER_TIMEOUT is lost
			require.Equal(t, 9, inside(p, func() int { return p.from(2) }))
			for _, conn := range stranger[:31-9] {
				_, err := io.Copy(io.Discard, patiently(t, conn))
				require.False(t, isTimeout(err))
				require.True(t, name != "waits" || err != nil)
			}
		})
	}
}

func (p *Server) from(last byte) (n int) {
	for _, g := range p.clients {
		if a := g.from.Addr().As4(); a[3] == last {
			n++
		}
	}
	return n
}

// TestDoComesFirst: who asks after Do was called is answered after what it was called with, also
// where both of it happens while the server answers somebody else.
func TestDoComesFirst(t *testing.T) {
	state, answering, said := "before", make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /slow", func(http.ResponseWriter, *http.Request) { close(answering); <-said })
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, state) })
	p, err := Listen("127.0.0.1:0", mux, generous)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })

	late := inside(p, func() net.Conn { // the server sees both at once
		say(t, from(t, p, 1), "GET /slow HTTP/1.1\r\n\r\n")
		return from(t, p, 1)
	})
	<-answering
	p.Do(func() { state = "after" })
	say(t, late, "GET /state HTTP/1.1\r\n\r\n")
	close(said)
	_, text := hear(t, late)
	require.Equal(t, "after", text)
}

// TestTimeIsOver: who asks, reads or waits for too long is hung up, and nothing of it stays.
func TestTimeIsOver(t *testing.T) {
	p := open(t, Limits{Active: 10, Waiting: 10, Timeout: 200 * time.Millisecond, WaitTimeout: 300 * time.Millisecond})
	var all []*net.TCPConn
	for _, text := range []string{"", "GET /short HTTP/1.1\r\nHo", "GET /long HTTP/1.1\r\nHost: x\r\n\r\n", "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"} {
		conn := from(t, p, 1)
		say(t, conn, text)
		all = append(all, conn)
	}
	for _, i := range []int{0, 1, 3} {
		hungUp(t, all[i])
	}
	awaits(t, p, 0) // the one that does not read its answer, too
	conn := from(t, p, 1)
	say(t, conn, "GET /short HTTP/1.1\r\n\r\n")
	code, _ := hear(t, conn)
	require.Equal(t, 200, code)
}

// TestNoFiles: a process that may open nothing more lets others in when it may again.
func TestNoFiles(t *testing.T) {
	p := open(t, generous)
	inside(p, func() int { p.pause(); return 0 })
	conn := from(t, p, 1)
	say(t, conn, "GET /short HTTP/1.1\r\n\r\n")
	code, _ := hear(t, conn)
	require.Equal(t, 200, code)
}

func TestHasHead(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "\n": 0, "x\n": 0, "x\r\n": 0, "x\n\n": 3, "x\r\n\r\n": 5, "x\r\n\nmore": 4, "x\n\r\nmore": 4, "x\ny\n\r": 0, "\r\n\r\n": 4,
	} {
		require.Equal(t, want, hasHead([]byte(text)), "%q", text)
	}
}

// TestEventOfAnother: what the kernel told of a connection that had to go is not taken for
// the word of the next one, which may have its file descriptor.
func TestEventOfAnother(t *testing.T) {
	l := generous
	l.Active = 2
	p := open(t, l)
	gone := []*net.TCPConn{from(t, p, 9), from(t, p, 9)}
	awaits(t, p, 2)

	stands, goes := make(chan struct{}), make(chan struct{})
	p.Do(func() {
		close(stands)
		<-goes
	})
	<-stands
	came := []*net.TCPConn{from(t, p, 1), from(t, p, 1)} // these first
	for _, conn := range gone {
		require.NoError(t, conn.SetLinger(0)) // the end is a reset
		require.NoError(t, conn.Close())
	}
	close(goes)
	awaits(t, p, 2)
	for _, conn := range came {
		say(t, conn, "GET /short HTTP/1.1\r\nHost: x\r\n\r\n")
		code, _ := hear(t, conn)
		require.Equal(t, 200, code)
	}
}

// TestShare: a hundred clients that do not read have one long text in common, and each gets its own
// end of it once it reads.
func TestShare(t *testing.T) {
	shared := []byte(strings.Repeat("0123456789abcdef", 1<<19))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /shared", func(w http.ResponseWriter, r *http.Request) {
		Share(w, shared)
		fmt.Fprint(w, r.URL.RawQuery)
	})
	p, err := Listen("127.0.0.1:0", mux, Limits{Active: 200, Timeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	before := heapSize()
	var all []*net.TCPConn
	for i := range 100 {
		conn := from(t, p, 1)
		say(t, conn, fmt.Sprintf("GET /shared?n%d HTTP/1.1\r\nHost: x\r\n\r\n", i))
		all = append(all, conn)
	}
	require.Eventually(t, func() bool {
		return inside(p, func() (n int) {
			for _, c := range p.clients {
				if c.phase == writing {
					n++
				}
			}
			return n
		}) == 100
	}, limit, time.Millisecond)
	require.Less(t, heapSize()-before, int64(len(shared)), "a copy for each of them")
	for _, i := range []int{0, 57, 99} {
		code, text := hear(t, all[i])
		require.Equal(t, 200, code)
		require.Equal(t, string(shared)+fmt.Sprintf("n%d", i), text)
	}
	conn := from(t, p, 1)
	say(t, conn, "HEAD /shared?more HTTP/1.1\r\nHost: x\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(patiently(t, conn)), &http.Request{Method: http.MethodHead})
	require.NoError(t, err)
	require.Equal(t, int64(len(shared)+len("more")), response.ContentLength)
	require.NoError(t, response.Body.Close())

	w := httptest.NewRecorder()
	Share(w, []byte("another server"))
	require.Equal(t, "another server", w.Body.String())
}

// heapSize is how many bytes are in use.
func heapSize() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestWithout(t *testing.T) {
	parts := func() [][]byte { return [][]byte{[]byte("head"), []byte("shared"), {}, []byte("own"), {}} }
	whole := bytes.Join(parts(), nil)
	for n := range len(whole) + 1 {
		rest := without(parts(), n)
		require.Equal(t, whole[n:], append([]byte{}, bytes.Join(rest, nil)...))
		require.Equal(t, n == len(whole), len(rest) == 0)
	}
}

// TestHeadWaits: who waits and wants no body gets none.
func TestHeadWaits(t *testing.T) {
	p := open(t, generous)
	conn := from(t, p, 1)
	say(t, conn, "HEAD /wait?tag=a HTTP/1.1\r\n\r\n")
	require.Eventually(t, func() bool { return inside(p, p.CountWaiting) == 1 }, limit, time.Millisecond)
	p.Do(func() {
		p.Answer(func(_ any, w http.ResponseWriter) bool {
			fmt.Fprint(w, "news")
			return true
		})
	})
	head, err := io.ReadAll(patiently(t, conn))
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(head), "\r\n\r\n"), "%s", head)
}

// TestOneConnection: a stranger cannot add subflows of MPTCP to a connection.
func TestOneConnection(t *testing.T) {
	require.False(t, listening().MultipathTCP())
}
