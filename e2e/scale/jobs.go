package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/slurmlet/slurmlet/e2e/native"
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
		running, err := j.in(t, false, "RUNNING")
		return err == nil && running == len(j.ids), fmt.Sprintf("%d of %d do (%v)", running, len(j.ids), err)
	})
}

// in counts the jobs in one of the states. Unless they may be restarted, only those count that
// were started once.
func (j *jobs) in(t *trial, restarted bool, states ...string) (int, error) {
	var answer struct {
		Jobs []struct {
			ID       int      `json:"job_id"`
			State    []string `json:"job_state"`
			Restarts int      `json:"restart_cnt"`
		}
	}
	if err := t.Ask(&answer, "/usr/bin/scontrol", "show", "jobs"); err != nil {
		return 0, err
	}
	count := 0
	for _, job := range answer.Jobs {
		is := slices.ContainsFunc(job.State, func(s string) bool { return slices.Contains(states, s) })
		if is && slices.Contains(j.ids, strconv.Itoa(job.ID)) && (restarted || job.Restarts == 0) {
			count++
		}
	}
	return count, nil
}

func (j *jobs) completed(t *trial) error {
	completed, err := j.in(t, false, "COMPLETED")
	if err == nil && completed != len(j.ids) {
		err = fmt.Errorf("%d of %d jobs are COMPLETED", completed, len(j.ids))
	}
	return err
}

// kept wants every job to be there still: it was requeued, and waits for its node.
func (j *jobs) kept(t *trial) error {
	pending, err := j.in(t, true, "PENDING")
	if err == nil && pending != len(j.ids) {
		err = fmt.Errorf("%d of %d jobs are PENDING again", pending, len(j.ids))
	}
	return err
}

// end takes jobs away that nobody waits for.
func (j *jobs) end(t *trial) error {
	if len(j.ids) == 0 {
		return nil
	}
	if out, err := t.Command("/usr/bin/scancel", j.ids...).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot cancel the jobs: %w: %s", err, out)
	}
	return j.gate.Open()
}
