package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/native"
)

// jobs are those that run on some of the nodes: one on every tenth.
type jobs struct {
	gate *os.File
	ids  []string
}

const everyTenth = 10

// script waits until the gate is unlocked, and costs nothing meanwhile.
const script = `#!/bin/sh
exec flock --shared /srv/gate true
`

// divide tells the nodes with a job from those without.
func (j *jobs) divide(nodes []*native.Node) (busy, idle []*native.Node) {
	for i, n := range nodes {
		if i%everyTenth == 0 {
			busy = append(busy, n)
		} else {
			idle = append(idle, n)
		}
	}
	return busy, idle
}

// submit has a job on every tenth node, and waits until all run.
func (t *trial) submit() error {
	var err error
	if t.jobs.gate, err = os.Create(filepath.Join(t.Root, "srv/gate")); err != nil {
		return fmt.Errorf("cannot make the jobs' gate: %w", err)
	}
	if err := unix.Flock(int(t.jobs.gate.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("cannot close the jobs' gate: %w", err)
	}
	busy, _ := t.jobs.divide(t.Nodes)
	for _, n := range busy {
		cmd := t.Command("/usr/bin/sbatch", "--parsable", "--nodelist="+n.Name, "--mem=10", "--output=/dev/null")
		cmd.Stdin = strings.NewReader(script)
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("cannot submit a job: %w", err)
		}
		t.jobs.ids = append(t.jobs.ids, strings.TrimSpace(string(out)))
	}
	return native.Within(native.Limit, "not all jobs run", func() bool {
		running, err := t.jobs.in(t.Cluster, "RUNNING")
		return err == nil && running == len(t.jobs.ids)
	})
}

// release lets the jobs end.
func (j *jobs) release() error { return j.gate.Close() }

// in counts the jobs in a state. None was ever started twice, or it is not counted.
func (j *jobs) in(c *native.Cluster, state string) (int, error) {
	var answer struct {
		Jobs []struct {
			State    []string `json:"job_state"`
			Restarts int      `json:"restart_cnt"`
		}
	}
	if err := ask(c, &answer, "/usr/bin/scontrol", "show", "jobs"); err != nil {
		return 0, err
	}
	count := 0
	for _, job := range answer.Jobs {
		if slices.Contains(job.State, state) && job.Restarts == 0 {
			count++
		}
	}
	return count, nil
}

func (j *jobs) check(c *native.Cluster) error {
	completed, err := j.in(c, "COMPLETED")
	if err == nil && completed != len(j.ids) {
		err = fmt.Errorf("%d of %d jobs are COMPLETED", completed, len(j.ids))
	}
	return err
}
