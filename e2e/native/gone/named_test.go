//go:build e2e

package gone

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// TestNamed: nodes that pending jobs and reservations name lose their pods.
func TestNamed(t *testing.T) {
	native.Either(t, func(t *testing.T, g native.Given) { native.Play(t, native.Whole, settings{Given: g, Named: true}) })
}

// namedWorld is a cluster without a controller. slurmctld's table has holes, so that a new record gets a low number.
type namedWorld struct {
	*world
	// first, second and third are named, hole and filler are not. direct asks slurmctld itself.
	hole, first, second, third, filler, direct *native.Node
	// jobs are those that must not be lost, and waiting is the one that waits for first alone.
	jobs    []string
	waiting string
}

const mostNamedNodes = 6

func playNamed(s settings) (err error) {
	c, err := native.NewCluster(native.Options{Lower: s.Root, Slurmlet: s.Slurmlet, Nodes: mostNamedNodes, SlurmConf: slurmConf + slowEpilog})
	if err != nil {
		return err
	}
	w := &namedWorld{world: &world{Cluster: c}}
	w.hole, w.first, w.second, w.third, w.filler, w.direct = c.Nodes[0], c.Nodes[1], c.Nodes[2], c.Nodes[3], c.Nodes[4], c.Nodes[5]
	defer func() {
		if err != nil {
			w.explain()
		}
		err = errors.Join(err, w.Close())
	}()
	if err := os.WriteFile(filepath.Join(c.Root, "srv/epilog"), []byte(epilog), 0o755); err != nil {
		return err
	}
	files, err := c.Sources()
	if err != nil {
		return err
	}
	if _, err := c.NewVolume(volume, files); err != nil {
		return err
	}
	if err := w.ControlBySlurmlet(volume, w.heard, "SLURMLET_LOG_LEVEL=debug"); err != nil {
		return err
	}
	for _, n := range []*native.Node{w.hole, w.first, w.second, w.third} { // one after the other: their records have these numbers
		if err := w.up(n); err != nil {
			return err
		}
	}
	for _, c := range []struct {
		name string
		play func() error
	}{
		{"a record that nobody names goes", func() error { return w.goes(w.hole) }},
		{"jobs and reservations name nodes", w.name},
		{"named records stay", w.stay},
		{"a new node gets no job of another", w.fill},
		{"a reconfigure and a restart lose no job", w.reconfigured},
		{"the next pod has the jobs", w.returns},
		{"the next pod has another size and number", w.resized},
		{"an agent that asks slurmctld itself keeps a named record", w.directly},
		{"records go that nobody names any more", w.released},
		{"a record stays while a job of its node ends on another", w.endsElsewhere},
	} {
		began := time.Now()
		if err := c.play(); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Printf("%s: %.2f s\n", c.name, time.Since(began).Seconds())
	}
	return nil
}

func (w *namedWorld) up(n *native.Node, environ ...string) error {
	if err := w.Start(n, environ...); err != nil {
		return err
	}
	if err := n.AwaitReady(limit); err != nil {
		return fmt.Errorf("%w: %s", err, strings.Join(n.Log(), "\n"))
	}
	return nil
}

// down deletes a pod.
func (w *namedWorld) down(n *native.Node) error {
	if err := n.Terminate(); err != nil {
		return err
	}
	if err := w.until(n.Name+" does not end", n.Ended); err != nil {
		return err
	}
	if !n.EndedWell() {
		return fmt.Errorf("%s exited with %d: %s", n.Name, n.Status, strings.Join(n.Log(), "\n"))
	}
	return nil
}

func (w *namedWorld) goes(n *native.Node) error {
	if err := w.down(n); err != nil {
		return err
	}
	if record := w.record(n); record != "" {
		return fmt.Errorf("the record of %s is %s", n.Name, record)
	}
	return nil
}

// stays is a pod that is deleted, and whose record says why it stays.
func (w *namedWorld) stays(n *native.Node) error {
	if err := w.down(n); err != nil {
		return err
	}
	if record := w.record(n); !strings.HasPrefix(record, "DOWN+DRAIN+DYNAMIC_NORM") || !strings.Contains(record, "slurmlet: the pod is gone, and ") {
		return fmt.Errorf("the record of %s is %q", n.Name, record)
	}
	return nil
}

func (w *namedWorld) submitAll(all [][]string) error {
	for _, args := range all {
		id, err := w.slurm("sbatch", append([]string{"--parsable", "--mem=10", "--output=/dev/null", "--wrap=sleep 600"}, args...)...)
		if err != nil {
			return err
		}
		w.jobs = append(w.jobs, id)
	}
	return nil
}

func (w *namedWorld) name() error {
	for _, r := range [][]string{
		{"reservationname=later", "nodes=n2,n3", "starttime=now+1day"},
		{"reservationname=last", "nodes=n2", "starttime=now+2days"},
		{"reservationname=maintenance", "nodes=n3,n4", "starttime=now+3days", "flags=maint"},
		{"reservationname=begins", "nodes=n3", "starttime=now", "flags=ignore_jobs"}, // RESERVED is shown seconds later
	} {
		if _, err := w.slurm("scontrol", append([]string{"create", "reservation", "users=root", "duration=60"}, r...)...); err != nil {
			return err
		}
	}
	if err := w.submitAll([][]string{
		{"-H", "-w", "n2"},
		{"-H", "-N2", "-w", "n[2-3]"},
		{"-H", "-w", "n2", "--array=1-3"},
		{"-H", "-x", "n2"},
		{"--begin=now+1hour", "-w", "n2"},
		{"--reservation=last", "-w", "n2"},
		{"-H", "-w", "n4"},
	}); err != nil {
		return err
	}
	return w.submitAll([][]string{{"-d", "afterok:" + w.jobs[0], "-w", "n2"}})
}

func (w *namedWorld) stay() error {
	for _, n := range []*native.Node{w.first, w.second, w.third} {
		if err := w.stays(n); err != nil {
			return err
		}
	}
	id, err := w.slurm("sbatch", "--parsable", "--mem=10", "--time=5", "--output=/dev/null", "--wrap=sleep 600", "-w", "n2")
	w.waiting = id
	return err
}

// fill has a node register for the first time, and the scheduler find a job for it.
func (w *namedWorld) fill() error {
	if err := w.up(w.filler); err != nil {
		return err
	}
	id, err := w.slurm("sbatch", "--parsable", "--mem=10", "--time=5", "--output=/dev/null", "--wrap=true")
	if err != nil {
		return err
	}
	if err := w.until("job "+id+" does not run", func() bool { return w.job(id) == "COMPLETED" }); err != nil {
		return err
	}
	if state := w.job(w.waiting); state != "PENDING" {
		return fmt.Errorf("job %s, which waits for %s, is %s", w.waiting, w.first.Name, state)
	}
	return w.goes(w.filler) // there is a hole again
}

// whole: no job and no reservation is lost.
func (w *namedWorld) whole() error {
	for _, id := range append([]string{w.waiting}, w.jobs...) {
		if state := w.job(id); state != "PENDING" {
			return fmt.Errorf("job %s is %s", id, state)
		}
	}
	all, err := w.slurm("scontrol", "--oneliner", "show", "reservation")
	if err != nil {
		return err
	}
	for name, nodes := range map[string]string{"later": "n[2-3]", "last": "n2", "maintenance": "n[3-4]", "begins": "n3"} {
		if !slices.ContainsFunc(strings.Split(all, "\n"), func(line string) bool {
			return strings.HasPrefix(line, "ReservationName="+name+" ") && strings.Contains(line, " Nodes="+nodes+" ")
		}) {
			return fmt.Errorf("reservation %s has not %s: %s", name, nodes, all)
		}
	}
	return nil
}

func (w *namedWorld) reconfigured() error {
	if _, err := w.slurm("scontrol", "reconfigure"); err != nil {
		return err
	}
	if err := w.until("slurmctld does not answer", func() bool { _, err := w.slurm("scontrol", "ping"); return err == nil }); err != nil {
		return err
	}
	return w.whole()
}

// runsOn waits until a job runs on nodes.
func (w *namedWorld) runsOn(id, nodes string) error {
	return w.until("job "+id+" does not run on "+nodes, func() bool {
		out, err := w.slurm("squeue", "--noheader", "--states=RUNNING", "--jobs="+id, "--format=%N")
		return err == nil && out == nodes
	})
}

func (w *namedWorld) returns() error {
	if err := w.up(replacement(w.first)); err != nil {
		return err
	}
	if err := w.runsOn(w.waiting, "n2"); err != nil {
		return err
	}
	_, err := w.slurm("scancel", w.waiting)
	w.waiting = w.jobs[0]
	return err
}

// resized: the record of the next pod is another one, with the number of the hole.
func (w *namedWorld) resized() error {
	big := replacement(w.second)
	if _, err := w.slurm("scontrol", "delete", "reservationname=begins"); err != nil { // slurmctld deletes no record of a reservation that has begun
		return err
	}
	if err := w.up(big, "SLURMLET_CPU_LIMIT=2000"); err != nil {
		return err
	}
	out, err := w.slurm("scontrol", "--oneliner", "show", "node", big.Name)
	if err != nil {
		return err
	}
	if !strings.Contains(out, " CPUTot=2 ") || strings.Contains(out, "DRAIN") {
		return fmt.Errorf("the record is %s", out)
	}
	if _, err := w.slurm("scontrol", "create", "reservation", "reservationname=begins", "users=root", "duration=60", "nodes=n3", "starttime=now+5days"); err != nil {
		return err
	}
	if err := w.whole(); err != nil {
		return err
	}
	// A new node gets the number that the record had.
	w.filler = replacement(w.filler)
	if err := w.up(w.filler); err != nil {
		return err
	}
	both := w.jobs[1]
	if _, err := w.slurm("scontrol", "update", "jobid="+both, "timelimit=5"); err != nil {
		return err
	}
	if _, err := w.slurm("scontrol", "release", both); err != nil {
		return err
	}
	if err := w.runsOn(both, "n[2-3]"); err != nil {
		return err
	}
	w.jobs = slices.Delete(w.jobs, 1, 2)
	_, err = w.slurm("scancel", both)
	return err
}

func (w *namedWorld) directly() error {
	if err := w.up(w.direct, "SLURMLET_AGENT_PORT=0"); err != nil {
		return err
	}
	id, err := w.slurm("sbatch", "--parsable", "--mem=10", "--output=/dev/null", "--wrap=true", "-H", "-x", w.direct.Name)
	if err != nil {
		return err
	}
	w.jobs = append(w.jobs, id)
	return w.stays(w.direct)
}

// released: third's pod never comes back, and its job is cancelled.
func (w *namedWorld) released() error {
	if err := w.whole(); err != nil {
		return err
	}
	if _, err := w.slurm("scancel", append([]string{"--full"}, w.jobs...)...); err != nil {
		return err
	}
	if _, err := w.slurm("scontrol", "delete", "reservationname=maintenance"); err != nil {
		return err
	}
	return w.until("the records of nodes stay that nobody names", func() bool { return w.record(w.third) == "" })
}
