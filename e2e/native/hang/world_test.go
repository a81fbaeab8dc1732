//go:build e2e

package hang

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// grace is the pod's. Jobs are requeued 22 s, and the node is set DOWN 33 s after SIGTERM: a loaded machine needs seconds for
// what an idle one does in tenths, and a daemon that hangs has a third of the first.
const grace = 45 * time.Second

// dead is a directory of a file system that never answers, in the node as well.
const dead = "srv/dead"

const slurmConf = `SlurmctldParameters=enable_configless
MaxNodeCount=10
TreeWidth=65533
MinJobAge=3600
`

// world is a cluster of one node, on which a job runs.
type world struct {
	*native.Cluster
	node *native.Node
	job  string
	fuse *fuse
	said []string
}

func (w *world) control() error {
	return w.Control(func(line string) { w.said = append(w.said, line) })
}

// play starts all that a case needs, plays it, and looks at what has become of the job.
func (w *world) play(c testCase) (err error) {
	if w.fuse, err = mountFuse(filepath.Join(w.Root, dead)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.fuse.close(filepath.Join(w.Root, dead))) }()
	if err := errors.Join(w.configure(c.conf), w.control(), w.Start(w.node, "SLURMLET_GRACE_PERIOD="+grace.String())); err != nil {
		return err
	}
	if err := w.wait("Ready", func() bool { return closed(w.node.Ready) }); err != nil {
		return err
	}
	if w.job, err = w.submit(c.script); err != nil {
		return err
	}
	if err := w.wait("the job runs", func() bool { return w.jobIs("RUNNING") && len(w.pids("sleep")) > 0 }); err != nil {
		return err
	}
	if err := c.play(w); err != nil {
		return err
	}
	return w.check(c.exit, c.state)
}

func (w *world) configure(more string) error {
	path := filepath.Join(w.Root, "etc/slurm/slurm.conf")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append(text, more...), 0o644)
	}
	return err
}

// check: the agent ends in time, and the job as it should.
func (w *world) check(exit int, state string) error {
	if err := w.wait("the agent has ended", func() bool { return closed(w.node.Exited) || w.agentsExit() != "" }); err != nil {
		return err
	}
	if got := w.agentsExit(); got != strconv.Itoa(exit) {
		return fmt.Errorf("the agent's exit status is %s, want %d", got, exit)
	}
	if exit == 0 || exit == 137 {
		out, err := w.Command("/usr/bin/scontrol", "--oneliner", "show", "node", w.node.Name).Output()
		if err == nil && !strings.Contains(string(out), "Reason=slurmlet: the pod is gone, and ") { // a requeued job names it
			return fmt.Errorf("the record is still there: %s", out)
		}
	}
	return w.wait("the job is "+state, func() bool { return w.jobIs(state) })
}

// agentsExit is the status that the agent has told, empty as long as it lives. A slurmd
// that cannot be killed keeps the pod from its end.
func (w *world) agentsExit() string {
	for _, line := range w.node.Log() {
		if _, status, found := strings.Cut(line, `"status":`); found && strings.Contains(line, `"msg":"exit"`) {
			return strings.TrimRight(status, "}")
		}
	}
	return ""
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// submit has alice's place taken by root: nobody else is needed here.
func (w *world) submit(script string, options ...string) (string, error) {
	cmd := w.Command("/usr/bin/sbatch", append([]string{"--parsable", "--requeue", "--nodelist=" + w.node.Name, "--mem=10", "--chdir=/", "--output=/dev/null"}, options...)...)
	cmd.Stdin = strings.NewReader("#!/bin/sh\n" + script + "\n")
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

func (w *world) jobIs(state string) bool { return w.jobSays("JobState=" + state) }

func (w *world) jobSays(field string) bool {
	out, _ := w.Command("/usr/bin/scontrol", "--oneliner", "show", "job", w.job).Output() // it is asked again
	return strings.Contains(string(out), field+" ")
}

// pids are the processes with that name; a child of theirs with it is none.
func (w *world) pids(name string) (pids []int) {
	all, _ := procfs.AllProcs()
	for _, p := range all {
		if comm, err := p.Comm(); err == nil && comm == name { // one that has ended has none
			pids = append(pids, p.PID)
		}
	}
	slices.Sort(pids)
	return pids
}

func (w *world) signal(name string, signal unix.Signal) error {
	pids := w.pids(name)
	if len(pids) == 0 {
		return fmt.Errorf("there is no %s", name)
	}
	return unix.Kill(pids[0], signal)
}

func (w *world) wait(what string, met func() bool) error {
	return native.Within(2*grace, "not: "+what, met)
}

// explain tells what was said.
func (w *world) explain() {
	job, _ := w.Command("/usr/bin/scontrol", "--oneliner", "show", "job").CombinedOutput()
	fmt.Println(string(job), "requests that wait:", w.fuse.asked.Load())
	out, _ := exec.Command("ps", "-eo", "pid,ppid,stat,wchan:30,args").CombinedOutput()
	fmt.Println(string(out))
	fmt.Println(strings.Join(w.node.Log(), "\n"))
	fmt.Println(strings.Join(w.said, "\n"))
}
