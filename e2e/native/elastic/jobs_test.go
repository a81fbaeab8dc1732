//go:build e2e

package elastic

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// jobsConf leaves to slurmlet what power saving needs, but for the time after which an idle node ends.
const jobsConf = `SlurmctldParameters=enable_configless
NodeSet=c Feature=c
NodeSet=g Feature=g
PartitionName=c Nodes=c SuspendTime=4
PartitionName=g Nodes=g SuspendTime=4
`

var jobsSets = map[string]string{
	"c": `{"nodes":"c-[0-3]","cpuLimit":"1","memoryLimit":"364Mi","storageLimit":"1Gi","features":["c"]}`,
	"g": `{"nodes":"g-0","cpuLimit":"1","memoryLimit":"364Mi","storageLimit":"1Gi","features":["g"],"weight":"10"}`,
}

var jobsSteps = []step{
	{"a static node", (*world).static},
	{"srun -N4 from zero, and back to zero", (*world).fromZero},
	{"an array of 50", (*world).array},
	{"a constraint", (*world).constraint},
	{"a reservation", (*world).reservation},
	{"--exclusive", (*world).exclusive},
	{"a heterogeneous job over an elastic and a static set", (*world).heterogeneous},
	{"rounds", (*world).rounds},
}

// atOnce is how soon a job from zero must run. It takes some seconds. Slurm alone needs half a minute, because it looks
// that rarely whether a job's nodes are up.
const atOnce = 30 * time.Second

func (w *world) static() error {
	environ, err := w.controller.admit("static")
	if err != nil {
		return err
	}
	n := &native.Node{Name: "s-0", IP: net.IPv4(10, 88, 9, 1), Ready: make(chan struct{}), Waiting: make(chan struct{}), Exited: make(chan struct{})}
	if err := errors.Join(w.controller.tell(n.Name, "static", "slurmd", n.IP, false), w.Start(n, environ...)); err != nil {
		return err
	}
	return n.AwaitReady(limit)
}

// zero waits until there is no pod, and each record waits for a job.
func (w *world) zero() error {
	if err := w.untilPods(); err != nil {
		return err
	}
	nodes, err := w.nodes()
	if err != nil {
		return err
	}
	var elastic []string
	for name, n := range nodes {
		if n.is("CLOUD") {
			elastic = append(elastic, name)
		}
	}
	slices.Sort(elastic)
	if want := append(slices.Clone(allOfC), "g-0"); !slices.Equal(elastic, want) {
		return fmt.Errorf("there are records of %v, not of %v", elastic, want)
	}
	return w.untilNodes("a node does not wait for a job", off, elastic...)
}

// printed runs srun, and compares the lines that it prints, sorted, with those wanted.
func (w *world) printed(want []string, args ...string) error {
	out, err := w.slurm("timeout", append([]string{"60", "srun", "--mem=10", "--chdir=/"}, args...)...)
	if err != nil {
		return err
	}
	var got []string
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "srun:") {
			got = append(got, line)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		return fmt.Errorf("srun %s prints %q, not %q", strings.Join(args, " "), got, want)
	}
	return nil
}

func (w *world) fromZero() error {
	if err := w.zero(); err != nil {
		return err
	}
	began := time.Now()
	if err := w.printed(allOfC, "-p", "c", "-N4", "hostname"); err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Printf("%s, Slurm %s: srun -N4 from zero has printed after %.2f s\n", w.settings.Story, w.settings.Version, took.Seconds())
	if took > atOnce {
		return fmt.Errorf("srun -N4 took %v", took)
	}
	ended := time.Now()
	if err := w.zero(); err != nil {
		return err
	}
	fmt.Printf("%s, Slurm %s: zero again after %.2f s, 4 s of them idle\n", w.settings.Story, w.settings.Version, time.Since(ended).Seconds())
	return nil
}

func (w *world) array() error {
	id, err := w.slurm("sbatch", "--parsable", "-p", "c", "--mem=10", "--array=1-50", "--output=/dev/null", "--chdir=/", "--wrap=true")
	if err != nil {
		return err
	}
	count := func() (completed int, other string, err error) {
		out, err := w.slurm("squeue", "--noheader", "--array", "--states=all", "--jobs="+id, "--format=%T")
		for state := range strings.Lines(out) {
			if state = strings.TrimSpace(state); state == "COMPLETED" {
				completed++
			} else {
				other = state
			}
		}
		return completed, other, err
	}
	err = w.until("the array does not complete", func() bool {
		n, _, err := count()
		return err == nil && n == 50
	})
	if err != nil {
		n, other, _ := count()
		return fmt.Errorf("%w: %d have completed, another is %s", err, n, other)
	}
	return nil
}

func (w *world) constraint() error {
	return w.printed([]string{"g-0"}, "-p", "all", "-C", "g", "hostname")
}

func (w *world) reservation() error {
	if _, err := w.slurm("scontrol", "create", "reservation", "reservationname=r", "starttime=now", "duration=10", "users=root", "nodes=c-1"); err != nil {
		return err
	}
	err := w.printed([]string{"c-1"}, "-p", "c", "--reservation=r", "hostname")
	_, deleted := w.slurm("scontrol", "delete", "reservation=r")
	return errors.Join(err, deleted)
}

func (w *world) exclusive() error {
	return w.printed(allOfC[:2], "-p", "c", "-w", "c-[0-1]", "-N2", "--exclusive", "hostname")
}

func (w *world) heterogeneous() error {
	return w.printed([]string{"c-2", "c-3", "s-0"}, "-p", "c", "-w", "c-[2-3]", "-N2", "hostname", ":", "-p", "all", "-w", "s-0", "hostname")
}

// rounds: nothing is left of a round.
func (w *world) rounds() error {
	count := 1
	if full() {
		count = 20
	}
	for range count {
		if err := w.zero(); err != nil {
			return err
		}
		if err := w.printed(allOfC, "-p", "c", "-N4", "hostname"); err != nil {
			return err
		}
	}
	return w.zero()
}
