//go:build e2e

package hang

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// reinstalled are clusters that die with a job, and of which slurmctld's state alone is kept.
var reinstalled = []testCase{
	{"a cluster is installed anew on the kept state", "", long, func(w *world) error { return w.reinstall("364Mi", "PENDING") }, agent.ExitOK, "PENDING"},
	{"a cluster is installed anew, and its pods are smaller", "", long, func(w *world) error { return w.reinstall("300Mi", "PENDING") }, agent.ExitOK, "PENDING"},
	{"a cluster is installed anew, and its job may not be requeued", "", long, func(w *world) error {
		return errors.Join(w.slurm("scontrol", "update", "jobid="+w.job, "requeue=0"), w.reinstall("364Mi", "NODE_FAIL"))
	}, agent.ExitOK, "NODE_FAIL"},
}

// promptly is how soon a job that died with its node must be over. slurmctld itself takes two minutes.
const promptly = time.Minute

// reinstall has a new node take the dead one's name. Its job is 12 s old: the clocks of two machines may differ by ten.
func (w *world) reinstall(memory, state string) error {
	<-time.After(12 * time.Second)
	if err := unix.Kill(w.node.PID(), unix.SIGKILL); err != nil {
		return fmt.Errorf("cannot kill the node: %w", err)
	}
	<-w.node.Exited
	if err := w.signal("slurmctld", unix.SIGTERM); err != nil {
		return err
	}
	_ = w.Slurmctld.Wait() // its status says nothing here
	if err := w.control(); err != nil {
		return err
	}
	w.node = &native.Node{
		Name: w.node.Name, IP: w.node.IP, Ready: make(chan struct{}), Waiting: make(chan struct{}), Exited: make(chan struct{}),
	}
	began := time.Now()
	if err := w.Start(w.node, "SLURMLET_GRACE_PERIOD="+grace.String(), "SLURMLET_MEMORY_LIMIT="+memory); err != nil {
		return err
	}
	if err := native.Within(3*time.Minute, "the job is not "+state, func() bool { return w.jobIs(state) && closed(w.node.Ready) }); err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Printf("the job is over, and the node takes jobs, %.1f s after the node's start\n", took.Seconds())
	if took > promptly {
		return fmt.Errorf("the job was RUNNING on a new node for %v", took)
	}
	return w.node.Terminate()
}
