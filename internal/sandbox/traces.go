package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Traces are what a sandbox can be recognised by after it went: its namespaces,
// its directory and its cgroup. A link lives in a namespace, a mount too.
type Traces struct {
	name       string
	namespaces []string // "net:[4026532290]"
	// ended is when Down was done, in clock ticks after boot. The kernel gives a
	// namespace's number to the next one made, so what started later is another's.
	ended *atomic.Int64
}

var kinds = []string{"pid", "mnt", "net", "uts", "ipc"}

// Traces are taken when a sandbox is up, to be looked at after Down.
func (s *Sandbox) Traces() Traces {
	t := s.traces
	t.name = s.options.Name
	return t
}

func (l *launcher) traces() Traces {
	t := Traces{ended: &atomic.Int64{}}
	for _, kind := range kinds {
		its, err1 := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", l.pid, kind))
		ours, err2 := os.Readlink("/proc/self/ns/" + kind)
		if err1 == nil && err2 == nil && its != ours {
			t.namespaces = append(t.namespaces, its)
		}
	}
	return t
}

// Left names everything of the sandbox that is still there: processes,
// namespaces, mounts, cgroups, files. After Down it is empty.
func (t Traces) Left() []string {
	left := append(t.processes(), t.mounts()...)
	paths := []string{filepath.Join(Dir, t.name), filepath.Join(hostCgroup, "slurmlet-sandbox-"+t.name)}
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			left = append(left, "directory "+path)
		}
	}
	return left
}

func (t Traces) processes() []string {
	var left []string
	links, _ := filepath.Glob("/proc/[0-9]*/task/*/ns/*")
	for _, link := range links {
		target, err := os.Readlink(link)
		pid := strings.Split(link, "/")[2]
		if err == nil && slices.Contains(t.namespaces, target) && !t.later(pid) {
			left = append(left, "process "+pid+" in "+target)
		}
	}
	slices.Sort(left)
	return slices.Compact(left)
}

// later tells whether a process was started after the sandbox had ended.
func (t Traces) later(pid string) bool {
	if t.ended == nil || t.ended.Load() == 0 {
		return false
	}
	number, _ := strconv.Atoi(pid)
	text, err := startTime(number)
	if err != nil {
		return true // it has gone meanwhile
	}
	start, _ := strconv.ParseInt(text, 10, 64)
	return start > t.ended.Load()
}

func (t Traces) end() {
	if t.ended == nil {
		return
	}
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // the clock is always there
	t.ended.Store(now.Nano() / (1e9 / ticks))
}

// ticks are those of /proc in a second (USER_HZ).
const ticks = 100

func (t Traces) mounts() []string {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return []string{"unknown: " + err.Error()}
	}
	var left []string
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, filepath.Join(Dir, t.name)+"/") || slices.ContainsFunc(t.namespaces, func(ns string) bool { return strings.Contains(line, " "+ns+" ") }) {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	return left
}
