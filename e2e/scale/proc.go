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

// processorTime is what a process and its ended children have had of all processors, to 10 ms
// (proc_pid_stat(5), utime to cstime).
func processorTime(pid int) (usage, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, fmt.Errorf("cannot look at a process: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may hold spaces
	fields := strings.Fields(rest)
	const tick = 10 * time.Millisecond
	var times [4]time.Duration
	for i := range times {
		if len(fields) < 15 {
			return usage{}, fmt.Errorf("cannot read /proc/%d/stat", pid)
		}
		n, err := strconv.ParseInt(fields[11+i], 10, 64)
		if err != nil {
			return usage{}, fmt.Errorf("cannot read /proc/%d/stat: %w", pid, err)
		}
		times[i] = time.Duration(n) * tick
	}
	return usage{own: times[0] + times[1], children: times[2] + times[3]}, nil
}
