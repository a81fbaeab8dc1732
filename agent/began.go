package agent

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

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
	if kernels, err := startTime(root, p.PID()); err == nil && kernels.Before(at) {
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
	kernels, err := startTime(a.Root, main.PID())
	if err != nil {
		return 0, time.Time{} // it has ended
	}
	return main.PID(), kernels.Add(-clockLag).Round(0)
}

// startTime is when a process was started, by the kernel's word
// (proc_pid_stat(5), starttime: since boot, as CLOCK_BOOTTIME counts).
func startTime(root string, pid int) (time.Time, error) {
	path := filepath.Join("/proc", strconv.Itoa(pid), "stat")
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot read %s: %w", path, err)
	}
	// The command's name, in brackets, may hold anything; starttime is the 20th field behind it.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return time.Time{}, fmt.Errorf("%s: cannot find starttime", path)
	}
	ticks, err := strconv.ParseInt(fields[19], 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: cannot read starttime: %w", path, err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return time.Time{}, fmt.Errorf("cannot read CLOCK_BOOTTIME: %w", err)
	}
	return time.Now().Add(time.Duration(ticks)*userTick - time.Duration(now.Nano())), nil
}
