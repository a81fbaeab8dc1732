//go:build e2e

package queue

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// startsBesidePods: the pod with slurmd is another one, and pods of an earlier job are on its machine. The node is drained from
// its registration on, and so it is while the controller does not say that there are none.
func (w *world) startsBesidePods() error {
	hog, err := w.Command("/usr/bin/sbatch", "--parsable", "--nodelist=n2", "--exclusive", "--mem=10", "--output=/dev/null", "--wrap=sleep 1000").Output()
	if err != nil {
		return err
	}
	for _, silent := range []bool{false, true} {
		n := w.nodes[0]
		if err := n.Terminate(); err != nil {
			return err
		}
		<-n.Exited
		out, err := w.Command("/usr/bin/sbatch", "--parsable", "--mem=10", "--output=/dev/null", "--wrap=true").Output()
		if err != nil {
			return err
		}
		next := strings.TrimSpace(string(out))
		w.queue.SetPods(99, "n1", "hpc/old")
		w.queue.SetSilent(silent)
		w.nodes[0] = &native.Node{Name: n.Name, IP: n.IP, Ready: make(chan struct{}), Waiting: make(chan struct{}), Exited: make(chan struct{})}
		w.Nodes[0] = w.nodes[0]
		environ, err := w.server.Admit(w.Root, n.Name)
		if err == nil {
			err = w.Start(w.nodes[0], append(environ, "SLURMLET_HOLDS=on")...)
		}
		if err == nil {
			err = w.nodes[0].AwaitReady(limit)
		}
		if err == nil {
			err = w.nodeIs("n1", "drained")
		}
		if err != nil {
			return err
		}
		if _, reason := w.node("n1"); !strings.HasPrefix(reason, string(reasons.ByPods)) {
			return fmt.Errorf("n1 is drained for %q", reason)
		}
		if err := stays(5*time.Second, "n1 has taken a job while there were pods", func() bool { return w.stateOf(next) == "PENDING" }); err != nil {
			return err
		}
		w.queue.SetPods(99, "n1")
		w.queue.SetSilent(false)
		if err := native.Within(limit, "the next job does not run", func() bool { return w.stateOf(next) == "COMPLETED" }); err != nil {
			return err
		}
		if state, _ := w.node("n2"); !strings.Contains("allocated mixed", state) {
			return errors.New("n2 was not busy: " + state)
		}
	}
	return w.Command("/usr/bin/scancel", strings.TrimSpace(string(hog))).Run()
}
