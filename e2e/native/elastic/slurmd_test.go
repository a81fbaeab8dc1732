//go:build e2e

package elastic

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// TestSlurmd has slurmd's agent in pods of CLOUD records, which nobody makes anew.
func TestSlurmd(t *testing.T) { either(t, slurmdStory) }

const (
	slurmdStory = "slurmd"
	slurmdConf  = baseConf + `SlurmctldParameters=enable_configless,power_save_interval=0
ResumeProgram=/bin/true
SuspendProgram=/bin/true
SuspendTime=900000000
ResumeTimeout=300
SuspendTimeout=300
SuspendRate=0
ResumeRate=0
SchedulerParameters=sched_interval=5
`
	slurmdNodes = 24
	// short is a grace period in which jobs have some 40 s, and slurmctld's commands time on a loaded machine.
	short = "SLURMLET_GRACE_PERIOD=80s"
)

// pool is a cluster whose pods the cases themselves start and end.
type pool struct {
	*native.Cluster
	settings settings

	lock sync.Mutex
	used int
	log  []string
}

// ends is a case.
type ends struct {
	*pool
	gate *native.Gate
	// down and up are slurmctld's.
	down, up *seat
}

func playSlurmd(s settings) (err error) {
	c, err := native.NewCluster(native.Options{Lower: s.Root, Slurmlet: s.Slurmlet, Nodes: slurmdNodes, SlurmConf: slurmdConf})
	if err != nil {
		return err
	}
	w := &pool{Cluster: c, settings: s}
	defer func() {
		if err != nil {
			w.explain()
		}
		err = errors.Join(err, w.Close())
	}()
	files, err := c.Sources()
	if err != nil {
		return err
	}
	if _, err := c.NewVolume(volume, files); err != nil {
		return err
	}
	if err := w.control(); err != nil {
		return err
	}
	create := fmt.Sprintf("NodeName=n[1-%d]", slurmdNodes-1)
	if _, err := w.slurm("scontrol", "create", create, "CPUs=1", "RealMemory=300", "TmpDisk=100", "State=CLOUD", "Features=cpu", "Weight=10"); err != nil {
		return err
	}
	for _, cases := range endings {
		if err := w.play(cases); err != nil {
			return err
		}
		if _, err := w.slurm("scancel", "--user=root"); err != nil {
			return err
		}
	}
	return nil
}

// ending is how a pod ends.
type ending struct {
	name string
	play func(*ends) error
}

// play plays cases beside each other. Where slurmctld is away for one, it is for all.
func (w *pool) play(cases []ending) error {
	down, up := newMeeting(len(cases), w.stop), newMeeting(len(cases), w.control)
	var names []string
	for _, one := range cases {
		names = append(names, one.name)
	}
	return beside(w.settings, names, func(i int) error {
		gate, err := w.NewGateOf(strconv.Itoa(i))
		if err != nil {
			return err
		}
		one := &ends{pool: w, gate: gate, down: down.seat(), up: up.seat()}
		defer one.up.leave()
		defer one.down.leave()
		err = cases[i].play(one)
		if opened := gate.Open(); opened != nil && !errors.Is(opened, os.ErrClosed) {
			err = errors.Join(err, opened)
		}
		return err
	})
}

// endings are played one list after the other, because some count what all ask slurmctld, and some have it end.
var endings = [][]ending{
	{
		{"a pod takes its record, and runs a job", (*ends).comesUp},
		{"SIGTERM on an idle node", (*ends).idle},
		{"SIGTERM with a job", (*ends).busy},
		{"SIGTERM, and the job is cancelled", (*ends).cancelled},
		{"slurmd is killed, and SIGTERM comes", (*ends).killed},
		{"out of time", (*ends).outOfTime},
		{"SIGTERM before slurmd has registered", (*ends).early},
		{"an administrator has drained it", (*ends).drained},
		{"a record that has more than the pod", (*ends).larger},
	},
	{{"five at once ask for no other node, and are one change", (*ends).together}},
	{{"SIGTERM on a node that slurmctld has suspended", (*ends).suspended}},
	{{"SIGTERM, and slurmctld reconfigures", (*ends).reconfigured}},
	{
		{"SIGTERM while slurmctld is away", (*ends).away},
		{"SIGTERM, and slurmctld starts anew", (*ends).restarted},
		{"out of time while slurmctld is away", (*ends).outOfTimeAway},
	},
}

func (w *pool) control() error {
	return w.ControlBySlurmlet(volume, func(line string) {
		w.lock.Lock()
		defer w.lock.Unlock()
		w.log = append(w.log, line)
	})
}

// stop ends slurmctld.
func (w *pool) stop() error {
	if err := w.Slurmctld.Process.Signal(unix.SIGTERM); err != nil {
		return fmt.Errorf("cannot stop slurmctld: %w", err)
	}
	_ = w.Slurmctld.Wait() // its status says nothing here
	return nil
}

func (w *pool) explain() {
	for _, ask := range []string{"scontrol show nodes --oneliner", "squeue --states=all"} {
		words := strings.Fields(ask)
		out, err := w.slurm(words[0], words[1:]...)
		fmt.Println(out, err)
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, n := range w.Nodes[:w.used] {
		said := n.Log()
		fmt.Printf("--- %s\n%s\n", n.Name, strings.Join(said[max(0, len(said)-40):], "\n"))
	}
	fmt.Println(strings.Join(w.log[max(0, len(w.log)-100):], "\n"))
}

func (w *pool) slurm(program string, args ...string) (string, error) {
	out, err := w.Command("/usr/bin/"+program, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// field is one of a record of Slurm's, as scontrol prints it in one line.
func (w *ends) field(kind, name, key string) string {
	out, err := w.slurm("scontrol", "--oneliner", "show", kind, name)
	if err != nil {
		return err.Error()
	}
	_, value, _ := strings.Cut(" "+out, " "+key+"=")
	value, _, _ = strings.Cut(value, " ")
	return value
}

func (w *ends) state(n *native.Node) string { return w.field("node", n.Name, "State") }
func (w *ends) job(id string) string        { return w.field("job", id, "JobState") }

// untilNode waits until a record has all of these flags.
func (w *ends) untilNode(n *native.Node, flags ...string) error {
	last := ""
	err := native.Within(limit, n.Name+" is not "+strings.Join(flags, "+"), func() bool {
		last = w.state(n)
		all := strings.Split(last, "+")
		return !slices.ContainsFunc(flags, func(f string) bool { return !slices.Contains(all, f) })
	})
	if err != nil {
		err = fmt.Errorf("%w: it is %s", err, last)
	}
	return err
}

func (w *ends) untilJob(id, state string) error {
	if err := native.Within(limit, fmt.Sprintf("job %s is not %s", id, state), func() bool { return w.job(id) == state }); err != nil {
		return fmt.Errorf("%w: it is %s", err, w.job(id))
	}
	return nil
}

// unused is a node that no case has had.
func (w *pool) unused() *native.Node {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.used++
	return w.Nodes[w.used-1]
}

// next is a node of whose pod slurmctld waits.
func (w *ends) next() (*native.Node, error) {
	n := w.unused()
	if _, err := w.slurm("scontrol", "update", "nodename="+n.Name, "state=power_up"); err != nil {
		return nil, err
	}
	return n, w.untilNode(n, "POWERING_UP")
}

func (w *ends) start(n *native.Node, environ ...string) error {
	return w.Start(n, append([]string{"SLURMLET_ELASTIC=yes", "SLURMLET_STORAGE_LIMIT=100Mi"}, environ...)...)
}

// ready is a node whose pod is Ready.
func (w *ends) ready(environ ...string) (*native.Node, error) {
	n, err := w.next()
	if err != nil {
		return nil, err
	}
	if err := w.start(n, environ...); err != nil {
		return nil, err
	}
	if err := n.AwaitReady(limit); err != nil {
		return nil, err
	}
	if state := w.state(n); !strings.Contains(state, "CLOUD") || strings.Contains(state, "POWER") {
		return nil, fmt.Errorf("%s is Ready, and its record %s", n.Name, state)
	}
	return n, nil
}

// working is such a node with a job that runs until the gate opens.
func (w *ends) working(environ ...string) (n *native.Node, job string, err error) {
	if n, err = w.ready(environ...); err != nil {
		return nil, "", err
	}
	if job, err = w.gate.Submit(n.Name); err != nil {
		return nil, "", err
	}
	if err := w.untilJob(job, "RUNNING"); err != nil {
		return nil, "", err
	}
	return n, job, native.Within(limit, "the script of job "+job+" does not run", func() bool { return len(processes(n, "flock")) > 0 })
}

func (w *ends) exits(n *native.Node) error {
	select {
	case <-n.Exited:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("%s has not exited; its record is %s", n.Name, w.state(n))
	}
}

// left: a pod has exited with that status, and its record is as it must be.
func (w *ends) left(n *native.Node, status int, flags ...string) error {
	if err := w.exits(n); err != nil {
		return err
	}
	if n.Status != status && (status != 0 || !n.EndedWell()) {
		return fmt.Errorf("%s exited with %d, not %d", n.Name, n.Status, status)
	}
	return w.untilNode(n, append(flags, "CLOUD")...)
}

// suspends: a pod has exited, and slurmctld had suspended its node before.
func (w *ends) suspends(n *native.Node) error { return w.suspendsWith(n, 0) }

func (w *ends) suspendsWith(n *native.Node, status int) error {
	if err := w.left(n, status, "POWERING_DOWN"); err != nil {
		return err
	}
	if state := w.state(n); strings.Contains(state, "DRAIN") {
		return fmt.Errorf("%s is suspended, and %s", n.Name, state)
	}
	return nil
}

// waits for the job after SIGTERM.
func (w *ends) waits(n *native.Node) error {
	if err := n.Terminate(); err != nil {
		return err
	}
	select {
	case <-n.Waiting:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("%s does not wait for its job", n.Name)
	}
}

// completes: a job has run once, to its end.
func (w *ends) completes(job string) error {
	if err := w.untilJob(job, "COMPLETED"); err != nil {
		return err
	}
	return w.restarts(job, 0)
}

func (w *ends) restarts(job string, want int) error {
	if have := w.field("job", job, "Restarts"); have != strconv.Itoa(want) {
		return fmt.Errorf("job %s was started anew %s times, not %d", job, have, want)
	}
	return nil
}

// processes are those of a program on a node.
func processes(n *native.Node, program string) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range names {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		comm, _ := os.ReadFile(name)
		ours, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", n.PID()))
		theirs, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		if strings.TrimSpace(string(comm)) == program && ours == theirs {
			pids = append(pids, pid)
		}
	}
	return pids
}
