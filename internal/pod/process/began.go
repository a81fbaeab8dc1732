package process

import (
	"time"
)

// clockLag is how far time(2), from which a daemon takes its start, may be
// behind: a tick of the kernel's.
const clockLag = 10 * time.Millisecond

// Began is the latest moment that the daemon can take for its own start. The
// agent hears of it afterwards, and of a hand-over long afterwards: in another
// second, even, than the one that the node record will name.
func Began(root string, p *Process) time.Time {
	at := p.Started()
	if kernels, err := StartTime(root, p.PID()); err == nil && kernels.Before(at) {
		at = kernels
	}
	return at.Add(-clockLag)
}

// BeganByNow is the pid of a process, and when it began by the clock as it goes now: a clock that was stepped back since
// moves what slurmd has taken for its start. Both are zero for nil, and for a process that has ended.
func BeganByNow(root string, main *Process) (pid int, at time.Time) {
	if main == nil {
		return 0, time.Time{}
	}
	kernels, err := StartTime(root, main.PID())
	if err != nil {
		return 0, time.Time{} // it has ended
	}
	return main.PID(), kernels.Add(-clockLag).Round(0)
}
