package process

import (
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// A process is looked at so often, at such distances.
const (
	busyLooks   = 20
	betweenLook = 10 * time.Millisecond
)

// Busy: in half of some looks or more the process computes, waits for a processor, or waits for a disk (R
// or D of any thread, proc_pid_stat(5)). One that hangs sleeps, or is stopped.
func Busy(pid int) bool {
	busy := 0
	for range busyLooks {
		if hasBusyThread(pid) {
			busy++
		}
		<-time.After(betweenLook)
	}
	return 2*busy >= busyLooks
}

func hasBusyThread(pid int) bool {
	tasks := filepath.Join("/proc", strconv.Itoa(pid), "task")
	threads, _ := os.ReadDir(tasks) // one that has ended is not busy
	for _, t := range threads {
		text, err := os.ReadFile(filepath.Join(tasks, t.Name(), "stat"))
		if err != nil {
			continue
		}
		if state := behindName(text); len(state) > 0 && (state[0] == "R" || state[0] == "D") {
			return true
		}
	}
	return false
}
