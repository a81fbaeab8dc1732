package main

import (
	"slices"
	"sync"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// tail keeps the last lines of slurmctld's log.
type tail struct {
	lock  sync.Mutex
	lines []string
}

const tailLines = 30

func (t *tail) add(line string) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.lines = append(t.lines, line)
	if len(t.lines) > 2*tailLines {
		t.lines = slices.Clone(t.lines[tailLines:])
	}
}

func (t *tail) last() []string {
	t.lock.Lock()
	defer t.lock.Unlock()
	return lastOf(t.lines)
}

func lastOf(lines []string) []string { return lines[max(0, len(lines)-tailLines):] }

// explain tells what slurmctld and the first nodes that are not as they should be have said last: those that have ended
// badly, or else those that live.
func (t *trial) explain() {
	for _, line := range t.log.last() {
		native.Progress("slurmctld: %s", line)
	}
	bad := slices.DeleteFunc(slices.Clone(t.Nodes), func(n *native.Node) bool { return !n.Ended() || n.Status == 0 })
	all := slices.Concat(bad, t.living())
	for _, n := range all[:min(len(all), 3)] {
		for _, line := range lastOf(n.Log()) {
			native.Progress("%s: %s", n.Name, line)
		}
	}
}
