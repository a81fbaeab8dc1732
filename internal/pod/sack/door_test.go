package sack

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// door is one in front of what each test makes.
func door(t *testing.T) *Door {
	if os.Geteuid() != 0 {
		t.Skip("root alone connects as others")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	d, err := New(Options{Path: filepath.Join(dir, "sack.socket"), Dir: filepath.Join(dir, "own"), Log: func(slog.Level, string, ...slog.Attr) {}})
	require.NoError(t, err)
	return d
}

// daemon is one that tells who has asked, as the kernel says, and what.
func daemon(t *testing.T, d *Door, answers bool) *Back {
	back, err := d.NewBack()
	require.NoError(t, err)
	listener, err := net.FileListener(back.Listener)
	require.NoError(t, err)
	require.NoError(t, back.Listener.Close())
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				asked, err := readRequest(conn)
				who, _ := peer(conn.(*net.UnixConn))
				if err == nil && answers {
					fmt.Fprintf(conn, "%d:%d asked %q", who.Uid, who.Gid, asked[10:])
				}
				_, _ = conn.Read(asked) // until the other end has gone
			}()
		}
	}()
	return back
}

func request(text string) []byte {
	header := binary.BigEndian.AppendUint16(nil, 0x2a00)
	header = binary.BigEndian.AppendUint32(header, uint32(8+len(text)))
	return append(binary.BigEndian.AppendUint32(header, 1), text...)
}

func ask(t *testing.T, d *Door, uid uint32) string {
	conn, err := connectAs(uid, uid+1, d.Path)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	for _, part := range bytes.SplitAfter(request("for a credential"), []byte("for")) {
		_, err = conn.Write(part)
		require.NoError(t, err)
	}
	answer := make([]byte, 100)
	n, err := conn.Read(answer)
	require.NoError(t, err)
	return string(answer[:n])
}

// TestCrowd: one user's silent connections keep nobody from an answer, and the daemon knows who has asked.
func TestCrowd(t *testing.T) {
	d := door(t)
	back := daemon(t, d, true)
	require.NoError(t, d.Open(back))
	defer d.Shut(back)
	require.Equal(t, `1000:1001 asked "for a credential"`, ask(t, d, 1000))
	var crowd []net.Conn
	for range 900 {
		conn, err := connectAs(2000, 2000, d.Path)
		require.NoError(t, err)
		defer conn.Close()
		crowd = append(crowd, conn)
		_, _ = conn.Write(request("half")[:12]) // it may be over
	}
	require.Equal(t, `1000:1001 asked "for a credential"`, ask(t, d, 1000))
	require.Equal(t, `0:1 asked "for a credential"`, ask(t, d, 0))
	require.Equal(t, `2000:2001 asked "for a credential"`, ask(t, d, 2000), "those that end are older")
	require.Eventually(t, func() bool { return d.Status().Connections <= usual.silent }, time.Minute, time.Millisecond, "the others are ended")
	status := d.Status()
	require.Len(t, status.Crowding, 1)
	require.EqualValues(t, 2000, status.Crowding[0].UID)
	_, err := crowd[0].Read(make([]byte, 1))
	require.Error(t, err)
	require.Eventually(t, func() bool { return !othersThread() }, time.Minute, time.Millisecond, "no thread stays another user's")
}

// othersThread: a thread of this process has another effective uid.
func othersThread() bool {
	tasks, _ := filepath.Glob("/proc/self/task/*/status") // the pattern is a good one
	for _, path := range tasks {
		if text, err := os.ReadFile(path); err == nil && !strings.Contains(string(text), "Uid:\t0\t0\t0\t0") {
			return true
		}
	}
	return false
}

// TestSilent: who says nothing is ended, and counted.
func TestSilent(t *testing.T) {
	d := door(t)
	d.patience = 10 * time.Millisecond
	back := daemon(t, d, true)
	require.NoError(t, d.Open(back))
	defer d.Shut(back)
	conn, err := connectAs(2000, 2000, d.Path)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.EqualValues(t, 1, d.Status().Ended)
}

// TestReplaced: who waits for the answer of a daemon that hangs gets it from another, and nobody is let in without any.
func TestReplaced(t *testing.T) {
	d := door(t)
	hung := daemon(t, d, false)
	looked := make(chan struct{}, 1)
	d.Slow = func() { looked <- struct{}{} }
	require.NoError(t, d.Open(hung))
	conn, err := connectAs(1000, 1001, d.Path)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write(request("for a credential"))
	require.NoError(t, err)
	<-looked
	other := daemon(t, d, true)
	require.NoError(t, d.Open(other))
	answer := make([]byte, 100)
	n, err := conn.Read(answer)
	require.NoError(t, err)
	require.Contains(t, string(answer[:n]), "1000:1001 asked")
	d.Shut(hung)
	hung.Close()
	require.Contains(t, ask(t, d, 1000), "1000:1001 asked", "it was not in use any more")
	d.Shut(other)
	_, err = connectAs(1000, 1000, d.Path)
	require.Error(t, err)
	next := daemon(t, d, true)
	require.NoError(t, d.Open(next))
	require.Contains(t, ask(t, d, 1000), "1000:1001 asked")
	d.Shut(next)
}

func TestReadRequest(t *testing.T) {
	whole := request("text")
	got, err := readRequest(bytes.NewReader(append(whole, "more"...)))
	require.NoError(t, err)
	require.Equal(t, whole, got)
	for end := range whole {
		_, err = readRequest(bytes.NewReader(whole[:end]))
		require.Error(t, err, end)
	}
	_, err = readRequest(strings.NewReader("\x2a\x00\xff\xff\xff\xff"))
	require.ErrorIs(t, err, errLong)
}
