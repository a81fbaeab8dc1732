package process

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// NewPretence returns a table that starts nothing, for benches with thousands of agents in one program (e2e/figures/scale). Start only says
// that this program is the process, and calls started with the command that was. Adopt takes any pid, and the process before it is
// over. Any signal but SIGHUP ends a process, with the exit code 0. No signal reaches anybody.
func NewPretence(started func(Command)) *Table {
	t := NewTable()
	t.pretence = &pretence{started: started}
	return t
}

// pretence is what a table that starts nothing knows.
type pretence struct {
	started func(Command)
	// last is the process that was started or adopted last.
	last *Process
}

// pretend makes pid the table's process.
func (t *Table) pretend(pid int) *Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := t.pretence.last; last != nil && !last.over() {
		last.end(Status{})
	}
	p := &Process{pid: pid, started: time.Now(), done: make(chan struct{}), mu: &t.mu, close: func() error { return nil }}
	p.send = func(sig unix.Signal) error {
		if sig != unix.SIGHUP {
			p.end(Status{})
		}
		return nil
	}
	t.pretence.last = p
	return p
}

func (t *Table) pretendStart(c Command) *Process {
	p := t.pretend(os.Getpid())
	go t.pretence.started(c)
	return p
}
