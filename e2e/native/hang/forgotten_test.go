//go:build e2e

package hang

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// soon has a job that is requeued begin anew after seconds, not two minutes, and slurmctld launch a job at once: it
// asks slurmd to register three seconds after its start, and ends what it has forgotten then.
const soon = "AuthInfo=use_client_ids,cred_expire=5\nSchedulerParameters=sched_interval=1,sched_min_interval=1000,batch_sched_delay=0\n"

// forget has a job begin in place of the one that runs, and slurmctld die before it has saved that, which it does
// five seconds after the last time. The job waits for its partition until slurmctld has just saved it.
func (w *world) forget(script string, options ...string) (err error) {
	if err := w.slurm("scancel", w.job); err != nil {
		return err
	}
	if err := w.wait("the first job has ended", func() bool { return len(w.pids("slurmstepd")) == 0 }); err != nil {
		return err
	}
	if err := w.partition("down"); err != nil {
		return err
	}
	if w.job, err = w.submit(script, options...); err != nil {
		return err
	}
	saved, err := w.saved()
	if err != nil {
		return err
	}
	if err := w.partition("up"); err != nil {
		return err
	}
	if err := w.wait("the job runs", func() bool { return w.jobIs("RUNNING") && len(w.pids("sleep")) > 0 }); err != nil {
		return err
	}
	if err := w.signal("slurmctld", unix.SIGKILL); err != nil {
		return err
	}
	_ = w.Slurmctld.Wait() // it was killed
	if at, err := w.savedAt(); err != nil || !at.Equal(saved) {
		return fmt.Errorf("slurmctld was too slow: it has saved the job's start: %v", err)
	}
	if err := w.control(); err != nil {
		return err
	}
	return w.partition("up") // it was down when it was saved
}

// saved has slurmctld save its jobs, and says when it did.
func (w *world) saved() (at time.Time, err error) {
	before := time.Now()
	if err := w.slurm("scontrol", "update", "jobid="+w.job, "comment=saved"); err != nil {
		return at, err
	}
	return at, w.wait("slurmctld saves its jobs", func() bool {
		at, err = w.savedAt()
		return err == nil && at.After(before)
	})
}

func (w *world) savedAt() (time.Time, error) {
	info, err := os.Stat(filepath.Join(w.Root, "run/slurmctld/state/job_state"))
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

func (w *world) partition(state string) error {
	return w.slurm("scontrol", "update", "partitionname=all", "state="+state)
}

func (w *world) slurm(program string, args ...string) error {
	out, err := w.Command("/usr/bin/"+program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return nil
}

// told: the node's agent has said so.
func (w *world) told(text string) error {
	if !strings.Contains(strings.Join(w.node.Log(), "\n"), text) {
		return fmt.Errorf("the agent has not said %q", text)
	}
	return nil
}

// drained: the node takes no jobs, or cannot be asked for.
func (w *world) drained() bool {
	out, err := w.Command("/usr/bin/scontrol", "--oneliner", "show", "node", w.node.Name).Output()
	return err != nil || strings.Contains(string(out), "DRAIN")
}
