package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
)

// Traces are what a sandbox can be recognised by after it went: its namespaces,
// its directories and its cgroups. A link lives in a namespace, a mount too.
type Traces struct {
	// Paths are its directories.
	Paths      []string
	namespaces []string // "net:[4026532290]"
	// held keeps the namespaces: the kernel would give their numbers to the next
	// ones made, of another sandbox.
	held []*os.File
}

var kinds = []string{"pid", "mnt", "net", "uts", "ipc"}

// Traces are taken while the launcher runs, to be looked at after its end.
func (l *Launcher) Traces(paths ...string) Traces {
	t := Traces{Paths: paths}
	for _, kind := range kinds {
		link := fmt.Sprintf("/proc/%d/ns/%s", l.PID, kind)
		its, err1 := os.Readlink(link)
		ours, err2 := os.Readlink("/proc/self/ns/" + kind)
		held, err3 := os.Open(link)
		if err1 == nil && err2 == nil && err3 == nil && its != ours {
			t.namespaces, t.held = append(t.namespaces, its), append(t.held, held)
		}
	}
	return t
}

// Left names everything of the sandbox that is still there: processes,
// namespaces, mounts, cgroups, files. After its end it is empty.
func (t Traces) Left() []string {
	left := append(t.Processes(), t.mounts()...)
	for _, path := range t.Paths {
		if _, err := os.Lstat(path); err == nil {
			left = append(left, "directory "+path)
		}
	}
	return left
}

// Processes names those that still run in one of its namespaces. One that has
// ended and waits for its parent, which may be the machine's PID 1, does not.
func (t Traces) Processes() []string {
	var left []string
	all, _ := procfs.AllProcs()
	for _, p := range all {
		threads, _ := procfs.AllThreads(p.PID)
		for _, thread := range threads {
			for _, namespace := range namespaces(p.PID, thread.PID) {
				if slices.Contains(t.namespaces, namespace) && runs(thread) {
					left = append(left, fmt.Sprintf("process %d in %s", p.PID, namespace))
				}
			}
		}
	}
	slices.Sort(left)
	return slices.Compact(left)
}

// namespaces are those of a thread, as far as they can be read. procfs gives none if one cannot.
func namespaces(pid, tid int) (names []string) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/%d/ns/*", pid, tid))
	for _, link := range links {
		if name, err := os.Readlink(link); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// runs says whether a thread has not ended.
func runs(thread procfs.Proc) bool {
	_, err := startTime(thread)
	return err == nil
}

func (t Traces) mounts() []string {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return []string{"unknown: " + err.Error()}
	}
	var left []string
	for line := range strings.Lines(string(data)) {
		ofPath := func(path string) bool { return strings.Contains(line, path+"/") }
		ofNamespace := func(ns string) bool { return strings.Contains(line, " "+ns+" ") }
		if slices.ContainsFunc(t.Paths, ofPath) || slices.ContainsFunc(t.namespaces, ofNamespace) {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	return left
}
