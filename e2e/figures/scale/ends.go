package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// ends has a quarter of all nodes end at once, which have little time, with a job on every second
// one of them. The jobs do not end by themselves.
func (t *trial) ends() error {
	gone := t.first()
	var busy []*native.Node
	for i := 0; i < len(gone); i += 2 {
		busy = append(busy, gone[i])
	}
	jobs, began, err := t.endAtOnce(gone, busy)
	if err != nil {
		return err
	}
	took, err := exits(gone, began)
	if err != nil {
		return err
	}
	t.say("from SIGTERM to exit, with %v of grace: p50 %v, p99 %v, most %v", shortGrace, took.at(.5), took.at(.99), took.at(1))
	t.sayMerged(began)
	if err := good(gone); err != nil {
		t.say("%v: on a busy machine slurmd may be killed when its record has gone", err)
	}
	t.fault = errors.Join(t.noRecords(gone), jobs.kept(t))
	return jobs.end(t)
}

// drain has all others end at once. They have time, and some wait for a job.
func (t *trial) drain() error {
	nodes := t.living()
	count := t.settings.Jobs
	if count < 0 {
		count = (len(t.Nodes) + 9) / 10
	}
	busy, idle := divide(nodes, min(count, len(nodes)))
	jobs, began, err := t.endAtOnce(nodes, busy)
	if err != nil {
		return err
	}
	tookIdle, err := exits(idle, began)
	if err != nil {
		return err
	}
	if err := waiting(busy); err != nil {
		return err
	}
	released := time.Now()
	if err := jobs.gate.Open(); err != nil {
		return fmt.Errorf("cannot end the jobs: %w", err)
	}
	tookBusy, err := exits(busy, released)
	if err != nil {
		return err
	}
	t.say("from SIGTERM to exit, %d idle nodes: p50 %v, p99 %v, most %v", len(idle), tookIdle.at(.5), tookIdle.at(.99), tookIdle.at(1))
	t.say("from their jobs' end to exit, %d busy nodes: p50 %v, p99 %v, most %v", len(busy), tookBusy.at(.5), tookBusy.at(.99), tookBusy.at(1))
	t.sayMerged(began)
	t.fault = errors.Join(good(nodes), t.noRecords(nodes), jobs.completed(t))
	return nil
}

// endAtOnce sends SIGTERM to nodes, when some of them have a job, and counts from then on.
func (t *trial) endAtOnce(nodes, busy []*native.Node) (j *jobs, began time.Time, err error) {
	if j, err = t.submit(busy); err != nil {
		return nil, began, err
	}
	if err := t.resetCounts(); err != nil {
		return nil, began, err
	}
	t.meter.forget()
	t.merged.forget()
	t.progress("SIGTERM to %d nodes, %d of them with a job", len(nodes), len(busy))
	began = time.Now()
	for _, n := range nodes {
		if err := n.Terminate(); err != nil {
			return nil, began, err
		}
	}
	return j, began, nil
}

// waiting wants nodes to wait for their jobs.
func waiting(nodes []*native.Node) error {
	limit := time.After(manyLimit)
	for _, n := range nodes {
		select {
		case <-n.Waiting:
		case <-n.Exited:
			return fmt.Errorf("%s has left its job", n.Name)
		case <-limit:
			return fmt.Errorf("%s does not wait for its job within %v", n.Name, manyLimit)
		}
	}
	return nil
}

// exits waits for the ends of nodes, and returns how long after began they were.
func exits(nodes []*native.Node, began time.Time) (durations, error) {
	limit := time.After(manyLimit)
	var took durations
	for _, n := range nodes {
		select {
		case <-n.Exited:
			took = append(took, n.End.Sub(began))
		case <-limit:
			return nil, fmt.Errorf("%s has not exited within %v", n.Name, manyLimit)
		}
	}
	return took, nil
}

// good wants agents to have exited with 0. One in a hundred may have killed a slurmd whose record had gone:
// 24.11's waits at its end for threads that ask slurmctld.
func good(nodes []*native.Node) error {
	const killed = 128 + 9
	counts := map[int]int{}
	for _, n := range nodes {
		counts[n.Status]++
	}
	if counts[0]+min(counts[killed], (len(nodes)+99)/100) == len(nodes) {
		return nil
	}
	return fmt.Errorf("agents exited with (status:agents) %v", counts)
}

// noRecords wants slurmctld to have no record of nodes, but for those that stay because requeued jobs name the nodes.
func (t *trial) noRecords(nodes []*native.Node) error {
	type record struct {
		Name, Reason string
		State        []string
	}
	var answer struct{ Nodes []record }
	if err := t.Ask(&answer, "/usr/bin/scontrol", "show", "nodes"); err != nil {
		return err
	}
	var left []string
	for _, n := range nodes {
		if slices.ContainsFunc(answer.Nodes, func(r record) bool {
			stays := strings.HasPrefix(r.Reason, "slurmlet: the pod is gone, and ") && slices.Contains(r.State, "DRAIN")
			return r.Name == n.Name && !stays
		}) {
			left = append(left, n.Name)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("%d node records are left, that of %s first", len(left), left[0])
	}
	return nil
}
