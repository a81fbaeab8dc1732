package process

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The old daemon hands its stderr on to the new one and ends; the lines go on until that one ends too.
func TestOutputOverAHandOver(t *testing.T) {
	out := collect(t)
	handOver, end := newGate(t), newGate(t)
	c := shell("echo slurmd: old >&2; " + handOver.wait() + `; sh -c 'echo slurmd: error: new >&2; ` + end.wait() + `; printf last >&2' & exit 0`)
	c.Stderr = out.File()
	old := start(t, c)
	require.NoError(t, out.Close())
	assert.Equal(t, Line{"test", 0, "old"}, next(t, out.lines))
	handOver.open(t)
	assert.Equal(t, Status{}, ended(t, old))
	assert.Equal(t, Line{"test", 8, "new"}, next(t, out.lines))
	select {
	case <-out.Drained():
		require.Fail(t, "drained while the new daemon holds the pipe")
	default:
	}
	end.open(t)
	assert.Equal(t, "last", out.text(t))
	next(t, out.Drained())
}

// The lines are twice what the pipe holds, so that seq has to wait for their reader.
func TestOutputLosesNothing(t *testing.T) {
	const lines, width = 10_000, 200
	count := 0
	var wrong []string // testify's comparison of each line would take longer than their reader
	out, err := NewOutput("test", func(l Line) {
		count++
		if l.Text != fmt.Sprintf("%0*d", width, count) {
			wrong = append(wrong, l.Text)
		}
	})
	require.NoError(t, err)
	c := shell(fmt.Sprintf("seq -f %%0%d.0f 1 %d", width, lines))
	c.Stdout = out.File()
	p := start(t, c)
	require.NoError(t, out.Close())
	assert.Equal(t, Status{}, ended(t, p))
	next(t, out.Drained())
	assert.Equal(t, lines, count)
	assert.Empty(t, wrong)
}

// A daemon that finds its stderr non-blocking loses lines; one whose stderr is small stands still.
func TestOutputPipe(t *testing.T) {
	out := collect(t)
	flags, err := unix.FcntlInt(out.File().Fd(), unix.F_GETFL, 0)
	require.NoError(t, err)
	assert.Zero(t, flags&unix.O_NONBLOCK)
	size, err := unix.FcntlInt(out.File().Fd(), unix.F_GETPIPE_SZ, 0)
	require.NoError(t, err)
	assert.Equal(t, pipeSize, size)
}

func BenchmarkOutput(b *testing.B) {
	out, err := NewOutput("test", func(Line) {})
	require.NoError(b, err)
	line := []byte("slurmctld: debug2: sched: JobId=12345 has been looked at and put back into the queue\n")
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		_, _ = out.File().Write(line)
	}
	require.NoError(b, out.Close())
	<-out.Drained()
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		p, err := table.Start(Command{Path: "/bin/true"})
		require.NoError(b, err)
		<-p.Done()
	}
}

// A daemon that has ended has been heard when Flush returns, its unfinished line too.
func TestOutputFlush(t *testing.T) {
	heard := make(chan string, 2)
	o, err := NewOutput("slurmd", func(l Line) { heard <- l.Text })
	require.NoError(t, err)
	for i := range 1000 {
		_, err := fmt.Fprintf(o.File(), "slurmd: %d\nslurmd: fatal: no ", i)
		require.NoError(t, err)
		o.Flush()
		require.Len(t, heard, 2)
		require.Equal(t, strconv.Itoa(i), <-heard)
		require.Equal(t, "no ", <-heard)
	}
	require.NoError(t, o.Close())
	<-o.Drained()
}
