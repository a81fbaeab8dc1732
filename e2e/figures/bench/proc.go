package main

import (
	"fmt"

	"github.com/prometheus/procfs"
)

const mega = 1e6

// contextSwitches of all of a process's threads, voluntary or not: each is the
// end of one time on a CPU (proc_pid_status(5)).
func contextSwitches(pid int) (int, error) {
	threads, err := procfs.AllThreads(pid)
	if err != nil {
		return 0, fmt.Errorf("cannot find the threads of a process: %w", err)
	}
	sum := 0
	for _, t := range threads {
		status, err := t.NewStatus()
		if err != nil {
			return 0, fmt.Errorf("cannot look at a thread: %w", err)
		}
		sum += int(status.TotalCtxtSwitches())
	}
	return sum, nil
}

// residentMB is what a process has in memory, shared pages included
// (proc_pid_smaps(5), Rss), in 10^6 bytes, and what of it is of no file (Anonymous).
func residentMB(pid int) (all, own float64, err error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, 0, fmt.Errorf("cannot find a process: %w", err)
	}
	rollup, err := p.ProcSMapsRollup()
	if err != nil {
		return 0, 0, fmt.Errorf("cannot look at a process: %w", err)
	}
	return float64(rollup.Rss) / mega, float64(rollup.Anonymous) / mega, nil
}
