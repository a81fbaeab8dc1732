package process

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Table knows every process that was started or adopted and is not over, and remembers for a while how orphans ended that nobody
// has adopted yet. It is safe for concurrent use.
//
// A pid is removed while its process is still a zombie, under the lock: whatever the table holds is the present owner of its pid.
type Table struct {
	starting sync.RWMutex // held for reading while a child may exist that is not in the table yet

	mu     sync.Mutex
	living map[int]*Process
	exits  exits

	// pretence is nil but where nothing is started.
	pretence *pretence
}

// NewTable returns an empty table. Its Reaped has to be fed from pid1.Run.
func NewTable() *Table {
	return &Table{living: map[int]*Process{}, exits: exits{limit: 1024}}
}

// Reaped notes that an orphan has ended. It has to come before the pid is free (pid1.Run keeps that order): then an
// orphan that cannot be found any more has been remembered here.
func (t *Table) Reaped(pid int, status unix.WaitStatus) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.living[pid]; p != nil {
		t.end(p, statusOf(status))
		return
	}
	t.exits.remember(pid, statusOf(status))
}

// end is called with mu held.
func (t *Table) end(p *Process, status Status) {
	delete(t.living, p.pid)
	p.end(status)
}
