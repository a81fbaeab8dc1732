package main

import (
	"fmt"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// waysDown are how long a node takes to its exit, in milliseconds.
type waysDown struct {
	// bare is slurmd -D from SIGTERM on, which leaves its record; hooked is the
	// same after a preStop hook that deletes the record, from the hook's start on.
	bare, hooked samples
	// idle is slurmlet from SIGTERM on, busy from the end of the node's job on.
	idle, busy samples
}

// hook is what people have today: the node is set DOWN, with whatever runs on it.
const hook = `scontrol update nodename=` + node + ` state=down reason=preStop && scontrol delete nodename=` + node

func (c *cluster) measureWaysDown() (waysDown, error) {
	var w waysDown
	for round := range todo.slurm + 1 {
		if round%5 == 0 {
			native.Progress("Slurm %s, to the exit: round %d of %d", c.version, round, todo.slurm)
		}
		for _, way := range []struct {
			what    string
			samples *samples
			command *exec.Cmd
			down    func(*exec.Cmd) (time.Duration, error)
		}{
			{"slurmd", &w.bare, c.slurmd("-D"), c.stopPlain},
			{"slurmd with a preStop hook", &w.hooked, c.slurmd("-D"), c.stopHooked},
			{"slurmlet, idle", &w.idle, c.slurmlet(), c.stopIdle},
			{"slurmlet with a job", &w.busy, c.slurmlet(), c.stopBusy},
		} {
			if _, err := c.start(way.command); err != nil {
				return w, fmt.Errorf("%s: %w", way.what, err)
			}
			time.Sleep(settledNode)
			took, err := way.down(way.command)
			if err != nil {
				return w, fmt.Errorf("%s: %w", way.what, err)
			}
			if round > 0 { // the first warms the caches
				way.samples.add(took)
			}
		}
	}
	return w, nil
}

// settledNode is how long a node is left alone before it is stopped: slurmlet
// compares the cluster's configuration with the pod's limits first.
const settledNode = 300 * time.Millisecond

func (c *cluster) stopPlain(cmd *exec.Cmd) (time.Duration, error) {
	began := now()
	if err := stop(cmd); err != nil {
		return 0, err
	}
	return now().sub(began), c.deleteRecord()
}

func (c *cluster) stopHooked(cmd *exec.Cmd) (time.Duration, error) {
	began := now()
	if out, err := c.Command("/bin/sh", "-c", hook).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("cannot run the hook: %w: %s", err, out)
	}
	err := stop(cmd)
	return now().sub(began), err
}

func (c *cluster) stopIdle(cmd *exec.Cmd) (time.Duration, error) {
	began := now()
	if err := stop(cmd); err != nil {
		return 0, err
	}
	took := now().sub(began)
	if !cmd.ProcessState.Success() {
		return 0, fmt.Errorf("slurmlet has failed: %v", cmd.ProcessState)
	}
	return took, c.wantNoRecord()
}

// stopBusy has a job on the node, which ends when the agent waits for it.
func (c *cluster) stopBusy(cmd *exec.Cmd) (time.Duration, error) {
	gate, err := c.NewGate()
	if err != nil {
		return 0, err
	}
	if _, err := c.Submit(node); err != nil {
		return 0, err
	}
	if err := c.waitState("ALLOCATED"); err != nil {
		return 0, err
	}
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		return 0, fmt.Errorf("cannot stop: %w", err)
	}
	if err := c.waitState("DRAIN"); err != nil {
		return 0, err
	}
	time.Sleep(settledNode)
	began := now()
	if err := gate.Open(); err != nil {
		return 0, fmt.Errorf("cannot end the job: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return 0, fmt.Errorf("slurmlet has failed: %w", err)
	}
	return now().sub(began), c.wantNoRecord()
}

func (c *cluster) waitState(state string) error {
	return native.Within(native.Limit, "the node is not "+state, func() bool {
		states, err := c.states()
		return err == nil && slices.Contains(states, state)
	})
}

func (c *cluster) wantNoRecord() error {
	states, err := c.states()
	if err == nil && states != nil {
		err = fmt.Errorf("the record is still there: %v", states)
	}
	return err
}

// states are those of the node's record, nil for none.
func (c *cluster) states() ([]string, error) {
	var answer struct {
		Nodes []struct {
			State []string `json:"state"`
		} `json:"nodes"`
	}
	err := c.Ask(&answer, "/usr/bin/scontrol", "show", "nodes")
	if err != nil || len(answer.Nodes) == 0 {
		return nil, err
	}
	return answer.Nodes[0].State, nil
}
