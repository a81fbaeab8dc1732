package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const mega = 1e6

// contextSwitches of all of a process's threads, voluntary or not: each is the
// end of one time on a CPU (proc_pid_status(5)).
func contextSwitches(pid int) (int, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("cannot find the threads of process %d", pid)
	}
	sum := 0
	for _, file := range files {
		for _, field := range []string{"voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"} {
			n, err := number(file, field)
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	return sum, nil
}

// residentMB is what a process has in memory, shared pages included
// (proc_pid_smaps(5), Rss), in 10^6 bytes.
func residentMB(pid int) (float64, error) {
	kib, err := number(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Rss:")
	return float64(kib) * 1024 / mega, err
}

// number finds a line's number behind the field's name.
func number(file, field string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("cannot look at a process: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) >= 2 && words[0] == field {
			return strconv.Atoi(words[1])
		}
	}
	return 0, fmt.Errorf("cannot find %s in %s", field, file)
}
