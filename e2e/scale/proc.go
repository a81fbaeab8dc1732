package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// memory is what all processes of the namespace have, shared pages in equal
// parts (proc_pid_smaps(5), Pss).
func memory() (int64, error) {
	files, err := filepath.Glob("/proc/[0-9]*/smaps_rollup")
	if err != nil {
		return 0, fmt.Errorf("cannot find processes: %w", err)
	}
	var sum int64
	for _, file := range files {
		text, _ := os.ReadFile(file) // a process may have ended
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) == 3 && words[0] == "Pss:" {
				kib, err := strconv.ParseInt(words[1], 10, 64)
				if err != nil {
					return 0, fmt.Errorf("cannot read %s: %w", file, err)
				}
				sum += kib << 10
			}
		}
	}
	return sum, nil
}

// processorTime is what a process has had of all processors, to 10 ms
// (proc_pid_stat(5), utime and stime).
func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("cannot look at a process: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may hold spaces
	var ticks int64
	for i, field := range strings.Fields(rest) {
		if i == 11 || i == 12 {
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("cannot read /proc/%d/stat: %w", pid, err)
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
