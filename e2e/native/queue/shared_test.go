//go:build e2e

package queue

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// shared is the case whose nodes have two CPUs.
const shared = "jobs of pods share a node"

// labelled is a job of pods that shares its node with others of its kind alone.
func labelled(group string) wire.Order {
	return submission(group, "--nodes=1", "--ntasks=1", "--cpus-per-task=1", "--nodelist=n1", "--exclusive=mcs", "--mcs-label=kubernetes")
}

// long is an ordinary job of one CPU of n1 that runs until somebody ends it.
func (w *world) long(args ...string) (string, error) {
	out, err := w.Command("/usr/bin/sbatch", append([]string{
		"--parsable", "--nodelist=n1", "--mem=10", "--ntasks=1", "--output=/dev/null", "--wrap=sleep 1000",
	}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("sbatch %v: %w: %s", args, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// stateBecomes waits for the state that squeue shows.
func (w *world) stateBecomes(job, want string) error {
	return native.Within(limit, fmt.Sprintf("job %s is not %s", job, want), func() bool { return w.stateOf(job) == want })
}

// waitsFor has slurmctld look at its queue some times, and a job stays in it.
func (w *world) waitsFor(job, what string) error {
	return stays(4*time.Second, fmt.Sprintf("job %s does not wait: %s", job, what), func() bool { return w.stateOf(job) == "PENDING" })
}

func (w *world) scancel(job string) error {
	if out, err := w.Command("/usr/bin/scancel", job).CombinedOutput(); err != nil {
		return fmt.Errorf("scancel %s: %w: %s", job, err, out)
	}
	return native.Within(limit, "job "+job+" does not end", func() bool { return w.stateOf(job) == "CANCELLED" })
}

// label is what slurmctld has for a node.
func (w *world) label() string {
	out, _ := w.Command("/usr/bin/scontrol", "show", "node", "n1").Output()
	_, rest, _ := strings.Cut(string(out), "MCS_label=")
	label, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(label)
}

// finished ends a job of pods, as its pods have ended. A script that does not listen yet misses the order, so it is repeated,
// as the controller does it.
func (w *world) finished(job uint32) error {
	w.queue.SetPods(job, "n1")
	runs := func() bool {
		_, err := w.queue.Done(wire.Order{Kind: wire.Look, User: user, Job: job})
		return err != nil || w.queue.Job(job).State != "COMPLETED"
	}
	err := native.Within(limit, fmt.Sprintf("job %d is not COMPLETED", job), func() bool {
		_, _ = w.queue.Done(wire.Order{Kind: wire.Finish, User: user, Job: job}) // what has ended refuses it
		return stays(2*time.Second, "", runs) != nil
	})
	if err != nil {
		return fmt.Errorf("%w: %+v", err, w.queue.Job(job))
	}
	return nil
}

// sharedByLabel: jobs of pods share a node with each other (sharing: kubernetes of charts/slurm), and never with an ordinary
// job. slurmctld begins without the plugin, as before an upgrade of the chart.
func (w *world) sharedByLabel() error {
	conf, err := os.OpenFile(filepath.Join(w.Root, "etc/slurm/slurm.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err = conf.WriteString("MCSPlugin=mcs/label\n"); err == nil {
		err = conf.Close()
	}
	if err != nil {
		return err
	}
	if out, err := w.Command("/usr/bin/scontrol", "reconfigure").CombinedOutput(); err != nil {
		return fmt.Errorf("scontrol reconfigure: %w: %s", err, out)
	}
	own, err := w.long()
	if err == nil {
		err = w.stateBecomes(own, "RUNNING")
	}
	if err != nil {
		return err
	}
	first, err := w.queue.Done(labelled("a"))
	if err == nil {
		err = w.waitsFor(strconv.FormatUint(uint64(first), 10), "an ordinary job has one CPU of the node, and the other one is free")
	}
	if err == nil {
		err = w.scancel(own)
	}
	if err == nil {
		err = w.becomes(first, "RUNNING")
	}
	if err != nil {
		return err
	}
	if label := w.label(); label != "kubernetes" {
		return fmt.Errorf("the node's label is %q", label)
	}
	for _, one := range []struct {
		what string
		args []string
	}{
		{"an ordinary job waits beside one of pods", nil},
		{"a job that has nodes alone waits beside one of pods", []string{"--exclusive"}},
		{"a job with another label waits beside one of pods", []string{"--exclusive=mcs", "--mcs-label=other"}},
		{"a job that would share its CPUs waits beside one of pods", []string{"--oversubscribe"}},
	} {
		job, err := w.long(one.args...)
		if err == nil {
			err = w.waitsFor(job, one.what)
		}
		if err == nil {
			err = w.scancel(job)
		}
		if err != nil {
			return err
		}
	}
	second, err := w.queue.Done(labelled("b"))
	if err == nil {
		err = w.becomes(second, "RUNNING")
	}
	if err != nil {
		return err
	}
	if state := w.stateOf(strconv.FormatUint(uint64(first), 10)); state != "RUNNING" {
		return fmt.Errorf("the first job is %s beside the second", state)
	}
	if err := w.finished(second); err != nil {
		return err
	}
	if err := w.restartSlurmctld(); err != nil {
		return err
	}
	after, err := w.long()
	if err == nil {
		err = w.waitsFor(after, "slurmctld has restarted beside the job of pods")
	}
	if err == nil {
		err = w.finished(first)
	}
	if err == nil {
		err = w.stateBecomes(after, "RUNNING")
	}
	if err != nil {
		return err
	}
	if label := w.label(); label != "N/A" {
		return fmt.Errorf("the node's label is %q without jobs of pods", label)
	}
	return nil
}
