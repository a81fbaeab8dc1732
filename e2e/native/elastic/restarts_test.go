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
	{"slurmctld is restarted", func(w *world) error {
		return w.meanwhile(w.stopSlurmctld, []moment{
			{"as a job is submitted", (*world).atSubmission},
			{"while a node starts", (*world).whileStarting},
			{"while a job runs and its node ends", (*world).whileRunning},
		})
	}},
	{"slurmctld dies", func(w *world) error {
		return w.meanwhile(w.killSlurmctld, []moment{
			{"while a node ends", (*world).whileEnding},
			{"while a node starts", (*world).whileStarting},
			{"while a job runs and its node ends", (*world).whileRunning},
		})
	}},
}

// moment is what is played around a restart, on a node of its own.
type moment struct {
	name string
	play func(w *world, node string, restart *seat) error
}

// meanwhile restarts slurmctld once, at all these moments.
func (w *world) meanwhile(restart func() error, moments []moment) error {
	all := newMeeting(len(moments), restart)
	var names []string
	for _, m := range moments {
		names = append(names, m.name)
	}
	return beside(w.settings, names, func(i int) error {
		s := all.seat()
		defer s.leave()
		return moments[i].play(w, fmt.Sprintf("r-%d", i), s)
	})
}

// stopSlurmctld is a deletion of slurmctld's pod, killSlurmctld a power cut. Both have another one begin.
func (w *world) stopSlurmctld() error { return w.restartSlurmctld(unix.SIGTERM) }
func (w *world) killSlurmctld() error { return w.restartSlurmctld(unix.SIGKILL) }

func (w *world) restartSlurmctld(signal unix.Signal) error {
	if signal == unix.SIGKILL { // slurmctld is a child of its agent, whose namespace stays
		slurmctld, err := process(w.Slurmctld.Process.Pid, "slurmctld")
		if err != nil {
			return err
		}
		// The agent first, which would start slurmctld again.
		if err := errors.Join(w.Slurmctld.Process.Kill(), unix.Kill(slurmctld, signal)); err != nil {
			return err
		}
	} else if err := w.Slurmctld.Process.Signal(signal); err != nil {
		return fmt.Errorf("cannot stop slurmctld: %w", err)
	}
	_ = w.Slurmctld.Wait() // the next one tells whether it went well
	return w.control()
}

// saved waits until slurmctld has written down a job and its node as they are now, which it does within seconds of a
// change. A slurmctld that is killed before that takes the node for one that is off, and the job for one that has not begun.
func (w *world) saved(id, node string) error {
	return errors.Join(w.savedAfter("job_state", "job="+id, "comment=saved"), w.savedAfter("node_state", "nodename="+node, "weight=1"))
}

// savedAfter changes something, and waits until a file of slurmctld's state is younger.
func (w *world) savedAfter(file string, update ...string) error {
	var coarse unix.Timespec // a file's times are by this clock, which is some milliseconds behind
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &coarse); err != nil {
		return fmt.Errorf("cannot tell the time: %w", err)
	}
	if _, err := w.slurm("scontrol", append([]string{"update"}, update...)...); err != nil {
		return err
	}
	asked, saved := time.Unix(coarse.Unix()), time.Time{}
	path := filepath.Join(w.Root, "run/slurmctld/state", file)
	if err := w.until("slurmctld does not save its "+file, func() bool {
		info, err := os.Stat(path)
		if err == nil {
			saved = info.ModTime()
		}
		return err == nil && !saved.Before(asked)
	}); err != nil {
		return fmt.Errorf("%w: it is of %v, and the change of %v", err, saved, asked)
	}
	return nil
}

// atSubmission: the job was accepted, so it runs.
func (w *world) atSubmission(node string, restart *seat) error {
	restart.last()
	id, err := w.batch("-p", "r", "-w", node)
	if err != nil {
		return err
	}
	if err := restart.come(); err != nil {
		return err
	}
	if err := w.untilJob(id, "RUNNING"); err != nil {
		return err
	}
	return w.endsAlone(id, node)
}

func (w *world) whileStarting(node string, restart *seat) error {
	w.pods.hold(node)
	id, err := w.batch("-p", "r", "-w", node)
	if err != nil {
		return err
	}
	if err := w.until(node+" has no pod", func() bool { return w.uid(node) != "" }); err != nil {
		return err
	}
	if err := w.saved(id, node); err != nil {
		return err
	}
	if err := restart.come(); err != nil {
		return err
	}
	w.pods.release(node)
	if err := w.untilJob(id, "RUNNING"); err != nil {
		return err
	}
	return w.endsAlone(id, node)
}

func (w *world) whileRunning(node string, restart *seat) error {
	id, err := w.running(node)
	if err != nil {
		return err
	}
	uid := w.uid(node)
	if err := errors.Join(w.saved(id, node), restart.come()); err != nil {
		return err
	}
	if err := w.untilNodes(node+" does not come back", up, node); err != nil {
		return err
	}
	if state := w.job(id); state != "RUNNING" || w.restarts(id) != "0" || w.uid(node) != uid {
		return fmt.Errorf("job %s is %s after %s restarts in %s, not %s", id, state, w.restarts(id), w.uid(node), uid)
	}
	return w.endsAlone(id, node)
}

// whileEnding: the pod's end comes to its end, and the node is there for the next job.
func (w *world) whileEnding(node string, restart *seat) error {
	id, err := w.running(node)
	if err != nil {
		return err
	}
	uid := w.uid(node)
	w.pods.linger(node)
	defer w.pods.letGo(node)
	if err := w.cancel(id); err != nil {
		return err
	}
	if err := w.powersDown(node); err != nil {
		return err
	}
	if err := w.savedAfter("node_state", "nodename="+node, "weight=1"); err != nil { // else the node is one that is up
		return err
	}
	if err := restart.come(); err != nil {
		return err
	}
	w.pods.letGo(node)
	if id, err = w.running(node); err != nil {
		return err
	}
	if w.uid(node) == uid {
		return fmt.Errorf("job %s runs in the pod that has ended", id)
	}
	return w.endsAlone(id, node)
}
