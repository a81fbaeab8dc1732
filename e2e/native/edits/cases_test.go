//go:build e2e

package edits

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

const (
	// good is one that everybody takes, bad one that slurmctld takes and slurmd does not.
	good = "PrologEpilogTimeout=101"
	bad  = "TaskPlugin=task/nosuch"
	// silence is longer than the agent gives the nodes (spreadLimit).
	silence = 40 * time.Second
)

// stoppedFirst stops slurmctld as the edit is made.
func stoppedFirst(e *edits) error {
	before, err := e.AgentStatus()
	if err == nil {
		err = e.pause(before.Main.PID, func() error { return e.edit(good) })
	}
	if err == nil {
		err = e.isLive(before)
	}
	return err
}

// stoppedIn stops slurmctld as its agent tells the log something, or is at something.
func stoppedIn(moment func(e *edits, before *agent.Status) (pid int)) func(e *edits) error {
	return func(e *edits) error {
		before, err := e.AgentStatus()
		if err == nil {
			err = e.edit(good)
		}
		pid := 0
		if err == nil {
			err = native.Within(limit, "slurmctld's agent has not come to that", func() bool {
				pid = moment(e, before)
				return pid != 0
			})
		}
		if err == nil {
			err = e.pause(pid, func() error { return nil })
		}
		if err == nil {
			err = e.isLive(before)
		}
		return err
	}
}

// spreading: slurmctld's successor is Ready, and the nodes are about to be counted.
func spreading(e *edits, before *agent.Status) int {
	pids := mains(e.said())
	if last := pids[len(pids)-1]; last != before.Main.PID {
		return last
	}
	return 0
}

// reconfiguring: the edit is in place.
func reconfiguring(e *edits, before *agent.Status) int {
	if s, err := e.AgentStatus(); err == nil && s.Conf.Live != before.Conf.Live {
		return s.Main.PID
	}
	return 0
}

// pause stops a process, and lets it go on after the silence. As it stops, something happens.
func (e *edits) pause(pid int, happens func() error) error {
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		return fmt.Errorf("cannot stop slurmctld: %w", err)
	}
	err := happens()
	<-time.After(silence)
	return errors.Join(err, unix.Kill(pid, unix.SIGCONT))
}

// isLive: the edit is live in the end, once: slurmctld has reconfigured for it one time,
// each node has taken it, and nothing was refused.
func (e *edits) isLive(before *agent.Status) error {
	began := time.Now()
	var after *agent.Status
	err := e.until("the edit is live", func(s *agent.Status) bool {
		after = s
		return s.Conf.Doing == "" && s.Conf.Good != before.Conf.Good && s.Conf.Live == s.Conf.Good
	})
	if err != nil {
		return err
	}
	reconfigures, most := len(mains(e.said()))-1, 0
	for _, n := range e.Nodes {
		most = max(most, len(mains(n.Log()))-1)
	}
	r := after.Conf.Reloads
	fmt.Printf("Slurm %s, %d nodes: live %.1f s after the silence; %d reconfigures of slurmctld, at most %d further slurmds of a node; %d taken, %d refused, %d rolled back; %d nodes took it, %d missed it\n",
		e.settings.Version, e.settings.Nodes, time.Since(began).Seconds(), reconfigures, most, r.Taken, r.Refused, r.RolledBack, after.Conf.Took, len(after.Conf.Missed))
	switch {
	case r.Taken != 1 || r.Refused != 0 || r.RolledBack != 0 || after.Conf.Refused != nil:
		return fmt.Errorf("the edit was not taken, once: %+v, %+v", r, after.Conf.Refused)
	case reconfigures != 1:
		return fmt.Errorf("slurmctld has reconfigured %d times", reconfigures)
	case after.Conf.Took != e.settings.Nodes:
		return fmt.Errorf("%d nodes of %d took it", after.Conf.Took, e.settings.Nodes)
	}
	return nil
}

// deafTo edits while slurmctld tells nothing of its nodes, until it has been told to
// reconfigure.
func deafTo(line string) func(e *edits) error {
	return func(e *edits) error {
		before, err := e.AgentStatus()
		if err != nil {
			return err
		}
		path := filepath.Join(e.Root, mute)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			return fmt.Errorf("cannot silence scontrol: %w", err)
		}
		if err := e.edit(line); err != nil {
			return err
		}
		err = e.until("slurmctld reconfigures", func(s *agent.Status) bool {
			return s.Main != nil && s.Main.PID != before.Main.PID || s.Conf.Live != before.Conf.Live
		})
		if err := errors.Join(err, os.Remove(path)); err != nil {
			return err
		}
		if line == good {
			return e.isLive(before)
		}
		return e.isRefused(before)
	}
}

// isRefused: the set that no node has taken is not kept, and the last good one is back.
func (e *edits) isRefused(before *agent.Status) error {
	began := time.Now()
	var after *agent.Status
	err := e.until("the edit is refused", func(s *agent.Status) bool {
		after = s
		return s.Conf.Doing == "" && (s.Conf.Refused != nil || s.Conf.Good != before.Conf.Good)
	})
	if err != nil {
		return err
	}
	if after.Conf.Good != before.Conf.Good || after.Conf.Live != before.Conf.Good || after.Conf.Reloads.RolledBack != 1 {
		return fmt.Errorf("a set that no node took is kept: %+v", *after.Conf)
	}
	fmt.Printf("Slurm %s, %d nodes: refused after %.1f s: %s\n", e.settings.Version, e.settings.Nodes, time.Since(began).Seconds(), after.Conf.Refused.Why[0])
	return nil
}
