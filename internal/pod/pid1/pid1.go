// Package pid1 is what the first process of a container owes the rest: it reaps orphans and listens to signals.
//
// Linux keeps a child's parent per thread, and gives an orphan to the leader of init's (or the subreaper's) thread group
// (kernel/exit.c, find_new_reaper). The package locks the main goroutine to that thread, so the thread's own children are exactly
// the orphans, and wait with __WNOTHREAD (wait(2)) reaps them without ever touching a child of os/exec.
//
// Two rules follow for the whole program. No process is started from the main goroutine. Whoever starts a process stays locked to
// its thread until the process has ended (internal/kit/child, internal/pod/process): a thread ends with a goroutine that is locked
// to it, and what others have started on that thread becomes an orphan, its status collected here.
package pid1

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"

	"golang.org/x/sys/unix"
)

func init() { runtime.LockOSThread() }

// Exit is the end of one orphan.
type Exit struct {
	PID    int
	Status unix.WaitStatus
}

// Run calls body on a goroutine of its own and reaps orphans until body returns, then once more; it returns body's result.
// It has to be called from the main goroutine. A process that is not PID 1 becomes the child subreaper first (prctl(2)).
//
// reaped is called on the main thread while the orphan is still a zombie: its pid cannot belong to anybody else before reaped
// returns. It must be quick, and it must not start processes.
func Run(reaped func(Exit), body func() int) (int, error) {
	if unix.Gettid() != os.Getpid() {
		return 0, errors.New("cannot reap orphans: not on the main goroutine")
	}
	if err := becomeReaper(); err != nil {
		return 0, err
	}
	keepSIGPIPEHarmless()
	done := make(chan int, 1)
	go func() {
		growStack()
		done <- body()
	}()

	children := make(chan os.Signal, 1) // capacity 1: one pending wake-up covers any number of exits
	signal.Notify(children, unix.SIGCHLD)
	defer signal.Stop(children)
	for { // what ended before Notify is found by the first look
		reap(reaped)
		select {
		case <-children:
		case code := <-done:
			reap(reaped)
			return code, nil
		}
	}
}

// bodyStack is what the body's stack grows to anyway, in bytes.
const bodyStack = 24 << 10

// growStack gives its goroutine a stack of bodyStack at once. Step by step the runtime copies what is there three or
// four times, and looks up each frame in tables that it reads from the disk: 0.3 ms of a start.
//
//go:noinline
func growStack() {
	var room [bodyStack]byte
	runtime.KeepAlive(&room[os.Getpid()&1])
}

func becomeReaper() error {
	if os.Getpid() == 1 {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot become the child subreaper: %w", err)
	}
	return nil
}

// keepSIGPIPEHarmless makes a write to a closed stdout or stderr an EPIPE instead of the end of the program (os/signal, "SIGPIPE").
// It is caught, not ignored: an ignored signal would stay ignored in every child.
func keepSIGPIPEHarmless() { signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) }
