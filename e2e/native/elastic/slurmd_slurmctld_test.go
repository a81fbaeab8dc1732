//go:build e2e

package elastic

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

func (w *ends) comesUp() error {
	n, job, err := w.working()
	if err != nil {
		return err
	}
	if features, weight := w.field("node", n.Name, "AvailableFeatures"), w.field("node", n.Name, "Weight"); features != "cpu" || weight != "10" {
		return fmt.Errorf("the record has features %s and weight %s", features, weight)
	}
	return errors.Join(w.gate.Open(), w.completes(job))
}

func (w *ends) idle() error {
	n, err := w.ready()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := errors.Join(n.Terminate(), w.suspends(n)); err != nil {
		return err
	}
	fmt.Printf("an idle node's pod took %.2f s to end\n", n.End.Sub(began).Seconds())
	return nil
}

func (w *ends) together() error {
	var all []*native.Node
	for range 5 {
		n, err := w.next()
		if err != nil {
			return err
		}
		all = append(all, n)
	}
	if _, err := w.slurm("sdiag", "--reset"); err != nil {
		return err
	}
	for _, n := range all {
		if err := w.start(n); err != nil {
			return err
		}
	}
	for _, n := range all {
		if err := n.AwaitReady(limit); err != nil {
			return err
		}
	}
	started, err := w.RPCs()
	if err != nil {
		return err
	}
	if n := started["REQUEST_NODE_INFO"]; n > 0 {
		return fmt.Errorf("slurmctld was asked %d times for all nodes", n)
	}
	if _, err := w.slurm("sdiag", "--reset"); err != nil {
		return err
	}
	for _, n := range all {
		if err := n.Terminate(); err != nil {
			return err
		}
	}
	for _, n := range all {
		if err := w.suspends(n); err != nil {
			return err
		}
	}
	asked, err := w.RPCs()
	if err != nil {
		return err
	}
	if n := asked["REQUEST_UPDATE_NODE"]; n == 0 || n > 3 {
		return fmt.Errorf("slurmctld was asked for %d changes", n)
	}
	if n := asked["REQUEST_DELETE_NODE"]; n > 0 {
		return fmt.Errorf("slurmctld was asked for %d deletions", n)
	}
	return nil
}

func (w *ends) busy() error {
	n, job, err := w.working()
	if err != nil {
		return err
	}
	if err := errors.Join(w.waits(n), w.untilNode(n, "DRAIN", "POWER_DOWN")); err != nil {
		return err
	}
	return errors.Join(w.gate.Open(), w.suspends(n), w.completes(job))
}

func (w *ends) cancelled() error {
	n, job, err := w.working()
	if err != nil {
		return err
	}
	if err := w.waits(n); err != nil {
		return err
	}
	if _, err := w.slurm("scancel", job); err != nil {
		return err
	}
	return errors.Join(w.suspends(n), w.untilJob(job, "CANCELLED"))
}

func (w *ends) suspended() error {
	n, err := w.ready()
	if err != nil {
		return err
	}
	if _, err := w.slurm("scontrol", "update", "nodename="+n.Name, "state=power_down"); err != nil {
		return err
	}
	if err := w.untilNode(n, "POWERING_DOWN"); err != nil {
		return err
	}
	if _, err := w.slurm("sdiag", "--reset"); err != nil {
		return err
	}
	began := time.Now()
	if err := errors.Join(n.Terminate(), w.suspends(n)); err != nil {
		return err
	}
	fmt.Printf("a suspended node's pod took %.2f s to end\n", n.End.Sub(began).Seconds())
	asked, err := w.RPCs()
	if err == nil && asked["REQUEST_UPDATE_NODE"] > 0 {
		err = fmt.Errorf("slurmctld was asked for %d changes of a node that it had suspended", asked["REQUEST_UPDATE_NODE"])
	}
	return err
}

// reconfigured: slurmd hands over to a successor, which registers.
func (w *ends) reconfigured() error {
	n, job, err := w.working()
	if err != nil {
		return err
	}
	if err := w.waits(n); err != nil {
		return err
	}
	before := len(processes(n, "slurmd"))
	if _, err := w.slurm("scontrol", "reconfigure"); err != nil {
		return err
	}
	if err := native.Within(limit, "slurmd does not hand over", func() bool {
		return before == 1 && slices.ContainsFunc(n.Log(), func(line string) bool { return strings.Contains(line, "reconfig") })
	}); err != nil {
		return err
	}
	if err := errors.Join(w.untilNode(n, "DRAIN", "POWER_DOWN"), w.gate.Open(), w.exits(n)); err != nil {
		return err
	}
	return errors.Join(w.suspends(n), w.completes(job))
}

func (w *ends) killed() error {
	n, job, err := w.working()
	if err != nil {
		return err
	}
	for _, pid := range processes(n, "slurmd") {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			return fmt.Errorf("cannot kill slurmd: %w", err)
		}
	}
	return errors.Join(w.waits(n), w.gate.Open(), w.suspends(n), w.completes(job))
}
