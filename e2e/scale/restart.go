package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// agentsLook is within what time the first agents look for jobs that a restart of slurmctld has
// lost; the others follow by chance.
const agentsLook = 40 * time.Second

// restart ends slurmctld's agent as the kubelet does, and starts another.
func (t *trial) restart() error {
	began := time.Now()
	if err := t.Controller.Process.Signal(unix.SIGTERM); err != nil {
		return fmt.Errorf("cannot end slurmctld's agent: %w", err)
	}
	if err := t.Controller.Wait(); err != nil {
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

// hold stops slurmctld's process for a while.
func (t *trial) hold() error {
	if err := t.signalController(unix.SIGSTOP); err != nil {
		return err
	}
	began := time.Now()
	err := t.await(t.settings.Hold+time.Minute, "slurmctld may go on", func() (bool, string) {
		return time.Since(began) > t.settings.Hold, "it is stopped"
	})
	if err != nil {
		return err
	}
	if err := t.signalController(unix.SIGCONT); err != nil {
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
	if err := t.responding(); err != nil {
		return err
	}
	t.say("after %v it answered a user's squeue within %v; every node responded %v later", tidy(t.settings.Hold), tidy(answers.Sub(began)), tidy(time.Since(answers)))
	return t.settled(calm)
}
