package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/pod/pid1"
)

// table is fed with every orphan that the tests make: the test binary is their subreaper.
var table = NewTable()

const limit = time.Minute

func TestMain(m *testing.M) {
	code, err := pid1.Run(func(e pid1.Exit) { table.Reaped(e.PID, e.Status) }, m.Run)
	if err != nil {
		panic(err)
	}
	if left() && code == 0 {
		fmt.Fprintln(os.Stderr, "a test left a process behind")
		code = 1
	}
	os.Exit(code)
}

// left says whether a test left a process behind. One that was killed closes its files before it can be reaped, so it
// may be a child for a moment longer.
func left() bool {
	last := make(chan error, 1)
	go func() {
		for {
			if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && !errors.Is(err, unix.EINTR) {
				last <- err
				return
			}
		}
	}()
	select {
	case err := <-last:
		return !errors.Is(err, unix.ECHILD)
	case <-time.After(time.Second):
		return true
	}
}

func shell(script string) Command { return Command{Path: "/bin/sh", Args: []string{"-c", script}} }

func start(t *testing.T, c Command) *Process {
	t.Helper()
	p, err := table.Start(c)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = p.Signal(unix.SIGKILL)
		_ = ended(t, p)
	})
	return p
}

func adopt(t *testing.T, pid int) *Process {
	t.Helper()
	p, err := table.Adopt(pid)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = p.Signal(unix.SIGKILL)
		_ = ended(t, p)
	})
	return p
}

func ended(t *testing.T, p *Process) Status {
	t.Helper()
	next(t, p.Done())
	return p.Status()
}

func next[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(limit):
		require.FailNow(t, "nothing came")
		panic("not reached")
	}
}

// collector holds the lines of an Output.
type collector struct {
	*Output
	lines chan Line
}

func collect(t *testing.T) collector {
	t.Helper()
	lines := make(chan Line, 1000)
	o, err := NewOutput("test", func(l Line) { lines <- l })
	require.NoError(t, err)
	t.Cleanup(func() { _ = o.Close() })
	return collector{o, lines}
}

// text waits for a line and returns its text.
func (c collector) text(t *testing.T) string {
	t.Helper()
	return next(t, c.lines).Text
}

// gate keeps a shell that executes wait from going on.
type gate struct{ path string }

func newGate(t *testing.T) gate {
	t.Helper()
	g := gate{filepath.Join(t.TempDir(), "gate")}
	require.NoError(t, unix.Mkfifo(g.path, 0o600))
	return g
}

func (g gate) wait() string { return "read x <" + g.path }

// open lets the one shell through that waits.
func (g gate) open(t *testing.T) {
	t.Helper()
	require.NoError(t, os.WriteFile(g.path, []byte("\n"), 0))
}
