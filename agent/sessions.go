package agent

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/process"
)

// followSessions counts the sessions of a login pod when sshd has let somebody in and when one
// has ended, so that nobody who asks for the number has /proc searched.
func (a *Agent) followSessions() {
	due := time.NewTimer(0)
	again := false
	followed := map[int]bool{}
	ended := make(chan int)
	entered := a.visits.entered.next()
	for {
		select {
		case <-a.over:
			return
		case <-entered:
			entered, again = a.visits.entered.next(), true
			due.Reset(settled)
		case pid := <-ended:
			delete(followed, pid)
			due.Reset(0)
		case <-due.C:
			for _, v := range a.countSessions() {
				if !followed[v.PID()] {
					followed[v.PID()] = true
					go a.tellEnd(v, ended)
				}
			}
			if again {
				again = false
				due.Reset(settledAtLast)
			}
		}
	}
}

// After these a session is there that sshd has told of.
const settled, settledAtLast = time.Second, 10 * time.Second

func (a *Agent) countSessions() []*process.Process {
	all := a.visitors()
	a.visits.count.Store(int64(len(all)))
	return all
}

func (a *Agent) tellEnd(v *process.Process, ended chan<- int) {
	select {
	case <-v.Done():
	case <-a.over:
		return
	}
	select {
	case ended <- v.PID():
	case <-a.over:
	}
}

// counted is the status with as many sessions as there are, of which nothing is known.
func (a *Agent) counted() Status {
	s := a.brief()
	s.Sessions = make([]SessionStatus, a.visits.count.Load())
	return s
}
