package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// jobs are those that run on some of the nodes, one on each.
type jobs struct {
	gate *native.Gate
	ids  []string
}

// divide tells so many nodes that get a job from those without, which lie between them.
func divide(nodes []*native.Node, count int) (busy, idle []*native.Node) {
	for i, n := range nodes {
		if i*count/len(nodes) < (i+1)*count/len(nodes) {
			busy = append(busy, n)
		} else {
			idle = append(idle, n)
		}
	}
	return busy, idle
}

// submit has a job on each of these nodes, and waits until all run.
func (t *trial) submit(busy []*native.Node) (*jobs, error) {
	j := &jobs{}
	var err error
	if j.gate, err = t.NewGate(); err != nil {
		return nil, err
	}
	for _, n := range busy {
		id, err := t.Submit(n.Name)
		if err != nil {
			return nil, err
		}
		j.ids = append(j.ids, id)
	}
	return j, t.await(manyLimit, "all jobs run", func() (bool, string) {
		states, _, err := j.states(t)
		return err == nil && states["RUNNING"] == len(j.ids), fmt.Sprint(states, err)
	})
}

// states counts the jobs in each of their states. restarted tells those that were started again.
func (j *jobs) states(t *trial) (states map[string]int, restarted int, err error) {
	var answer struct {
		Jobs []struct {
			ID       int      `json:"job_id"`
			State    []string `json:"job_state"`
			Restarts int      `json:"restart_cnt"`
		}
	}
	if err := t.Ask(&answer, "/usr/bin/scontrol", "show", "jobs"); err != nil {
		return nil, 0, err
	}
	states = map[string]int{}
	for _, job := range answer.Jobs {
		if !slices.Contains(j.ids, strconv.Itoa(job.ID)) {
			continue
		}
		states[job.State[0]]++
		if job.Restarts > 0 {
			restarted++
		}
	}
	return states, restarted, nil
}

func (j *jobs) completed(t *trial) error {
	states, restarted, err := j.states(t)
	if err == nil && (states["COMPLETED"] != len(j.ids) || restarted > 0) {
		err = fmt.Errorf("of %d jobs, %d were started again, and not all are COMPLETED: %v", len(j.ids), restarted, states)
	}
	return err
}

// kept wants every job to be there still: it was requeued, and waits for its node.
func (j *jobs) kept(t *trial) error {
	states, _, err := j.states(t)
	if err == nil && states["PENDING"] != len(j.ids) {
		err = fmt.Errorf("of %d jobs, not all are PENDING again: %v", len(j.ids), states)
	}
	return err
}

// end takes jobs away that nobody waits for.
func (j *jobs) end(t *trial) error {
	if len(j.ids) == 0 {
		return nil
	}
	if out, err := t.Command("/usr/bin/scancel", append([]string{"--quiet"}, j.ids...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot cancel the jobs: %w: %s", err, out)
	}
	return j.gate.Open()
}
