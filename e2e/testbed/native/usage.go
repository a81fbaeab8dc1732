package native

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Usage is what a process uses of the machine (proc_pid_stat(5)).
type Usage struct {
	// Own is its time on all processors, and Children that of its ended children, to 10 ms.
	Own, Children time.Duration
	// Resident is what it has in memory, in bytes.
	Resident int64
}

// UsageOf looks at a process.
func UsageOf(pid int) (Usage, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return Usage{}, fmt.Errorf("cannot find a process: %w", err)
	}
	stat, err := p.Stat()
	if err != nil {
		return Usage{}, fmt.Errorf("cannot look at a process: %w", err)
	}
	const tick = 10 * time.Millisecond
	return Usage{time.Duration(stat.UTime+stat.STime) * tick, time.Duration(stat.CUTime+stat.CSTime) * tick, int64(stat.ResidentMemory())}, nil
}

// Children are the living ones of all of a process's threads (proc_pid_task(5)), a file that procfs
// does not read. The parents of all processes would say the same, at the cost of thousands of files.
func Children(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file) // the thread may have ended
		for word := range strings.FieldsSeq(string(text)) {
			if n, err := strconv.Atoi(word); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// NameOf is a process's, empty if it has ended.
func NameOf(pid int) string {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return ""
	}
	name, _ := p.Comm() // it may have ended
	return name
}
