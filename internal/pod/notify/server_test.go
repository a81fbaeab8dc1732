package notify

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const limit = time.Minute

// The test binary is a daemon too, when this variable says what to send.
const sendEnv = "NOTIFY_TEST_SEND"

func TestMain(m *testing.M) {
	if state, ok := os.LookupEnv(sendEnv); ok {
		if sent, err := daemon.SdNotify(false, state); err != nil || !sent {
			os.Exit(1)
		}
		_, _ = io.Copy(io.Discard, os.Stdin) // who has been reaped is nobody's descendant
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// station is a server with everything it has heard.
type station struct {
	*Server
	messages chan Message
	refusals chan Refusal
	hold     func(Message) // called before a message counts as handled
	root     int           // the process that is heard, with its descendants
}

func newStation(t testing.TB) *station {
	s, err := Listen(filepath.Join(t.TempDir(), "notify"), os.Getuid(), os.Getgid())
	require.NoError(t, err)
	return &station{s, make(chan Message, 2000), make(chan Refusal, 100), func(Message) {}, os.Getpid()}
}

// serve accepts root and its descendants, and checks at the end of the test that no descriptor was leaked.
func (s *station) serve(t testing.TB) *station {
	before := descriptors(t)
	failed := make(chan error)
	go func() {
		failed <- s.Serve(
			func(pid, _, _ int) bool { return Descendant(pid, s.root) },
			func(m Message) { s.hold(m); s.messages <- m },
			func(r Refusal) { s.refusals <- r })
	}()
	t.Cleanup(func() {
		s.Flush()
		assert.Equal(t, before, descriptors(t), "a file descriptor was leaked")
		assert.NoError(t, s.Close())
		assert.NoError(t, next(t, failed))
	})
	t.Setenv("NOTIFY_SOCKET", s.Path())
	return s
}

func descriptors(t testing.TB) int {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

func next[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(limit):
		require.FailNow(t, "nothing came")
		panic("not reached")
	}
}

func us(m Message) Message {
	m.PID, m.UID, m.GID = os.Getpid(), os.Getuid(), os.Getgid()
	return m
}

// send sends a message with descriptors, as sd_pid_notify_with_fds(3) does.
func (s *station) send(t testing.TB, text string, fds ...int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Sendmsg(fd, []byte(text), unix.UnixRights(fds...), &unix.SockaddrUnix{Name: s.Path()}, 0))
}

// barrier returns what a sender waits for: the read end of a pipe whose write end went along with the message.
func (s *station) barrier(t testing.TB, text string, copies int) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	fds := make([]int, copies)
	for i := range fds {
		fds[i] = int(w.Fd())
	}
	s.send(t, text, fds...)
	require.NoError(t, w.Close())
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// lifted waits until the barrier's last write end is closed.
func lifted(t testing.TB, barrier *os.File) {
	t.Helper()
	require.NoError(t, barrier.SetReadDeadline(time.Now().Add(limit)))
	_, err := barrier.Read(make([]byte, 1))
	require.ErrorContains(t, err, "EOF")
}

func isLifted(t testing.TB, barrier *os.File) bool {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(barrier.Fd()), Events: unix.POLLIN}}, 0)
	require.NoError(t, err)
	return n > 0
}

func TestServeAnIndependentClient(t *testing.T) {
	s := newStation(t).serve(t)
	for _, state := range []string{daemon.SdNotifyReady + "\nMAINPID=4711", daemon.SdNotifyReloading, daemon.SdNotifyStopping} {
		sent, err := daemon.SdNotify(false, state)
		require.NoError(t, err)
		require.True(t, sent)
	}
	assert.Equal(t, us(Message{Ready: true, MainPID: 4711}), next(t, s.messages))
	assert.Equal(t, us(Message{Reloading: true}), next(t, s.messages))
	assert.Equal(t, us(Message{Stopping: true}), next(t, s.messages))
}

func TestServeAChild(t *testing.T) {
	s := newStation(t).serve(t)
	pid := sendFromAChild(t)
	m := next(t, s.messages)
	assert.True(t, m.Ready)
	assert.Equal(t, pid, m.PID)
}

// Another child of ours is no descendant of the daemon.
func TestServeRefusesAStranger(t *testing.T) {
	ours := child(t, "cat")

	s := newStation(t)
	s.root = ours
	s.serve(t)
	pid := sendFromAChild(t)
	want := Refusal{PID: pid, UID: os.Getuid(), GID: os.Getgid(), Reason: errNotAccepted}
	assert.Equal(t, want, next(t, s.refusals))
	assert.Empty(t, s.messages)
}

// sendFromAChild starts a process that sends READY=1, and returns its pid.
func sendFromAChild(t *testing.T) int {
	t.Helper()
	return child(t, "/proc/self/exe", sendEnv+"=READY=1", "GORACE=atexit_sleep_ms=0")
}

// child starts a process that runs until the end of the test, and returns its pid.
func child(t *testing.T, path string, env ...string) int {
	t.Helper()
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), env...)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { assert.NoError(t, errors.Join(stdin.Close(), cmd.Wait())) })
	return cmd.Process.Pid
}

func TestServeRefusesWhatItCannotRead(t *testing.T) {
	s := newStation(t).serve(t)
	for text, want := range map[string]string{
		"MAINPID=x":                 `cannot read the message: MAINPID="x" is not a number from 1 to 4194304`,
		strings.Repeat("x\n", 2049): "cannot read the message: longer than 4096 bytes",
	} {
		s.send(t, text)
		assert.EqualError(t, next(t, s.refusals).Reason, want)
	}
	s.send(t, strings.Repeat("x\n", 2048))
	assert.Len(t, next(t, s.messages).Unknown, 2048)
}

// A barrier is lifted when its message and the one before it have been handled, not before.
func TestServeABarrier(t *testing.T) {
	s := newStation(t)
	handling, goOn := make(chan bool), make(chan bool)
	s.hold = func(Message) { handling <- true; <-goOn }
	s.serve(t)
	s.send(t, "READY=1\nMAINPID=4711")
	barrier := s.barrier(t, "BARRIER=1", 1)
	for range 2 {
		next(t, handling)
		assert.False(t, isLifted(t, barrier))
		goOn <- true
	}
	lifted(t, barrier)
	assert.Equal(t, us(Message{Ready: true, MainPID: 4711}), next(t, s.messages))
	assert.Equal(t, us(Message{Barrier: true}), next(t, s.messages))
}

// Whatever comes along without being one barrier is closed before the message is handled.
func TestServeClosesUnwantedDescriptors(t *testing.T) {
	for _, c := range []struct {
		name, text string
		copies     int
	}{
		{"without a barrier", "READY=1", 1},
		{"two", "BARRIER=1", 2},
		{"more than there is room for", "BARRIER=1", 100},
		{"with a message that is not understood", "MAINPID=x", 1},
		{"with a message that is too long", strings.Repeat("x", 5000), 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStation(t)
			goOn := make(chan bool)
			s.hold = func(Message) { <-goOn }
			s.serve(t)
			lifted(t, s.barrier(t, c.text, c.copies))
			close(goOn)
		})
	}
}

func TestServeClosesAStrangersDescriptors(t *testing.T) {
	s := newStation(t)
	s.root = -1
	s.serve(t)
	for range 20 {
		lifted(t, s.barrier(t, "BARRIER=1", 1))
	}
	assert.Len(t, s.refusals, burst, "the others are counted, not told")
}

func TestFlush(t *testing.T) {
	s := newStation(t)
	s.serve(t)
	for i := range 1000 {
		s.send(t, "READY=1")
		s.Flush()
		require.Len(t, s.messages, i+1)
	}
}

func TestFlushAfterClose(t *testing.T) {
	s := newStation(t)
	require.NoError(t, s.Close())
	s.Flush()
}

func BenchmarkNotify(b *testing.B) {
	s := newStation(b).serve(b)
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.Path(), Net: "unixgram"})
	require.NoError(b, err)
	defer c.Close()
	for b.Loop() {
		_, _ = c.Write([]byte("READY=1\nMAINPID=4711"))
		<-s.messages
	}
}
