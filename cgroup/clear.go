package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// clearLimit is how long processes may take to leave the container's cgroup.
	clearLimit = 5 * time.Second
	// quickRounds come without a pause: a process that forked while it was moved
	// has left a child behind.
	quickRounds = 20
	firstPause  = time.Millisecond
	lastPause   = 100 * time.Millisecond
)

// clear moves every process of base into leaf and enables base's controllers,
// which the kernel refuses as long as there is a process in it. Processes may
// come in meanwhile: children of one that was just moved, or a "kubectl exec".
func (f FS) clear(base, leaf string) ([]refusal, error) {
	end, pause := time.Now().Add(clearLimit), time.Duration(0)
	for round := 1; ; round++ {
		pids, err := processes(base)
		if err != nil {
			return nil, err
		}
		var left []straggler
		if len(pids) == 0 {
			refused := enable(base)
			if !busy(refused) {
				return refused, nil
			}
		} else {
			left = move(pids, leaf)
		}
		if time.Now().After(end) {
			return nil, f.notEmpty(pids, left)
		}
		if round >= quickRounds {
			pause = min(max(firstPause, 2*pause), lastPause)
			<-time.After(pause)
		}
	}
}

func processes(dir string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, fmt.Errorf("cannot list the processes of the container's cgroup: %w", err)
	}
	return strings.Fields(string(text)), nil
}

// straggler is a process that could not be moved.
type straggler struct {
	pid string
	err error
}

// foreign is how a process of another pid namespace is shown. To the kernel it
// means the writer of the file, so it is never written.
const foreign = "0"

// move returns the processes that did not let themselves be moved. One that has
// ended meanwhile (ESRCH) is as good as moved.
func move(pids []string, leaf string) (left []straggler) {
	for _, pid := range pids {
		if pid == foreign {
			continue
		}
		err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(pid), 0)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			left = append(left, straggler{pid, errors.Unwrap(err)})
		}
	}
	return left
}

// notEmpty says who is in the way.
func (f FS) notEmpty(pids []string, left []straggler) error {
	why := map[string]string{}
	for _, s := range left {
		why[s.pid] = fmt.Sprintf(": %v", s.err)
	}
	var who []string
	strangers := 0
	for _, pid := range pids {
		if pid == foreign {
			strangers++
			continue
		}
		name, err := os.ReadFile(filepath.Join(f.root, "proc", pid, "comm"))
		if err != nil {
			name = []byte("gone")
		}
		who = append(who, fmt.Sprintf("%s (%s)%s", pid, strings.TrimSpace(string(name)), why[pid]))
	}
	if strangers > 0 {
		who = append(who, fmt.Sprintf("%d of another pid namespace, which cannot be moved from here "+
			"(a container runtime's exec that does not end, or a process that somebody put there)", strangers))
	}
	if len(who) == 0 {
		who = []string{"some that came and went"}
	}
	return fmt.Errorf("cannot empty the container's cgroup: after %v there are still processes in it: %s", clearLimit,
		strings.Join(who, ", "))
}
