package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
)

// agentsLook is within what time the first agents look for jobs that a restart of slurmctld has
// lost; the others follow by chance.
const agentsLook = 40 * time.Second

// lastQuestion is how long a question may take to fail that began while slurmctld was stopped (MessageTimeout).
const lastQuestion = 30 * time.Second

// restart ends slurmctld's agent as the kubelet does, and starts another.
func (t *trial) restart() error {
	began := time.Now()
	if err := t.Slurmctld.Process.Signal(unix.SIGTERM); err != nil {
		return fmt.Errorf("cannot end slurmctld's agent: %w", err)
	}
	if err := t.Slurmctld.Wait(); err != nil {
		return fmt.Errorf("slurmctld's agent has failed: %w", err)
	}
	ended := time.Now()
	if err := t.control(); err != nil {
		return err
	}
	answers := time.Now()
	if err := t.responding(); err != nil {
		return err
	}
	t.say("it ended in %v and answered after %v more; every node responded %v later",
		tidy(ended.Sub(began)), tidy(answers.Sub(ended)), tidy(time.Since(answers)))
	return t.settled(agentsLook)
}

// responding waits until slurmctld has heard from every node that lives.
func (t *trial) responding() error {
	return t.await(manyLimit, "every node responds", func() (bool, string) {
		var answer struct {
			Nodes []struct {
				State []string `json:"state"`
			} `json:"nodes"`
		}
		out, err := askAsUser(t.Cluster, "/usr/bin/scontrol", "show", "nodes", "--json")
		if err == nil {
			err = json.Unmarshal(out, &answer)
		}
		if err != nil {
			return false, err.Error()
		}
		good := 0
		for _, n := range answer.Nodes {
			if !slices.ContainsFunc(n.State, func(s string) bool {
				return slices.Contains([]string{"DOWN", "UNKNOWN", "NOT_RESPONDING", "POWERED_DOWN"}, s)
			}) {
				good++
			}
		}
		<-time.After(time.Second) // each costs slurmctld all nodes
		return good == len(t.living()), fmt.Sprintf("%d do", good)
	})
}

// hold stops slurmctld's process for a while, and has a tenth of all nodes end meanwhile. They have time, and wait for
// slurmctld: for some four minutes, because they have no step.
func (t *trial) hold() error {
	living := t.living()
	ending := living[len(living)-len(living)/10:]
	if err := t.signalSlurmctld(unix.SIGSTOP); err != nil {
		return err
	}
	for _, n := range ending {
		if err := n.Terminate(); err != nil {
			return err
		}
	}
	began, most := time.Now(), 0
	err := t.await(t.settings.Hold+time.Minute, "slurmctld may go on", func() (bool, string) {
		n, err := commands()
		most = max(most, n)
		return err != nil || time.Since(began) > t.settings.Hold, fmt.Sprintf("it is stopped, and %d of Slurm's commands wait for it", n)
	})
	if err != nil {
		return err
	}
	t.say("%d of Slurm's commands waited for it at most, as %d of %d nodes were to end", most, len(ending), len(living))
	if own := 2; most > len(ending)+own { // slurmctld's agent asks, too
		t.fault = fmt.Errorf("%d commands waited for slurmctld, more than one for each agent", most)
	}
	if err := t.signalSlurmctld(unix.SIGCONT); err != nil {
		return err
	}
	began = time.Now()
	err = t.await(manyLimit, "slurmctld answers users", func() (bool, string) {
		_, err := askAsUser(t.Cluster, "/usr/bin/squeue", "--noheader")
		return err == nil, fmt.Sprint(err)
	})
	if err != nil {
		return err
	}
	answers := time.Now()
	if _, err := exits(ending, began); err != nil {
		return err
	}
	waited := slices.DeleteFunc(slices.Clone(ending), func(n *native.Node) bool {
		return n.Status == exitcode.Left && n.End.Before(began.Add(lastQuestion))
	})
	if n := len(ending) - len(waited); n > 0 {
		t.say("%d of them had no step, did not wait so long, and exited with %d: their records are left", n, exitcode.Left)
	}
	if len(waited) > 0 {
		took, err := exits(waited, began)
		if err != nil {
			return err
		}
		t.say("from then until a node that was to end has exited: p50 %v, p99 %v, most %v", took.at(.5), took.at(.99), took.at(1))
	}
	t.fault = errors.Join(t.fault, good(waited), t.noRecords(waited))
	if err := t.responding(); err != nil {
		return err
	}
	t.say("after %v it answered a user's squeue within %v; every node responded %v later", tidy(t.settings.Hold), tidy(answers.Sub(began)), tidy(time.Since(answers)))
	return t.settled(calm)
}

// commands counts the commands of Slurm's that run.
func commands() (n int, err error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return 0, fmt.Errorf("cannot find processes: %w", err)
	}
	for _, p := range all {
		name, _ := p.Comm() // it may have ended
		if slices.Contains([]string{"scontrol", "sinfo", "squeue", "sdiag", "scancel"}, name) {
			n++
		}
	}
	return n, nil
}
