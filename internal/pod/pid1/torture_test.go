package pid1

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/kit/child"
)

var full = flag.Bool("torture.full", false, "torture with 100,000 children and 10,000 orphans")

// TestTorture is why this package works as it does: children of os/exec and orphans by the ten thousands, together. No status
// may be lost, none may be taken for another, and no zombie may be left.
func TestTorture(t *testing.T) {
	children := 20_000
	switch {
	case *full:
		children = 100_000
	case testing.Short():
		children = 2_000
	}
	child := buildChild(t)
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			began := time.Now()
			want := fmt.Sprintf("%d children, %d orphans\n", children, children/10)
			assert.Equal(t, want, play(t, way.asInit, "torture", child, strconv.Itoa(children)))
			t.Logf("%.0f children a second", float64(children)/time.Since(began).Seconds())
		})
	}
}

// tally counts ends by exit code.
type tally struct {
	codes [256]atomic.Int64
	total atomic.Int64
}

func (y *tally) add(code int) int64 {
	y.codes[code].Add(1)
	return y.total.Add(1)
}

// tortureRole runs the child given as its first argument as often as the second says. Every tenth leaves an orphan.
func tortureRole() int {
	child := os.Args[1]
	children, _ := strconv.Atoi(os.Args[2])
	orphans := int64(children / 10)
	var want, got tally
	all := make(chan struct{})
	code := mustRun(func(e Exit) {
		if got.add(e.Status.ExitStatus()) == orphans {
			close(all)
		}
	}, func() int {
		inParallel(children, func(i int) {
			if i%10 != 0 {
				run(i%256, child, letter(i))
				return
			}
			run(0, child, letter(i/10), "and leave an orphan")
			want.add(i / 10 % 256)
		})
		next(all)
		return 0
	})
	for c := range want.codes {
		if want.codes[c].Load() != got.codes[c].Load() {
			complain("%d orphans with code %d, reaped %d", want.codes[c].Load(), c, got.codes[c].Load())
		}
	}
	if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
		complain("a child is left: %v", err)
	}
	fmt.Printf("%d children, %d orphans\n", children, got.total.Load())
	return code
}

// Threads end all the time, as in the agent with each connection of a user to Slurm, and no child's status is lost.
func TestThreadsEnd(t *testing.T) {
	program := buildChild(t)
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			assert.Empty(t, play(t, way.asInit, "threads", program))
		})
	}
}

func threadsRole() int {
	program := os.Args[1]
	return mustRun(func(e Exit) { complain("child %d is an orphan", e.PID) }, func() int {
		inParallel(1000, func(i int) {
			over := make(chan struct{})
			go func() {
				runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
				close(over)
			}()
			cmd := exec.Command(program, letter(i))
			if err := child.Run(cmd); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != i%256 {
				complain("child %d: %v", i, err)
			}
			<-over
		})
		return 0
	})
}

// letter is an argument of one byte, which is the exit code that the child makes of it. No argument can hold a zero.
func letter(i int) string {
	if i%256 == 0 {
		return ""
	}
	return string([]byte{byte(i)})
}

func run(want int, path string, args ...string) {
	cmd := exec.Command(path, args...)
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != want {
		complain("expected exit code %d: %v", want, err)
	}
}

var complaints atomic.Int64

// complain prints the first few failures; there can be thousands.
func complain(format string, args ...any) {
	if complaints.Add(1) <= 10 {
		fmt.Printf(format+"\n", args...)
	}
}

func inParallel(n int, do func(i int)) {
	var workers sync.WaitGroup
	var last atomic.Int64
	for range 8 {
		workers.Go(func() {
			for i := last.Add(1); i <= int64(n); i = last.Add(1) {
				do(int(i))
			}
		})
	}
	workers.Wait()
}

func buildChild(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "child")
	if err := os.WriteFile(path, childProgram(tb), 0o700); err != nil {
		tb.Fatal(err)
	}
	return path
}
