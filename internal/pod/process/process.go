// Package process starts, adopts, signals and stops processes, and reads what they write.
package process

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrExited says that the process is over: there is nobody to signal.
var ErrExited = errors.New("the process has exited")

// Process is one process that was started or adopted. It is safe for concurrent use.
type Process struct {
	pid     int
	started time.Time
	done    chan struct{}

	mu     *sync.Mutex                 // the table's: a pid is reaped and leaves the table in one step
	send   func(sig unix.Signal) error // valid until done; called with mu held
	close  func() error
	status Status
}

// PID is the process's number, which may belong to somebody else once Done is closed.
func (p *Process) PID() int { return p.pid }

// Started is when the process was started, or adopted: no later than it began, if we have started it.
func (p *Process) Started() time.Time { return p.started }

// Done is closed when the process is over and Status is known.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status is how the process ended; it means nothing before Done is closed.
func (p *Process) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// Signal sends sig to the process, or to its group when it was started with one. It returns ErrExited when the process is over:
// a pid that was reaped is never signalled.
func (p *Process) Signal(sig unix.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over() {
		return ErrExited
	}
	return p.send(sig)
}

// Stop sends sig and, when ctx ends first, SIGKILL; it returns when the process is over.
func (p *Process) Stop(ctx context.Context, sig unix.Signal) Status {
	_ = p.Signal(sig) // over, or SIGKILL will follow
	select {
	case <-p.done:
	case <-ctx.Done():
		_ = p.Signal(unix.SIGKILL)
		<-p.done
	}
	return p.Status()
}

// over is called with mu held.
func (p *Process) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// end is called with mu held, once.
func (p *Process) end(status Status) {
	p.status = status
	_ = p.close()
	close(p.done)
}
