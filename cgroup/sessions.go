package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Sessions is the cgroup, below the container's, that has one for each session of a login pod.
const Sessions = "sessions"

// DelegateSessions makes the container's cgroup writable, as Delegate does, moves every process into Leaf, and makes
// Sessions. It clears memory.oom.group, with which the kernel would end all sessions for one that has too much.
func (f FS) DelegateSessions() (Delegation, error) {
	d, refused, err := f.delegateLeaf()
	if err != nil {
		return Delegation{}, err
	}
	all := filepath.Join(f.root, d.Base, Sessions)
	if err := os.Mkdir(all, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return Delegation{}, fmt.Errorf("cannot make the cgroup of sessions: %w", err)
	}
	refused = append(refused, enable(all)...)
	if d.Controllers, err = enabled(all); err != nil {
		return Delegation{}, err
	}
	d.Missing = missing(d.Controllers, refused)
	return d, f.ClearOOMGroup(d.Base)
}

// mostRounds is how often the descendants of a session are looked for: they may fork meanwhile.
const mostRounds = 10

// BeginSession moves a session's process and its descendants to a cgroup of their own.
func (f FS) BeginSession(d Delegation, pid int) error {
	dir := filepath.Join(f.root, d.Base, Sessions, strconv.Itoa(pid))
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("cannot make a cgroup for a session: %w", err)
	}
	moved := map[int]bool{}
	for range mostRounds {
		before := len(moved)
		for _, one := range f.descendants(pid) {
			if moved[one] {
				continue
			}
			// One that has ended needs no cgroup.
			if err := write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(one)); err == nil {
				moved[one] = true
			} else if one == pid && !errors.Is(err, os.ErrProcessDone) {
				return fmt.Errorf("cannot move a session to its cgroup: %w", err)
			}
		}
		if len(moved) == before {
			break
		}
	}
	return nil
}

// EndSessions removes the cgroups of sessions in which no process is left: a session may leave some.
func (f FS) EndSessions(d Delegation) {
	dirs, _ := filepath.Glob(filepath.Join(f.root, d.Base, Sessions, "[0-9]*")) // the pattern is a good one
	for _, dir := range dirs {
		_ = os.Remove(dir) // one with a process stays (EBUSY)
	}
}

// descendants are a process and its children, theirs too.
func (f FS) descendants(pid int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob(filepath.Join(f.root, "proc/[0-9]*/stat")) // the pattern is a good one
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		one, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1]) // the kernel wrote it
			children[parent] = append(children[parent], one)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}
