//go:build e2e

package elastic

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const restartsConf = `SlurmctldParameters=enable_configless
SchedulerParameters=sched_interval=3,bf_interval=3
NodeSet=r Feature=r
PartitionName=r Nodes=r SuspendTime=4
`

var restartsSets = map[string]string{"r": `{"nodes":"r-[0-3]","cpuLimit":"1","memoryLimit":"364Mi","storageLimit":"1Gi","features":["r"]}`}

var restartsSteps = []step{
	{"slurmctld is restarted as a job is submitted", func(w *world) error { return w.atSubmission(w.stopController) }},
	{"slurmctld is restarted while a node starts", func(w *world) error { return w.whileStarting(w.stopController) }},
	{"slurmctld dies while a node starts", func(w *world) error { return w.whileStarting(w.killController) }},
	{"slurmctld dies while a job runs and its node ends", func(w *world) error { return w.whileRunning(w.killController) }},
	{"slurmctld is restarted while a job runs and its node ends", func(w *world) error { return w.whileRunning(w.stopController) }},
	{"slurmctld's pod is killed while a node ends", func(w *world) error { return w.whileEnding(w.killController) }},
}

// stopController is a deletion of slurmctld's pod, killController a power cut. Both have another one begin.
func (w *world) stopController() error { return w.restartController(unix.SIGTERM) }
func (w *world) killController() error { return w.restartController(unix.SIGKILL) }

func (w *world) restartController(signal unix.Signal) error {
	if signal == unix.SIGKILL { // slurmctld is a child of its agent, whose namespace stays
		slurmctld, err := process(w.Controller.Process.Pid, "slurmctld")
		if err != nil {
			return err
		}
		if err := unix.Kill(slurmctld, signal); err != nil {
			return err
		}
	} else if err := w.Controller.Process.Signal(signal); err != nil {
		return fmt.Errorf("cannot stop slurmctld: %w", err)
	}
	_ = w.Controller.Wait() // the next one tells whether it went well
	return w.control()
}

// saved waits until slurmctld has written down a job and its node as they are now, which it does within seconds of a
// change. A slurmctld that is killed before that takes the node for one that is off, and the job for one that has not begun.
func (w *world) saved(id, node string) error {
	now := time.Now()
	_, err := w.slurm("scontrol", "update", "job="+id, "comment=saved")
	if err == nil {
		_, err = w.slurm("scontrol", "update", "nodename="+node, "weight=1")
	}
	if err != nil {
		return err
	}
	for _, file := range []string{"job_state", "node_state"} {
		path := filepath.Join(w.Root, "run/slurmctld/state", file)
		if err := w.until("slurmctld does not save its "+file, func() bool {
			info, err := os.Stat(path)
			return err == nil && info.ModTime().After(now)
		}); err != nil {
			return err
		}
	}
	return nil
}

// atSubmission: the job was accepted, so it runs.
func (w *world) atSubmission(restart func() error) error {
	id, err := w.batch("-p", "r", "-w", "r-0")
	if err != nil {
		return err
	}
	if err := restart(); err != nil {
		return err
	}
	if err := w.untilJob(id, "RUNNING"); err != nil {
		return err
	}
	return w.endsAlone(id, "r-0")
}

func (w *world) whileStarting(restart func() error) error {
	w.pods.hold("r-1")
	id, err := w.batch("-p", "r", "-w", "r-1")
	if err != nil {
		return err
	}
	if err := w.until("r-1 has no pod", func() bool { return w.uid("r-1") != "" }); err != nil {
		return err
	}
	if err := w.saved(id, "r-1"); err != nil {
		return err
	}
	if err := restart(); err != nil {
		return err
	}
	w.pods.release("r-1")
	if err := w.untilJob(id, "RUNNING"); err != nil {
		return err
	}
	return w.endsAlone(id, "r-1")
}

func (w *world) whileRunning(restart func() error) error {
	id, err := w.running("r-2")
	if err != nil {
		return err
	}
	uid := w.uid("r-2")
	if err := errors.Join(w.saved(id, "r-2"), restart()); err != nil {
		return err
	}
	if err := w.untilNodes("r-2 does not come back", up, "r-2"); err != nil {
		return err
	}
	if state := w.job(id); state != "RUNNING" || w.restarts(id) != "0" || w.uid("r-2") != uid {
		return fmt.Errorf("job %s is %s after %s restarts in %s, not %s", id, state, w.restarts(id), w.uid("r-2"), uid)
	}
	return w.endsAlone(id, "r-2")
}

// whileEnding: the pod's end comes to its end, and the node is there for the next job.
func (w *world) whileEnding(restart func() error) error {
	id, err := w.running("r-3")
	if err != nil {
		return err
	}
	uid := w.uid("r-3")
	w.pods.linger("r-3")
	if err := w.cancel(id); err != nil {
		return err
	}
	if err := w.untilNodes("r-3 does not power down", func(r record) bool { return r.is("POWERING_DOWN") }, "r-3"); err != nil {
		return err
	}
	if err := restart(); err != nil {
		return err
	}
	w.pods.letGo("r-3")
	if id, err = w.running("r-3"); err != nil {
		return err
	}
	if w.uid("r-3") == uid {
		return fmt.Errorf("job %s runs in the pod that has ended", id)
	}
	return w.endsAlone(id, "r-3")
}
