package agent

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// TestIsSilent: only one who takes connections and does nothing with them is silent.
func TestIsSilent(t *testing.T) {
	const short, generous = 100 * time.Millisecond, time.Minute
	path := filepath.Join(t.TempDir(), "socket")
	require.False(t, isSilent(path, generous), "there is no socket")

	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	listener.SetUnlinkOnClose(false)
	require.True(t, isSilent(path, short), "nobody accepts")

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
	require.False(t, isSilent(path, generous), "it closes what is closed for writing")

	require.NoError(t, listener.Close())
	require.False(t, isSilent(path, generous), "it has died, and left its socket")
}

// TestIsSilentToMany: as many wait already as may.
func TestIsSilentToMany(t *testing.T) {
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
	require.True(t, isSilent(path, 100*time.Millisecond))
	for _, conn := range waiting {
		conn.Close()
	}
}

// TestListensWhileItAsks: a question that takes long has slurmd listened to, one that is
// answered does not, and a probe does so once in a while.
func TestListensWhileItAsks(t *testing.T) {
	dir := t.TempDir()
	a := &Agent{Options: Options{Root: dir}, over: make(chan struct{})}
	require.Nil(t, a.listenToSlurmd(), "it has no slurmd")
	a.daemon.registers = true
	require.Nil(t, a.listenToSlurmd(), "scontrol's credentials come from munged")
	a.daemon.keys = dir
	require.NotNil(t, a.listenToSlurmd())
	a.listening.Store(true) // whoever listens already keeps others from it
	before := a.heardAt.Load()
	a.listenAtProbe()
	first := a.heardAt.Load()
	require.Greater(t, first, before)
	a.listenAtProbe()
	require.Equal(t, first, a.heardAt.Load(), "not again within the minute")
}

// TestSpoolThatDoesNotAnswer: steps that nobody can look for may live.
func TestSpoolThatDoesNotAnswer(t *testing.T) {
	a := &Agent{}
	a.spoolHangs.Store(true)
	living, dead := a.sockets()
	require.Equal(t, []string{unknownStep}, living)
	require.Empty(t, dead)
	require.True(t, hasScript(living, &slurm.Job{ID: 5}))
}
