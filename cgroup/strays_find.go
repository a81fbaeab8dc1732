package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// straysIn finds the strays of a cgroup. Programs of slurmd's (slurmd, slurmstepd) are none: a fork of
// slurmd's becomes one of them, or a prolog, which is a stray.
func (f FS) straysIn(dir string, daemons, helpers []int) (all []Stray) {
	found := map[int]seen{}
	for _, text := range pids(dir) {
		pid, err := strconv.Atoi(text)
		if err != nil || pid <= 0 { // 0 is of another pid namespace
			continue
		}
		if one, there := f.seen(pid); there {
			found[pid] = one
		}
	}
	helped := func(one seen) bool {
		for range len(found) { // no loop is longer
			if slices.Contains(helpers, one.PID) {
				return true
			}
			parent, there := found[one.parent]
			if !there {
				return false
			}
			one = parent
		}
		return false
	}
	for pid, one := range found {
		own := one.UID == os.Getuid() && (one.Command == "slurmd" || one.Command == "slurmstepd")
		if pid != 1 && pid != os.Getpid() && !own && !slices.Contains(daemons, pid) && !helped(one) {
			all = append(all, one.Stray)
		}
	}
	slices.SortFunc(all, func(a, b Stray) int { return a.PID - b.PID })
	return all
}

// seen is a process with its parent.
type seen struct {
	Stray
	parent int
}

// seen reads proc_pid_status(5). A process that has ended has no memory.
func (f FS) seen(pid int) (seen, bool) {
	text, err := os.ReadFile(filepath.Join(f.root, "proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return seen{}, false
	}
	one := seen{Stray: Stray{PID: pid}}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		number, _ := strconv.ParseInt(fields[0], 10, 64)
		switch name {
		case "Name":
			one.Command = strings.TrimSpace(value)
		case "PPid":
			one.parent = int(number)
		case "Uid":
			one.UID = int(number)
		case "VmRSS":
			one.Bytes = number << 10
		}
	}
	return one, one.Bytes > 0
}
