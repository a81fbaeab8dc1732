package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// threads are those of a node: ten of its agent and twelve of slurmd.
const threads = 22

// room says what keeps so many nodes from running on this machine. The limits are the machine's,
// and not ours to raise.
func room(nodes int) error {
	most, err := setting("kernel/pid_max")
	if err != nil {
		return err
	}
	if want := nodes*threads + 1000; want > most {
		return fmt.Errorf("cannot run %d nodes: kernel.pid_max is %d, and they have %d threads", nodes, most, want)
	}
	instances, err := setting("fs/inotify/max_user_instances")
	if err == nil && instances < nodes {
		progress("fs.inotify.max_user_instances is %d: the agents of further nodes look at their files once a minute", instances)
	}
	return err
}

func setting(name string) (int, error) {
	text, err := os.ReadFile(filepath.Join("/proc/sys", name))
	if err != nil {
		return 0, fmt.Errorf("cannot read a limit of the machine: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

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
