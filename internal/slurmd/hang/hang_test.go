package hang

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// TestIsHung: only one who takes connections and does nothing with them hangs.
func TestIsHung(t *testing.T) {
	const short, generous = 100 * time.Millisecond, time.Minute
	path := filepath.Join(t.TempDir(), "socket")
	require.False(t, isHung(path, generous), "there is no socket")

	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	listener.SetUnlinkOnClose(false)
	require.True(t, isHung(path, short), "nobody accepts")

	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1))
			conn.Close()
		}
	}()
	require.False(t, isHung(path, generous), "it closes what is closed for writing")

	require.NoError(t, listener.Close())
	require.False(t, isHung(path, generous), "it has died, and left its socket")
}

// TestIsHungToMany: as many wait already as may.
func TestIsHungToMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	require.NoError(t, unix.Listen(fd, 0))
	var waiting []net.Conn
	for {
		conn, err := net.Dial("unix", path)
		if err != nil {
			require.ErrorIs(t, err, unix.EAGAIN)
			break
		}
		waiting = append(waiting, conn)
	}
	require.True(t, isHung(path, 100*time.Millisecond))
	for _, conn := range waiting {
		conn.Close()
	}
}

// TestHangCheck: a probe has slurmd checked once in a while, and nobody is checked twice at a time.
func TestHangCheck(t *testing.T) {
	h := New(Options{Done: make(chan struct{})})
	h.checking.Store(true) // whoever waits already keeps others from it
	before := h.probed.Load()
	h.AtProbe()
	first := h.probed.Load()
	require.Greater(t, first, before)
	h.AtProbe()
	require.Equal(t, first, h.probed.Load(), "not again within the minute")
}

// TestHangIsReported: a question that takes long has slurmd checked, where slurmctld answers.
func TestHangIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	defer listener.Close()
	p, err := process.NewTable().Start(process.Command{Path: "/bin/sleep", Args: []string{"1000"}})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Signal(unix.SIGKILL)) }()
	var away error
	crowd := false
	hanging := make(chan int, 1)
	h := New(Options{
		Socket: func() string { return path }, Done: make(chan struct{}),
		Running: func() *process.Process { return p },
		Reach:   func(context.Context) error { return away },
		Hangs:   func(pid int, _ time.Duration) { hanging <- pid },
		Crowded: func() bool { return crowd },
	})
	h.SetLimit(200 * time.Millisecond) // a loaded machine takes more than one to connect
	h.Asked(t.Context())
	require.Equal(t, p.PID(), <-hanging)

	away = errors.New("slurmctld is away")
	h.probe()
	require.Empty(t, hanging)
	away, crowd = nil, true
	h.probe()
	require.Empty(t, hanging, "it serves others")

	var none *Check
	none.SetLimit(time.Second)
	none.Asked(t.Context())
	none.AtProbe()
	none.WhileStopping()
}

// TestBusySlurmd: who computes, or waits for a processor, has more time to answer than who sleeps.
func TestBusySlurmd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	defer listener.Close()
	p, err := process.NewTable().Start(process.Command{Path: "/bin/sh", Args: []string{"-c", "while :; do :; done"}})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Signal(unix.SIGKILL)) }()
	const limit = 50 * time.Millisecond
	h := New(Options{Socket: func() string { return path }, Running: func() *process.Process { return p }})
	h.SetLimit(limit)
	require.Equal(t, busyLimits*limit, h.silence(p))
	h.stopping.Store(true)
	require.Equal(t, busyOnTheWay*limit, h.silence(p))
	h.stopping.Store(false)
	require.NoError(t, p.Signal(unix.SIGSTOP))
	require.Equal(t, limit, h.silence(p))
	h.Running = func() *process.Process { return nil }
	require.Zero(t, h.silence(p), "another slurmd has taken over")
}
