package pod

import (
	"sync"

	"golang.org/x/sys/unix"
)

// exits hands the exit status of a process to whoever asked for its pid. A
// container can die before its creator knows its pid, so while one is being
// created (between expect and done) every exit is kept.
type exits struct {
	mu       sync.Mutex
	waiting  map[int]func(unix.WaitStatus)
	creating int
	early    map[int]unix.WaitStatus
}

func (e *exits) expect() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.creating++
}

func (e *exits) done() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.creating--; e.creating == 0 {
		e.early = nil
	}
}

func (e *exits) reaped(pid int, status unix.WaitStatus) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if tell := e.waiting[pid]; tell != nil {
		delete(e.waiting, pid)
		tell(status)
	} else if e.creating > 0 {
		put(&e.early, pid, status)
	}
}

func (e *exits) wait(pid int, tell func(unix.WaitStatus)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if status, ended := e.early[pid]; ended {
		delete(e.early, pid)
		tell(status)
		return
	}
	put(&e.waiting, pid, tell)
}

func put[V any](m *map[int]V, pid int, value V) {
	if *m == nil {
		*m = map[int]V{}
	}
	(*m)[pid] = value
}
