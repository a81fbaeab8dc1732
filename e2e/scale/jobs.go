package main

import (
	"fmt"
	"slices"

	"github.com/slurmlet/slurmlet/e2e/native"
)

// jobs are those that run on some of the nodes.
type jobs struct {
	// count is how many there are to be, one on a node.
	count int
	gate  *native.Gate
	ids   []string
}

// divide tells the nodes with a job from those without, which lie between them.
func (j *jobs) divide(nodes []*native.Node) (busy, idle []*native.Node) {
	for i, n := range nodes {
		if i*j.count/len(nodes) < (i+1)*j.count/len(nodes) {
			busy = append(busy, n)
		} else {
			idle = append(idle, n)
		}
	}
	return busy, idle
}

// submit has a job on each of the busy nodes, and waits until all run.
func (t *trial) submit() error {
	var err error
	if t.jobs.gate, err = t.NewGate(); err != nil {
		return err
	}
	busy, _ := t.jobs.divide(t.Nodes)
	for _, n := range busy {
		id, err := t.Submit(n.Name)
		if err != nil {
			return err
		}
		t.jobs.ids = append(t.jobs.ids, id)
	}
	return native.Within(native.Limit, "not all jobs run", func() bool {
		running, err := t.jobs.in(t.Cluster, "RUNNING")
		return err == nil && running == len(t.jobs.ids)
	})
}

// in counts the jobs in a state. None was ever started twice, or it is not counted.
func (j *jobs) in(c *native.Cluster, state string) (int, error) {
	var answer struct {
		Jobs []struct {
			State    []string `json:"job_state"`
			Restarts int      `json:"restart_cnt"`
		}
	}
	if err := c.Ask(&answer, "/usr/bin/scontrol", "show", "jobs"); err != nil {
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
