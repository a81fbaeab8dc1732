package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// userTick is the unit of times in /proc (proc_pid_stat(5), USER_HZ).
const userTick = 10 * time.Millisecond

// StartTime is when a process was started, by the kernel's word below root
// (proc_pid_stat(5), starttime: since boot, as CLOCK_BOOTTIME counts).
func StartTime(root string, pid int) (time.Time, error) {
	path := filepath.Join("/proc", strconv.Itoa(pid), "stat")
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot read %s: %w", path, err)
	}
	fields := behindName(text)
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

// behindName are the fields of a stat file behind the command's name, which is in brackets and may hold
// anything: the state, and starttime as the 20th.
func behindName(stat []byte) []string {
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}
