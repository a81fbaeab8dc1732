//go:build e2e

package gone

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slurmlet/slurmlet/e2e/fakecontroller"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// rolling is how much TestRolling does.
type rolling struct {
	// Nodes are those of the StatefulSet n, of which Together are replaced at once.
	Nodes, Together int
	// Rolls are rolling updates, with an edit of slurm.conf between any two.
	Rolls, Jobs, Reservations int
	// Whole: also what takes slurmctld longer.
	Whole bool
}

// TestRolling: rolling updates of a StatefulSet whose nodes pending jobs and reservations name.
func TestRolling(t *testing.T) {
	size, limit := rolling{Nodes: 3, Together: 2, Rolls: 1, Jobs: 9, Reservations: 3}, native.Whole
	if os.Getenv("SLURMLET_E2E_FULL") != "" {
		size, limit = rolling{Nodes: 8, Together: 2, Rolls: 10, Jobs: 200, Reservations: 20, Whole: true}, 40*time.Minute
	}
	native.Either(t, func(t *testing.T, g native.Given) { native.Play(t, limit, settings{Given: g, Rolling: &size}) })
}

// rollingWorld is a cluster whose controller tells of one StatefulSet.
type rollingWorld struct {
	*namedWorld
	size   rolling
	volume *native.Volume
	files  map[string][]byte
	edits  int
	pods   int
	// pending are the jobs as they were submitted, with the nodes that they name, and kept the reservations with theirs.
	pending, kept string
	forms         map[string]form
}

// rollingConf has a partition whose jobs wait, and a scheduler that looks often.
const rollingConf = slurmConf + "PartitionName=off Nodes=ALL State=DOWN\nSchedulerParameters=sched_interval=1,bf_interval=1\n"

func playRolling(s settings) (err error) {
	c, err := native.NewCluster(native.Options{Lower: s.Root, Slurmlet: s.Slurmlet, Nodes: s.Rolling.Nodes, Names: "n-", SlurmConf: rollingConf})
	if err != nil {
		return err
	}
	w := &rollingWorld{namedWorld: &namedWorld{world: &world{Cluster: c}}, size: *s.Rolling, forms: map[string]form{}}
	defer func() {
		if err != nil {
			w.explain()
		}
		err = errors.Join(err, w.Close())
	}()
	if err := w.begin(); err != nil {
		return err
	}
	for _, c := range []struct {
		name string
		long bool
		play func() error
	}{
		{"a pod is made again, and a job names its node meanwhile", false, w.again},
		{"the StatefulSet is scaled in for good", true, w.scaledIn},
		{"jobs and reservations name all nodes", false, w.name},
		{"rolling updates, and edits between them", false, w.roll},
		{"each job begins on nodes that it may have", true, w.release},
	} {
		if c.long && !w.size.Whole {
			continue
		}
		began := time.Now()
		if err := c.play(); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Printf("%s: %.2f s\n", c.name, time.Since(began).Seconds())
	}
	return nil
}

func (w *rollingWorld) begin() (err error) {
	if w.controller, err = fakecontroller.Start(nil); err != nil {
		return err
	}
	if w.files, err = w.Sources(); err != nil {
		return err
	}
	if w.volume, err = w.NewVolume(volume, w.files); err != nil {
		return err
	}
	environ, err := w.controller.Admit(w.Root, fakecontroller.Slurmctld)
	if err != nil {
		return err
	}
	if err := w.ControlBySlurmlet(volume, w.heard, append(environ, "SLURMLET_REPORT_INTERVAL=1s", "SLURMLET_LOG_LEVEL=debug")...); err != nil {
		return err
	}
	w.has(w.size.Nodes)
	return w.start(w.Nodes)
}

// has is how many pods the StatefulSet is to have.
func (w *rollingWorld) has(replicas int) {
	w.controller.StatefulSets(wire.StatefulSet{Name: "n", First: 1, Replicas: replicas})
}

// start makes pods, and waits until all are Ready.
func (w *rollingWorld) start(pods []*native.Node) error {
	for _, n := range pods {
		if err := w.Start(n); err != nil {
			return err
		}
	}
	for _, n := range pods {
		if err := n.AwaitReady(limit); err != nil {
			return fmt.Errorf("%w: %s", err, strings.Join(n.Log(), "\n"))
		}
		w.pods++
		if err := w.live(n, w.uid(n), true); err != nil {
			return err
		}
	}
	return nil
}

// uid is that of a node's last pod.
func (w *rollingWorld) uid(n *native.Node) string { return fmt.Sprintf("uid-%s-%p", n.Name, n) }

// end deletes pods, as Kubernetes does, and waits until they have ended.
func (w *rollingWorld) end(pods []*native.Node) error {
	for _, n := range pods {
		if err := w.controller.Tell(wire.Peer{Name: n.Name, UID: w.uid(n), Role: "slurmd", Ending: true}, n.IP); err != nil {
			return err
		}
		if err := n.Terminate(); err != nil {
			return err
		}
	}
	for _, n := range pods {
		if err := w.until(n.Name+" does not end", n.Ended); err != nil {
			return err
		}
		if !n.EndedWell() {
			return fmt.Errorf("%s exited with %d: %s", n.Name, n.Status, strings.Join(n.Log(), "\n"))
		}
		w.controller.Gone(w.uid(n), false)
	}
	return nil
}

// again: a job may name the node between its two pods, and begins there.
func (w *rollingWorld) again() error {
	first := w.Nodes[0]
	if err := w.end(w.Nodes[:1]); err != nil {
		return err
	}
	if record := w.record(first); record != "DOWN+DRAIN+DYNAMIC_NORM slurmlet: the pod is gone, and StatefulSet n makes it again" {
		return fmt.Errorf("the record of %s is %q", first.Name, record)
	}
	id, err := w.slurm("sbatch", "--parsable", "--mem=10", "--output=/dev/null", "--wrap=sleep 600", "-w", first.Name)
	if err != nil {
		return err
	}
	if err := w.until(first.Name+" is not told to be absent", func() bool { return w.controller.State(first.Name) == wire.Absent }); err != nil {
		return err
	}
	w.Nodes[0] = replacement(first)
	if err := w.start(w.Nodes[:1]); err != nil {
		return err
	}
	if err := w.runsOn(id, first.Name); err != nil {
		return err
	}
	_, err = w.slurm("scancel", id)
	return err
}

// scaledIn: the record of a pod that is not made again goes with it, and another one when the set is made smaller later.
func (w *rollingWorld) scaledIn() error {
	last := w.size.Nodes - 1
	w.has(last)
	if err := w.end(w.Nodes[last:]); err != nil {
		return err
	}
	if record := w.record(w.Nodes[last]); record != "" {
		return fmt.Errorf("the record of %s is %q", w.Nodes[last].Name, record)
	}
	if err := w.end(w.Nodes[last-1 : last]); err != nil {
		return err
	}
	if record := w.record(w.Nodes[last-1]); record == "" {
		return fmt.Errorf("there is no record of %s", w.Nodes[last-1].Name)
	}
	w.has(last - 1)
	if err := w.until("a record stays whose pod is not made again", func() bool { return w.record(w.Nodes[last-1]) == "" }); err != nil {
		return err
	}
	w.has(w.size.Nodes)
	for i := last - 1; i <= last; i++ {
		w.Nodes[i] = replacement(w.Nodes[i])
	}
	return w.start(w.Nodes[last-1:])
}

func (w *rollingWorld) roll() error {
	for i := range w.size.Rolls {
		began := time.Now()
		for last := len(w.Nodes); last > 0; last -= min(last, w.size.Together) { // as the StatefulSet's controller does
			pods := w.Nodes[max(0, last-w.size.Together):last]
			if err := w.end(pods); err != nil {
				return err
			}
			for i, n := range pods {
				pods[i] = replacement(n)
			}
			if err := w.start(pods); err != nil {
				return err
			}
		}
		rolled := time.Since(began)
		if err := w.whole("a rolling update"); err != nil {
			return err
		}
		if err := w.edit(); err != nil {
			return err
		}
		if err := w.whole("an edit"); err != nil {
			return err
		}
		fmt.Printf("roll %d: %.2f s, and an edit: %.2f s\n", i+1, rolled.Seconds(), time.Since(began).Seconds()-rolled.Seconds())
	}
	return nil
}

// edit changes slurm.conf, and waits until that is live.
func (w *rollingWorld) edit() error {
	before, err := w.AgentStatus()
	if err != nil {
		return err
	}
	w.edits++
	next := maps.Clone(w.files)
	next["slurm.conf"] = fmt.Appendf(nil, "%sPrologEpilogTimeout=%d\n", w.files["slurm.conf"], 100+w.edits)
	if _, err := w.volume.Swap(next); err != nil {
		return err
	}
	return w.until("the edit is not live", func() bool {
		s, err := w.AgentStatus()
		return err == nil && s.Conf.Doing == "" && s.Conf.Good != before.Conf.Good && s.Conf.Live == s.Conf.Good
	})
}
