package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// half are requests that do not come to their end.
var half = []string{
	"", "G", "GET /status HTTP/1.1\r\nHost: x\r\nX", "GET /metrics HTTP/1.1\r\nX: " + strings.Repeat("x", 4<<10), "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}

// rude are requests that nobody sends who means well.
var rude = []string{
	form("GET", 1<<20, ""), form("POST", 1<<20, "; filename=\"x\""), "POST /drain HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
	"GET /conf HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n", "GET /conf?unlike=x HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /challenge HTTP/1.1\r\nHost: x\r\n\r\n", "GET /conf?node=n1 HTTP/1.1\r\nHost: x\r\nAuthorization: Slurmlet1 " + strings.Repeat("00 ", 500) + "\r\n\r\n",
	"GET /conf?node=n1 HTTP/1.1\r\nHost: x\r\nAuthorization: Slurmlet1 " + strings.Repeat("0", 32) + " " + strings.Repeat("1", 32) + " " + strings.Repeat("2", 64) + ".\r\n\r\n",
	"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "GET /" + strings.Repeat("../", 1000) + " HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /status HTTP/1.1\r\n" + strings.Repeat("A:\r\n", 3000), "GET http://x:0/%zz HTTP/9.9\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\r\n\r\n", "\x00\x00\r\n\r\n",
	"GET /status HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nUpgrade: h2c\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "HEAD /status HTTP/1.1\r\nHost: x\r\n\r\n",
}

// TestAttack: whatever strangers do to the port of each role's agent, somebody else is answered, and the daemon lives on.
func TestAttack(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"slurmctld", "slurmd"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			c := start(t, given{role: role, env: []string{"SLURMLET_LISTEN=" + port}})
			c.await(phase{name: "it is Ready", want: []condition{isReady}})
			remember(c)
			siege(t, port, func() int { return c.agent.Process.Pid })
			require.NoError(t, c.check([]condition{isReady, stays, restarts(0)}))
		})
	}
}

// TestAttackOthers: the same for agents whose daemons are not here: the port is open while they fail to start.
func TestAttackOthers(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	c := start(t, given{role: "slurmd", noSlurmctld: true, env: []string{"SLURMLET_LISTEN=" + port}})
	c.await(phase{name: "it waits", want: []condition{probes(200, 503, 503)}})
	hold(t, port, half[2], 1000)
	require.NoError(t, c.check([]condition{probes(200, 503, 503)}))
	c.openSlurmctld()
	c.await(phase{name: "it is Ready", want: []condition{isReady}})
}

// besieged is how many connections a stranger opens, allowed how much memory they may cost the agent: ours is built with the
// race detector, which makes it several times as much.
const besieged, allowed = 10_000, 96 << 20

func siege(t *testing.T, port string, pid func() int) {
	t.Helper()
	before := resident(t, pid())
	var all sync.WaitGroup
	for worker := range 20 {
		all.Go(func() {
			var held []net.Conn
			for i := range besieged / 20 {
				conn, err := stranger.Dial("tcp", port)
				if err != nil {
					continue // so many, that it is let in later
				}
				_ = conn.SetDeadline(time.Now().Add(limit))
				texts := [][]string{half, rude}[i%2]
				_, _ = io.WriteString(conn, texts[(i/2+worker)%len(texts)]) // it may be refused meanwhile
				if held = append(held, conn); len(held) == 100 {
					for _, conn := range held[:50] {
						_ = conn.Close()
					}
					held = held[50:]
				}
			}
			for _, conn := range held {
				_ = conn.Close()
			}
		})
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	answered := 0
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		require.Equal(t, "Ready\n", fetch(t, port, "/readyz"))
		answered++
	}
	t.Logf("answered %d times meanwhile; the agent's memory: %d KiB before, %d KiB after", answered, before>>10, resident(t, pid())>>10)
	require.Less(t, resident(t, pid()), before+allowed)
}

// stranger comes from another address than those who mean well.
var stranger = net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}, Timeout: limit}

// resident is a process's memory in bytes.
func resident(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	require.NoError(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	require.NoError(t, err)
	return pages * unix.Getpagesize()
}

// FuzzHTTP sends bytes to a real agent's port, in pieces, and asks afterwards, as a probe does.
func FuzzHTTP(f *testing.F) {
	for _, text := range append(half, rude...) {
		f.Add([]byte(text), uint16(len(text)))
	}
	port := freePort(f)
	c := start(f, given{role: "slurmctld", env: []string{"SLURMLET_LISTEN=" + port}})
	c.await(phase{name: "it is Ready", want: []condition{isReady}})
	f.Fuzz(func(t *testing.T, text []byte, cut uint16) {
		conn, err := net.Dial("tcp", port)
		require.NoError(t, err)
		defer conn.Close()
		at := min(int(cut), len(text))
		for _, piece := range [][]byte{text[:at], text[at:]} {
			_, _ = conn.Write(piece) // it may be refused meanwhile
		}
		if bytes.Contains(text, []byte("\r\n\r\n")) && !bytes.Contains(text, []byte("/conf")) {
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(limit)))
			answer := make([]byte, 1)
			_, _ = conn.Read(answer) // an answer, or its end; both are good
		}
		require.Equal(t, http.StatusOK, httpStatus(t, port, "/livez"))
	})
}
