package process

import "slices"

// exits remembers how the last few unadopted orphans ended.
type exits struct {
	limit  int
	order  []int // pids, the oldest first
	status map[int]Status
}

func (e *exits) remember(pid int, status Status) {
	e.forget(pid) // an earlier owner of the pid
	if len(e.order) == e.limit {
		e.forget(e.order[0])
	}
	if e.status == nil {
		e.status = make(map[int]Status)
	}
	e.order = append(e.order, pid)
	e.status[pid] = status
}

// take returns what is remembered of pid, and forgets it.
func (e *exits) take(pid int) (Status, bool) {
	status, ok := e.status[pid]
	e.forget(pid)
	return status, ok
}

func (e *exits) forget(pid int) {
	if _, ok := e.status[pid]; !ok {
		return
	}
	delete(e.status, pid)
	i := slices.Index(e.order, pid)
	e.order = slices.Delete(e.order, i, i+1)
}
