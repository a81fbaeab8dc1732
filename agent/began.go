package agent

import (
	"path/filepath"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/process"
)

const (
	// userTick is the unit of times in /proc (proc_pid_stat(5), USER_HZ).
	userTick = 10 * time.Millisecond
	// clockLag is how far time(2), from which a daemon takes its start, may be
	// behind: a tick of the kernel's.
	clockLag = 10 * time.Millisecond
)

// began is the latest moment that the daemon can take for its own start. The
// agent hears of it afterwards, and of a hand-over long afterwards: in another
// second, even, than the one that the node record will name.
func began(root string, p *process.Process) time.Time {
	at := p.Started()
	if age, ok := age(root, p.PID()); ok {
		if kernels := time.Now().Add(-age); kernels.Before(at) {
			at = kernels
		}
	}
	return at.Add(-clockLag)
}

// age is since when a process has been there, by the clock that the kernel
// took its start from. There is none for a process that is gone.
func age(root string, pid int) (time.Duration, bool) {
	proc, err := procfs.NewFS(filepath.Join(root, "proc"))
	if err != nil {
		return 0, false
	}
	p, err := proc.Proc(pid)
	if err != nil {
		return 0, false
	}
	stat, err := p.Stat()
	if err != nil {
		return 0, false
	}
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0, false
	}
	return time.Duration(now.Nano()) - time.Duration(stat.Starttime)*userTick, true
}
