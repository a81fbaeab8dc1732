package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/slurmlet/slurmlet/e2e/native"
)

// slurmConf is what a site of some hundred nodes sets, and pods that go need:
//   - conmgr_max_connections is 26.05's default; 24.11 has 50, and lets the
//     others wait in the kernel's queue.
//   - TreeWidth stays 16, and MessageTimeout 10 s, their defaults: with 500
//     nodes slurmctld's messages go through three ranks, as from 23.11 on they
//     can with dynamic nodes.
//   - MinJobAge keeps the jobs until they have been counted.
const slurmConf = `SlurmctldParameters=enable_configless,conmgr_max_connections=512
MaxNodeCount=8192
MinJobAge=3600
`

// grace is the pods' grace period: longer than anything here takes.
const grace = 10 * time.Minute

// trial is one cluster's drain.
type trial struct {
	*native.Cluster
	jobs   jobs
	result result
	log    tail
}

func drainAll(s settings, l lower) (err error) {
	c, err := native.NewCluster(native.Options{Lower: l.Root, Slurmlet: s.Slurmlet, Nodes: s.Nodes, SlurmConf: slurmConf, IPv6: s.IPv6})
	if err != nil {
		return err
	}
	t := &trial{Cluster: c, jobs: jobs{count: s.Jobs}, result: result{version: l.Version}}
	defer func() {
		if err != nil {
			t.explain()
		}
		err = errors.Join(err, c.Close())
	}()
	for _, act := range []func() error{func() error { return t.Control(t.log.add) }, t.startNodes, t.submit, t.rest, t.drain, t.check} {
		if err := act(); err != nil {
			return err
		}
	}
	return t.result.print(os.Stdout)
}

// restFor is how many pings are made before anything happens.
const restFor = 100

func (t *trial) rest() error {
	p := &pinger{cluster: t.Cluster}
	for range restFor {
		p.ping()
	}
	t.result.rest = p.pings
	return nil
}

// drain counts and times what slurmctld does meanwhile.
func (t *trial) drain() error {
	if err := t.resetCounts(); err != nil {
		return err
	}
	before, err := processorTime(t.Controller.Process.Pid)
	if err != nil {
		return err
	}
	p := &pinger{cluster: t.Cluster}
	stop := p.start()
	err = t.terminate()
	stop()
	if err != nil {
		return err
	}
	t.result.drain = p.pings
	after, err := processorTime(t.Controller.Process.Pid)
	if err != nil {
		return err
	}
	t.result.spent = after - before
	t.result.asked, err = t.counts()
	return err
}

// terminate sends SIGTERM to all nodes, and lets the jobs end when the nodes
// without one have gone and the others wait.
func (t *trial) terminate() error {
	progress("Slurm %s: SIGTERM to %d nodes", t.result.version, len(t.Nodes))
	began := time.Now()
	for _, n := range t.Nodes {
		if err := n.Terminate(); err != nil {
			return err
		}
	}
	busy, idle := t.jobs.divide(t.Nodes)
	var err error
	if t.result.idle, err = exits(idle, began); err != nil {
		return err
	}
	if err := waiting(busy); err != nil {
		return err
	}
	released := time.Now()
	if err := t.jobs.gate.Open(); err != nil {
		return fmt.Errorf("cannot end the jobs: %w", err)
	}
	t.result.busy, err = exits(busy, released)
	return err
}

// waiting wants nodes to wait for their jobs.
func waiting(nodes []*native.Node) error {
	limit := time.After(exitLimit)
	for _, n := range nodes {
		select {
		case <-n.Waiting:
		case <-n.Exited:
			return fmt.Errorf("%s has left its job", n.Name)
		case <-limit:
			return fmt.Errorf("%s does not wait for its job within %v", n.Name, exitLimit)
		}
	}
	return nil
}

// exits waits for the ends of nodes, and returns how long after began they were.
func exits(nodes []*native.Node, began time.Time) (durations, error) {
	limit := time.After(exitLimit)
	var took durations
	for _, n := range nodes {
		select {
		case <-n.Exited:
			took = append(took, n.End.Sub(began))
		case <-limit:
			return nil, fmt.Errorf("%s has not exited within %v", n.Name, exitLimit)
		}
	}
	return took, nil
}

// exitLimit is for all nodes, on a machine of few processors.
const exitLimit = 5 * time.Minute

// check wants every agent to have exited with 0, all records to be gone, all
// jobs to be completed and every ping to be answered.
func (t *trial) check() error {
	var faults []error
	for _, n := range t.Nodes {
		if n.Status != 0 {
			faults = append(faults, fmt.Errorf("%s exited with %d", n.Name, n.Status))
		}
	}
	faults = append(faults, t.noRecords(), t.jobs.check(t.Cluster), t.result.answered())
	return errors.Join(faults...)
}

func (t *trial) noRecords() error {
	var answer struct {
		Nodes []struct{ Name string }
	}
	if err := t.Ask(&answer, "/usr/bin/scontrol", "show", "nodes"); err != nil {
		return err
	}
	if len(answer.Nodes) > 0 {
		return fmt.Errorf("%d node records are left, that of %s first", len(answer.Nodes), answer.Nodes[0].Name)
	}
	return nil
}
