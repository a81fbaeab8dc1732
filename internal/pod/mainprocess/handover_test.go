package mainprocess

import (
	"bufio"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/pod/notify"
	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// TestOnlyAnOldForkIsInTheWay: a slurmd that reconfigures soon after the hand-over that
// it came by has forks of its own.
func TestOnlyAnOldForkIsInTheWay(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	p, err := process.NewTable().Start(process.Command{
		Path: "/bin/sh", Args: []string{"-c", "(while :; do sleep 1; done) & echo up; wait $!; echo $?"}, Group: true, Stdout: w,
	})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	t.Cleanup(func() { _ = p.Signal(unix.SIGKILL) })
	out := bufio.NewScanner(r)
	require.True(t, out.Scan())
	told := 0
	m := &Main{Options: Options{Root: "/", Log: func(slog.Level, string, ...slog.Attr) { told++ }}, process: p}

	const successor = 1 // another one, in any case
	m.freeHandOver(successor, time.Now().Add(-time.Hour))
	assert.Zero(t, told, "it is younger than the words")
	m.freeHandOver(p.PID(), time.Now().Add(time.Hour))
	assert.Zero(t, told, "the successor has taken over")
	m.freeHandOver(successor, time.Now().Add(time.Hour))
	assert.Equal(t, 1, told)
	require.True(t, out.Scan())
	assert.Equal(t, "137", out.Text())
}

// TestEarlyWords: a successor that hands over before its predecessor has named it.
func TestEarlyWords(t *testing.T) {
	var e early
	now := time.Now()
	assert.Equal(t, 5, e.last(5, now), "nobody has said anything")
	for _, m := range []notify.Message{{PID: 9, MainPID: 9}, {PID: 8}, {PID: 5, MainPID: 6}, {PID: 30, MainPID: 31}, {PID: 6, MainPID: 7}} {
		e.hear(m)
	}
	assert.Equal(t, 7, e.last(5, now))
	assert.Equal(t, 7, e.last(6, now))
	assert.Equal(t, 9, e.last(9, now))
	assert.Equal(t, 5, e.last(5, now.Add(time.Minute)), "the pids may be others' by now")
	e.hear(notify.Message{PID: 7, MainPID: 5})
	assert.Equal(t, 5, e.last(5, now), "a circle ends")
	for i := range 2 * mostEarly {
		e.hear(notify.Message{PID: 100 + i, MainPID: 200})
	}
	assert.Len(t, e.said, mostEarly)
	assert.Equal(t, 5, e.last(5, now), "what was said first is forgotten")
}
