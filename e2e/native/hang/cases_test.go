//go:build e2e

package hang

import (
	"errors"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
)

// testCase is a way to lose slurmd, or slurmctld, about the time of SIGTERM.
type testCase struct {
	name string
	// conf is lines of slurm.conf, script is the job's.
	conf, script string
	play         func(*world) error
	// exit is the agent's status, state the job's in the end.
	exit  int
	state string
}

const short, long = "sleep 9", "sleep 1000"

var cases = []testCase{
	{"slurmd is stopped, and then the pod", "", short, func(w *world) error {
		return errors.Join(w.signal("slurmd", unix.SIGSTOP), w.node.Terminate())
	}, agent.ExitOK, "COMPLETED"},
	{"the pod is stopped, and then slurmd", "", short, func(w *world) error {
		if err := w.node.Terminate(); err != nil {
			return err
		}
		if err := w.wait("it waits for its job", func() bool { return closed(w.node.Waiting) }); err != nil {
			return err
		}
		return w.signal("slurmd", unix.SIGSTOP)
	}, agent.ExitOK, "COMPLETED"},
	{"slurmd is stopped, with a job that does not end", "", long, func(w *world) error {
		return errors.Join(w.signal("slurmd", unix.SIGSTOP), w.node.Terminate())
	}, agent.ExitOK, "PENDING"},
	{"slurmd waits for a file system, and cannot be killed", "Epilog=/" + dead + "/epilog\n", "sleep 3", func(w *world) error {
		// The epilog is slurmd's own to look for.
		if err := w.wait("slurmd waits for the file system", func() bool { return w.fuse.asked.Load() > 0 && len(w.pids("slurmstepd")) == 0 }); err != nil {
			return err
		}
		if err := errors.Join(w.signal("slurmd", unix.SIGSTOP), w.node.Terminate()); err != nil {
			return err
		}
		return w.wait("sackd speaks", func() bool { return w.told("sackd gives scontrol its credentials") == nil })
	}, 128 + 9, "COMPLETED"},
	{"the file system of the spool directory does not answer", "", long, func(w *world) error {
		return errors.Join(w.fuse.cover(w.pids("slurmd")[0], "/run/spool"), w.node.Terminate())
	}, 128 + 9, "PENDING"},
	{"slurmctld is away and slurmd dead, and slurmctld comes back", "", short, func(w *world) error {
		if err := w.loseBoth(); err != nil {
			return err
		}
		<-time.After(3 * time.Second) // the agent looks for slurmctld meanwhile
		return w.control()
	}, agent.ExitOK, "COMPLETED"},
	{"slurmctld is away and slurmd dead, and slurmctld comes back too late", "", long, func(w *world) error {
		if err := w.loseBoth(); err != nil {
			return err
		}
		if err := w.wait("the pod has ended", func() bool { return closed(w.node.Exited) }); err != nil {
			return err
		}
		return w.control()
	}, agent.ExitLeft, "RUNNING"},
}

// others run with SLURMLET_E2E_FULL=1: races of a second or two, which a loaded machine loses, and states in which
// nothing is wrong for long.
var others = []testCase{
	{"slurmctld dies before it has saved a job's start", soon, long, func(w *world) error {
		if err := w.forget(short); err != nil {
			return err
		}
		// That it is launched twice is what this is about; a slurmd that registers in time prevents it.
		if err := w.wait("the job begins anew", func() bool { return w.jobIs("RUNNING") && w.jobSays("Restarts=1") && !w.drained() }); err != nil {
			return err
		}
		return errors.Join(w.told("and has held it: it is released"), w.told("the drain is lifted"), w.node.Terminate())
	}, agent.ExitOK, "COMPLETED"},
	{"slurmctld dies before it has saved the start of a job that may not be requeued", soon, long, func(w *world) error {
		if err := w.forget(long, "--no-requeue"); err != nil {
			return err
		}
		if err := w.wait("the node takes jobs", func() bool { return w.told("the drain is lifted") == nil && !w.drained() }); err != nil {
			return err
		}
		return w.node.Terminate()
	}, agent.ExitOK, "CANCELLED"},
	{"slurmd is stopped for five seconds", "", short, func(w *world) error {
		return errors.Join(w.node.Terminate(), w.stopFor("slurmd", 5*time.Second))
	}, agent.ExitOK, "COMPLETED"},
	{"slurmctld is stopped for five seconds", "", short, func(w *world) error {
		return errors.Join(w.node.Terminate(), w.stopFor("slurmctld", 5*time.Second))
	}, agent.ExitOK, "COMPLETED"},
	{"slurmd is killed on the way down", "", short, func(w *world) error {
		return errors.Join(w.node.Terminate(), w.signal("slurmd", unix.SIGKILL))
	}, agent.ExitOK, "COMPLETED"},
	{"slurmctld is restarted on the way down", "", short, func(w *world) error {
		if err := errors.Join(w.node.Terminate(), w.signal("slurmctld", unix.SIGTERM)); err != nil {
			return err
		}
		_ = w.Slurmctld.Wait() // its status says nothing here
		return w.control()
	}, agent.ExitOK, "COMPLETED"},
	{"two SIGTERMs", "", short, func(w *world) error {
		return errors.Join(w.node.Terminate(), w.node.Terminate())
	}, agent.ExitOK, "COMPLETED"},
	{"the node is drained by hand", "", short, func(w *world) error {
		err := w.Command("/usr/bin/scontrol", "update", "nodename="+w.node.Name, "state=drain", "reason=mine").Run()
		return errors.Join(err, w.node.Terminate())
	}, agent.ExitOK, "COMPLETED"},
	{"slurmd reconfigures as SIGTERM comes", "", short, func(w *world) error {
		return errors.Join(w.Command("/usr/bin/scontrol", "reconfigure").Run(), w.node.Terminate())
	}, agent.ExitOK, "COMPLETED"},
}

// stopFor stops a daemon for a while.
func (w *world) stopFor(name string, d time.Duration) error {
	if err := w.signal(name, unix.SIGSTOP); err != nil {
		return err
	}
	<-time.After(d)
	return w.signal(name, unix.SIGCONT)
}

// all are those that run.
func all() []testCase {
	if os.Getenv("SLURMLET_E2E_FULL") == "" {
		return slices.Concat(cases, toldLate, crowdCases, reinstalled)
	}
	return slices.Concat(cases, toldLate, crowdCases, reinstalled, others)
}

// loseBoth ends slurmctld, kills slurmd, and has the pod end then.
func (w *world) loseBoth() error {
	if err := w.signal("slurmctld", unix.SIGTERM); err != nil {
		return err
	}
	_ = w.Slurmctld.Wait() // its status says nothing here
	return errors.Join(w.signal("slurmd", unix.SIGKILL), w.node.Terminate())
}
