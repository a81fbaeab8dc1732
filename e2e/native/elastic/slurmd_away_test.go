//go:build e2e

package elastic

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// unreachable waits until a pod has found that slurmctld is away.
func (w *ends) unreachable(n *native.Node) error {
	return native.Within(limit, n.Name+" does not miss slurmctld", func() bool {
		return slices.ContainsFunc(n.Log(), func(line string) bool {
			return strings.Contains(line, `"Stopping"`) && strings.Contains(line, "Unable to contact")
		})
	})
}

func (w *ends) away() error {
	n, job, err := w.working("SLURMLET_GRACE_PERIOD=5m")
	if err != nil {
		return err
	}
	if err := errors.Join(w.down.come(), n.Terminate()); err != nil {
		return err
	}
	if err := w.unreachable(n); err != nil {
		return err
	}
	return errors.Join(w.gate.Open(), w.up.come(), w.suspends(n), w.completes(job))
}

// restarted: slurmctld has kept what it was told before.
func (w *ends) restarted() error {
	n, job, err := w.working("SLURMLET_GRACE_PERIOD=5m")
	if err != nil {
		return err
	}
	if err := w.waits(n); err != nil {
		return err
	}
	if err := errors.Join(w.down.come(), w.up.come(), w.untilNode(n, "DRAIN", "POWER_DOWN")); err != nil {
		return err
	}
	return errors.Join(w.gate.Open(), w.suspends(n), w.completes(job))
}

func (w *ends) outOfTime() error {
	first, requeued, err := w.working(short)
	if err != nil {
		return err
	}
	second, fails, err := w.working(short)
	if err != nil {
		return err
	}
	if _, err := w.slurm("scontrol", "update", "jobid="+fails, "requeue=0"); err != nil {
		return err
	}
	if err := errors.Join(first.Terminate(), second.Terminate()); err != nil {
		return err
	}
	if err := errors.Join(w.suspends(first), w.suspends(second)); err != nil {
		return err
	}
	return errors.Join(w.untilJob(requeued, "PENDING"), w.restarts(requeued, 1), w.untilJob(fails, "NODE_FAIL"))
}

// outOfTimeAway: the next pod of that name takes the record, and slurmctld requeues what has died.
func (w *ends) outOfTimeAway() error {
	n, job, err := w.working(short)
	if err != nil {
		return err
	}
	if err := errors.Join(w.down.come(), n.Terminate()); err != nil {
		return err
	}
	select {
	case <-n.Exited:
	case <-time.After(limit):
		return fmt.Errorf("%s has not exited", n.Name)
	}
	if err := w.up.come(); err != nil {
		return err
	}
	if err := w.left(n, 75); err != nil {
		return err
	}
	successor := another(n)
	if err := w.start(successor); err != nil {
		return err
	}
	if err := successor.AwaitReady(limit); err != nil {
		return err
	}
	if err := native.Within(2*limit, "the job that has died is not requeued", func() bool { return w.field("job", job, "Restarts") == "1" }); err != nil {
		return fmt.Errorf("%w: it is %s; %s", err, w.job(job), strings.Join(successor.Log(), "\n"))
	}
	if _, err := w.slurm("scancel", job); err != nil {
		return err
	}
	return errors.Join(successor.Terminate(), w.suspends(successor))
}

// another is the next pod of a node.
func another(n *native.Node) *native.Node {
	return &native.Node{
		Name: n.Name, IP: append(net.IP(nil), n.IP...),
		Ready: make(chan struct{}), Waiting: make(chan struct{}), Exited: make(chan struct{}),
	}
}

// early: a job waits for the node, and then for its next pod.
func (w *ends) early() error {
	n := w.unused()
	job, err := w.gate.Submit(n.Name)
	if err != nil {
		return err
	}
	if err := w.untilNode(n, "POWERING_UP", "ALLOCATED"); err != nil {
		return err
	}
	if err := w.start(n, "SLURMLET_SLURMCTLD=10.88.255.254"); err != nil { // nobody is there
		return err
	}
	if err := native.Within(limit, n.Name+" does not look for slurmctld", func() bool {
		return slices.ContainsFunc(n.Log(), func(line string) bool { return strings.Contains(line, "cannot reach slurmctld") })
	}); err != nil {
		return err
	}
	if err := errors.Join(n.Terminate(), w.left(n, 0, "POWERING_UP")); err != nil {
		return err
	}
	successor := another(n)
	if err := w.start(successor); err != nil {
		return err
	}
	if err := errors.Join(w.untilJob(job, "RUNNING"), w.gate.Open(), w.completes(job)); err != nil {
		return err
	}
	return errors.Join(successor.Terminate(), w.suspends(successor))
}

func (w *ends) drained() error {
	n, job, err := w.working()
	if err != nil {
		return err
	}
	if _, err := w.slurm("scontrol", "update", "nodename="+n.Name, "state=drain", "reason=disk"); err != nil {
		return err
	}
	if err := errors.Join(w.waits(n), w.untilNode(n, "DRAIN", "POWER_DOWN")); err != nil {
		return err
	}
	if reason := w.field("node", n.Name, "Reason"); reason != "disk" {
		return fmt.Errorf("the reason is %q", reason)
	}
	return errors.Join(w.gate.Open(), w.suspends(n), w.completes(job))
}

func (w *ends) larger() error {
	n := w.Nodes[slurmdNodes-1] // which has no record yet
	if _, err := w.slurm("scontrol", "create", "NodeName="+n.Name, "CPUs=1", "RealMemory=4000", "TmpDisk=100", "State=CLOUD"); err != nil {
		return err
	}
	if _, err := w.slurm("scontrol", "update", "nodename="+n.Name, "state=power_up"); err != nil {
		return err
	}
	if err := errors.Join(w.untilNode(n, "POWERING_UP"), w.start(n), w.untilNode(n, "IDLE", "DRAIN", "CLOUD")); err != nil {
		return err
	}
	if memory := w.field("node", n.Name, "RealMemory"); memory != "4000" {
		return fmt.Errorf("the record has RealMemory=%s", memory)
	}
	if err := native.Within(limit, "nobody says why", func() bool {
		return slices.ContainsFunc(n.Log(), func(line string) bool { return strings.Contains(line, "RealMemory is 4000, not 300") })
	}); err != nil {
		return err
	}
	return errors.Join(n.Terminate(), w.suspends(n))
}
