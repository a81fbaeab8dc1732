package outlet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func told(lost int) []byte { return fmt.Appendf(nil, "%d lost\n", lost) }

// gate is a writer that stands still until it is opened.
type gate struct {
	open chan struct{}
	// reached rings when something stands before the gate.
	reached chan struct{}
	mu      sync.Mutex
	text    bytes.Buffer
}

func newGate() *gate { return &gate{open: make(chan struct{}), reached: make(chan struct{}, 1)} }

func (g *gate) Write(data []byte) (int, error) {
	select {
	case g.reached <- struct{}{}:
	default: // also of a gate without the channel
	}
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(data)
}

func (g *gate) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}

const limit = time.Minute

func TestNothingIsLostWhereSomebodyReads(t *testing.T) {
	g := newGate()
	close(g.open)
	o := New(g, 1<<20, told)
	var want strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(io.MultiWriter(o, &want), "line %d\n", i)
		if i%1000 == 0 {
			o.Flush(limit)
		}
	}
	o.Flush(limit)
	assert.Equal(t, want.String(), g.String())
	assert.Zero(t, o.Lost())
	o.Flush(0) // nothing waits
}

// What is lost is told where it would stand, and counted.
func TestLoss(t *testing.T) {
	g := newGate()
	o := New(g, 100, told)
	var sent int
	for ; o.Lost() < 10; sent++ {
		fmt.Fprintf(o, "line %04d\n", sent)
		if sent == 0 {
			<-g.reached // what is taken out later makes room between lines that are lost
		}
	}
	o.Flush(time.Millisecond) // it has a limit
	close(g.open)
	o.Flush(limit)
	fmt.Fprintln(o, "after it")
	o.Flush(limit)
	kept := sent - 10
	var want strings.Builder
	for i := range kept {
		fmt.Fprintf(&want, "line %04d\n", i)
	}
	assert.Equal(t, want.String()+"10 lost\nafter it\n", g.String())
	assert.LessOrEqual(t, want.Len(), 2*100+len("line 0000\n"))
}

// A line that is longer than what is kept goes out: it may be the dump that somebody wants.
func TestLongLine(t *testing.T) {
	g := newGate()
	close(g.open)
	o := New(g, 10, told)
	long := strings.Repeat("x", 1000) + "\n"
	_, _ = io.WriteString(o, long)
	o.Flush(limit)
	assert.Equal(t, long, g.String())
}

// failing is a writer that fails in the middle of a line, once.
type failing struct {
	gate
	after int
}

func (f *failing) Write(data []byte) (int, error) {
	if f.after > 0 && len(data) > f.after {
		n, _ := f.gate.Write(data[:f.after])
		f.after = 0
		return n, errors.New("no space left on device")
	}
	return f.gate.Write(data)
}

func TestFailure(t *testing.T) {
	f := &failing{gate: gate{open: make(chan struct{})}, after: 4}
	close(f.open)
	o := New(f, 1000, told)
	_, _ = io.WriteString(o, "first\n")
	o.Flush(limit)
	assert.EqualValues(t, 1, o.Lost())
	_, _ = io.WriteString(o, "second\n")
	o.Flush(limit)
	assert.Equal(t, "firs\n1 lost\nsecond\n", f.String())
}

func TestDescriptor(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	fd := int(write.Fd())
	require.NoError(t, unix.SetNonblock(fd, true))
	const size = 1 << 20 // above a pipe's
	heard := make(chan []byte, 1)
	go func() {
		text := make([]byte, size)
		_, _ = io.ReadFull(read, text)
		heard <- text
	}()
	data := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	n, err := Descriptor(fd).Write(data)
	require.NoError(t, err)
	assert.Equal(t, size, n)
	assert.Equal(t, data, <-heard)
	require.NoError(t, read.Close())
	_, err = Descriptor(fd).Write(data)
	require.ErrorIs(t, err, unix.EPIPE, "and the program lives")
	require.NoError(t, write.Close())
}

func BenchmarkOutlet(b *testing.B) {
	o := New(io.Discard, 1<<20, told)
	line := []byte(strings.Repeat("x", 200) + "\n")
	for b.Loop() {
		_, _ = o.Write(line)
	}
}
