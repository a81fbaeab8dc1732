//go:build e2e

package stranger

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// texts are what a stranger says, and then nothing more: a body that does not end, half a
// head, a request whose answer nobody reads, a wait, and nothing at all.
var texts = []string{
	"GET /conf HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000000\r\n\r\n--b\r\nContent-Disposition: form-data; name=\"unlike\"\r\n\r\n",
	"POST /conf HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n\r\n",
	"GET /conf HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 4<<10),
	"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /conf?unlike=x HTTP/1.1\r\nHost: x\r\n\r\n",
	"",
}

// attacker keeps connections open, each as long as it is let.
type attacker struct {
	stop          context.CancelFunc
	all           sync.WaitGroup
	holding, made atomic.Int64
}

func attack(address string, many int) *attacker {
	ctx, stop := context.WithCancel(context.Background())
	a := &attacker{stop: stop}
	for i := range many {
		a.all.Go(func() {
			for ctx.Err() == nil {
				a.hold(ctx, address, texts[i%len(texts)])
			}
		})
	}
	return a
}

func (a *attacker) hold(ctx context.Context, address, text string) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err == nil {
		defer conn.Close()
		a.made.Add(1)
		a.holding.Add(1)
		defer a.holding.Add(-1)
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		if _, err := io.WriteString(conn, text); err == nil && !strings.Contains(text, "/metrics") {
			_, _ = io.Copy(io.Discard, conn)
		}
	}
	select { // what it was told is no reason to hang up at once
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
}

func (a *attacker) end() {
	a.stop()
	a.all.Wait()
}
