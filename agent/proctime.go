package agent

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// clockLag is how far time(2), from which a daemon takes its start, may be
// behind: a tick of the kernel's.
const clockLag = 10 * time.Millisecond

// began is the latest moment that the daemon can take for its own start. The
// agent hears of it afterwards, and of a hand-over long afterwards: in another
// second, even, than the one that the node record will name.
func began(root string, p *process.Process) time.Time {
	at := p.Started()
	if kernels, err := process.StartTime(root, p.PID()); err == nil && kernels.Before(at) {
		at = kernels
	}
	return at.Add(-clockLag)
}

// beganByNow is the main process, and when it began by the clock as it goes now: one
// that was stepped back since moves what slurmd has taken for its start.
func (a *Agent) beganByNow(main *process.Process) (pid int, at time.Time) {
	if main == nil {
		return 0, time.Time{}
	}
	kernels, err := process.StartTime(a.Root, main.PID())
	if err != nil {
		return 0, time.Time{} // it has ended
	}
	return main.PID(), kernels.Add(-clockLag).Round(0)
}
