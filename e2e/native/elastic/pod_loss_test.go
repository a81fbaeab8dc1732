//go:build e2e

package elastic

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

func (w *world) single() error {
	var names []string
	for i, one := range ofOne {
		names = append(names, fmt.Sprintf("%s (f-%d)", one.name, i))
	}
	return beside(w.settings, names, func(i int) error { return ofOne[i].play(w, fmt.Sprintf("f-%d", i)) })
}

// running submits a job that stays on a node.
func (w *world) running(node string, args ...string) (id string, err error) {
	if id, err = w.batch(append([]string{"-p", node[:1], "-w", node}, args...)...); err != nil {
		return "", err
	}
	return id, w.untilJob(id, "RUNNING")
}

// endsAlone: after the job's end, so does its node.
func (w *world) endsAlone(id, node string) error {
	if err := w.cancel(id); err != nil {
		return err
	}
	if err := w.untilNodes(node+" does not wait for a job", off, node); err != nil {
		return err
	}
	return w.until(node+" has a pod", func() bool { return w.uid(node) == "" })
}

// lost: the job is requeued, and runs again.
func (w *world) lost(node string) error {
	id, err := w.running(node)
	if err != nil {
		return err
	}
	uid := w.uid(node)
	if err := w.pods.lose(node); err != nil {
		return err
	}
	// A job that has just begun is looked for 25 to 50 s after the next pod is Ready.
	if err := native.Within(2*limit, "job "+id+" is not requeued", func() bool { return w.restarts(id) == "1" }); err != nil {
		return fmt.Errorf("%w: it is %s", err, w.job(id))
	}
	if err := w.successor(node, uid); err != nil {
		return err
	}
	if err := w.untilJob(id, "RUNNING"); err != nil {
		return err
	}
	return w.endsAlone(id, node)
}

// lostForGood: the job fails at once, and the next one has another pod.
func (w *world) lostForGood(node string) error {
	id, err := w.running(node, "--no-requeue")
	if err != nil {
		return err
	}
	began := time.Now() // the next pod's agent sees that the job began before it (agent, bootTime)
	if err := w.until("no time passes", func() bool { return time.Since(began) > 12*time.Second }); err != nil {
		return err
	}
	if err := w.pods.lose(node); err != nil {
		return err
	}
	lost := time.Now()
	if err := w.untilJob(id, "NODE_FAIL"); err != nil {
		return err
	}
	fmt.Printf("%s, Slurm %s:     a job fails %.1f s after its pod was lost\n", w.settings.Story, w.settings.Version, time.Since(lost).Seconds())
	if id, err = w.running(node); err != nil {
		return err
	}
	return w.endsAlone(id, node)
}

// deleted: somebody deletes the pod, which ends in order: its job is requeued when the grace period is over.
func (w *world) deleted(node string) error {
	id, err := w.running(node)
	if err != nil {
		return err
	}
	uid := w.uid(node)
	if err := w.pods.Delete(node, uid); err != nil {
		return err
	}
	w.maker.Lost(node, uid)
	if err := w.until("job "+id+" is not requeued", func() bool { return w.restarts(id) == "1" }); err != nil {
		return fmt.Errorf("%w: it is %s", err, w.job(id))
	}
	if err := w.untilJob(id, "RUNNING"); err != nil {
		return err
	}
	if w.uid(node) == uid {
		return fmt.Errorf("job %s runs again in the pod that was deleted", id)
	}
	return w.endsAlone(id, node)
}

// slurmdDies: its agent starts another one, and the job goes on.
func (w *world) slurmdDies(node string) error {
	id, err := w.running(node)
	if err != nil {
		return err
	}
	uid, n := w.uid(node), w.pods.of(node)
	slurmd, err := slurmdOf(n)
	if err != nil {
		return err
	}
	if err := w.until("no script: slurmctld starts a job anew whose slurmd dies at its launch", func() bool {
		_, err := process(n.PID(), "sleep")
		return err == nil
	}); err != nil {
		return err
	}
	if err := unix.Kill(slurmd, unix.SIGKILL); err != nil {
		return err
	}
	if err := w.until("no other slurmd", func() bool {
		next, err := slurmdOf(n)
		return err == nil && next != slurmd
	}); err != nil {
		return err
	}
	if err := w.untilNodes(node+" does not come back", up, node); err != nil {
		return err
	}
	if state, count := w.job(id), w.restarts(id); state != "RUNNING" || count != "0" || w.uid(node) != uid {
		return fmt.Errorf("job %s is %s after %s restarts, in pod %s after %s", id, state, count, w.uid(node), uid)
	}
	return w.endsAlone(id, node)
}

// slurmdOf is the slurmd in a node's pod.
func slurmdOf(n *native.Node) (int, error) {
	if n == nil {
		return 0, errors.New("there is no pod")
	}
	return process(n.PID(), "slurmd")
}

// process is the one of a name in the namespace of another.
func process(beside int, name string) (int, error) {
	space, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(beside), "ns/pid"))
	if err != nil {
		return 0, err
	}
	all, err := procfs.AllProcs()
	if err != nil {
		return 0, err
	}
	for _, p := range all {
		comm, err := p.Comm()
		if err != nil || comm != name { // one that has ended has none
			continue
		}
		if own, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(p.PID), "ns/pid")); err == nil && own == space {
			return p.PID, nil
		}
	}
	return 0, fmt.Errorf("there is no %s beside process %d", name, beside)
}

// cancelled: the node starts for nobody, and ends again.
func (w *world) cancelled(node string) error {
	w.pods.hold(node)
	id, err := w.batch("-p", "f", "-w", node)
	if err != nil {
		return err
	}
	if err := w.until(node+" has no pod", func() bool { return w.uid(node) != "" }); err != nil {
		return err
	}
	if err := w.cancel(id); err != nil {
		return err
	}
	if err := w.untilJob(id, "CANCELLED"); err != nil {
		return err
	}
	w.pods.release(node)
	return w.endsAlone(id, node)
}

// wantedAgain: the next pod waits until nothing is left of its namesake.
func (w *world) wantedAgain(node string) error {
	id, err := w.running(node)
	if err != nil {
		return err
	}
	uid := w.uid(node)
	w.pods.linger(node)
	if err := w.cancel(id); err != nil {
		return err
	}
	if err := w.powersDown(node); err != nil {
		return err
	}
	if id, err = w.batch("-p", "f", "-w", node); err != nil {
		return err
	}
	if w.uid(node) != uid || w.job(id) != "PENDING" {
		return fmt.Errorf("job %s is %s while pod %s ends; pod %s is there", id, w.job(id), uid, w.uid(node))
	}
	w.pods.letGo(node)
	if err := w.successor(node, uid); err != nil {
		return err
	}
	if err := w.untilJob(id, "RUNNING"); err != nil {
		return err
	}
	return w.endsAlone(id, node)
}
