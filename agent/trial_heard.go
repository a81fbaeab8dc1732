package agent

import (
	"context"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/process"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// serving returns a channel that is closed when slurmctld takes a connection: it listens early, and serves when
// all else is done. Until then the kernel keeps the connection waiting.
func (t *trial) serving(ctx context.Context) <-chan struct{} {
	serves := make(chan struct{})
	go func() {
		again := time.NewTicker(5 * time.Millisecond)
		defer again.Stop()
		for {
			for _, host := range []string{"127.0.0.1", "::1"} {
				if lets(ctx, net.JoinHostPort(host, strconv.Itoa(t.port))) {
					close(serves)
					return
				}
			}
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return serves
}

// lets says whether who listens there takes a connection, and closes it when it ends
// without a word.
func lets(ctx context.Context, address string) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if conn.(*net.TCPConn).CloseWrite() != nil {
		return false
	}
	_, err = io.Copy(io.Discard, conn)
	return err == nil
}

// lastWords are the errors that a daemon tells right before its end: the fatal one often
// says less than those that have led to it.
type lastWords struct {
	// besides is in lines that do not count.
	besides string

	lock   sync.Mutex
	latest string
	final  []string
}

// unrelated are errors that any slurmctld may tell as it starts, and goes on.
var unrelated = []string{"NOTE: Trying backup", "High latency for ", "Job accounting information gathered"}

// mostWords are enough to see what they are about.
const mostWords = 4

func (w *lastWords) hear(l process.Line) {
	l.Text = slurmconf.Hide(l.Text)
	w.lock.Lock()
	defer w.lock.Unlock()
	switch {
	case strings.Contains(l.Text, w.besides), slices.ContainsFunc(unrelated, func(s string) bool { return strings.HasPrefix(l.Text, s) }):
	case l.Level < slog.LevelError:
		w.final = nil
	default:
		w.latest = l.Text
		w.final = append(w.final, l.Text)
	}
}

func (w *lastWords) String() string {
	w.lock.Lock()
	defer w.lock.Unlock()
	words := slices.Compact(slices.Clone(w.final))
	if len(words) == 0 {
		return w.latest
	}
	return strings.Join(words[max(0, len(words)-mostWords):], "; ")
}
