//go:build e2e

package queue

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

var cases = []struct {
	name string
	play func(*world) error
}{
	{"a job begins and ends with its pods", (*world).whole},
	{"an epilog waits for pods", (*world).waits},
	{"pods outlive the epilog", (*world).outlive},
	{"slurmctld restarts", func(w *world) error { return w.restarts((*world).restartSlurmctld) }},
	{"slurmd restarts", func(w *world) error { return w.restarts((*world).restartSlurmd) }},
	{"slurmd restarts in the epilog", func(w *world) error { return w.restarts((*world).restartInEpilog) }},
	{"slurmd starts beside pods", (*world).startsBesidePods},
	{"the gateway refuses", (*world).refuses},
	{shared, (*world).sharedByLabel},
}

// whole: a job of two nodes is its user's, holds on both, and ends with the status of its pods.
func (w *world) whole() error {
	job, err := w.granted(submission("a", "--nodes=2", "--ntasks-per-node=1"), "n1", "n2")
	if err != nil {
		return err
	}
	out, err := w.Command("/usr/bin/squeue", "--noheader", "--format=%u %j %T %D").Output()
	if want := "alice pods RUNNING 2\n"; err != nil || string(out) != want {
		return fmt.Errorf("squeue shows %q (%w), not %q", out, err, want)
	}
	j := w.queue.Job(job)
	if fmt.Sprint(j.Tasks) != "[1 1]" || j.Start.IsZero() || j.User != user {
		return fmt.Errorf("the gateway reports %+v", j)
	}
	found, err := w.queue.Done(wire.Order{Kind: wire.Find, User: user, Comment: wire.GroupComment + "a "})
	if err != nil || found != job {
		return fmt.Errorf("the gateway finds job %d, not %d: %w", found, job, err)
	}
	if none, err := w.queue.Order(wire.Order{Kind: wire.Find, User: user, Comment: wire.GroupComment + "b "}); err != nil || !none.None {
		return fmt.Errorf("the gateway finds a job of another group: %+v %w", none, err)
	}
	_, text, err := w.status(w.login)
	if err != nil || !strings.Contains(text, "Gateway") || !strings.Contains(text, "1 jobs of Kubernetes' pods") {
		return fmt.Errorf("status of the gateway: %w\n%s", err, text)
	}
	if _, text, err = w.status(w.nodes[0]); err != nil || !strings.Contains(text, fmt.Sprintf("job %d since", job)) {
		return fmt.Errorf("status of a node that holds: %w\n%s", err, text)
	}
	for _, end := range []struct {
		status int
		state  string
		exit   string
	}{{0, "COMPLETED", "0:0"}, {7, "FAILED", "7:0"}} {
		for _, n := range []string{"n1", "n2"} {
			w.queue.SetPods(job, n)
		}
		if _, err := w.queue.Done(wire.Order{Kind: wire.Finish, User: user, Job: job, Status: end.status}); err != nil {
			return err
		}
		if err := w.becomes(job, end.state); err != nil {
			return err
		}
		if exit := w.exitOf(job); exit != end.exit {
			return fmt.Errorf("job %d ended with %s, not %s", job, exit, end.exit)
		}
		for _, n := range w.nodes {
			if err := w.nodeIs(n.Name, "idle"); err != nil {
				return err
			}
		}
		if end.status == 0 {
			if job, err = w.granted(submission("c", "--nodes=2", "--ntasks-per-node=1"), "n1", "n2"); err != nil {
				return err
			}
		}
	}
	return w.sites(4)
}

// sites: the site's own epilog has run so often.
func (w *world) sites(want int) error {
	text, err := os.ReadFile(filepath.Join(w.Root, "srv/site"))
	if n := strings.Count(string(text), "epilog_slurmd"); err != nil || n < want {
		return fmt.Errorf("the site's epilog has run %d times, not %d: %w\n%s", n, want, err, text)
	}
	return nil
}

// waits: slurmctld ends a job whose pods live. The node stays COMPLETING, whatever the controller does but say that they are
// gone.
func (w *world) waits() error {
	job, err := w.granted(submission("a", "--nodelist=n1"), "n1")
	if err != nil {
		return err
	}
	if _, err := w.queue.Done(wire.Order{Kind: wire.Cancel, User: user, Job: job}); err != nil {
		return err
	}
	if err := native.Within(limit, "the controller is not told that the script is to end", func() bool { return w.queue.Ending(job) > 0 }); err != nil {
		return err
	}
	if err := w.nodeIs("n1", "completing"); err != nil {
		return err
	}
	next, err := w.ordinary("n1")
	if err != nil {
		return err
	}
	waits := func() bool {
		state, _ := w.node("n1")
		return state == "completing" && w.stateOf(next) == "PENDING"
	}
	if err := stays(4*time.Second, "n1 takes a job while there are pods", waits); err != nil {
		return err
	}
	w.queue.SetSilent(true)
	asked := w.queue.Asked(job, "n1")
	if err := stays(4*time.Second, "n1 takes a job while the controller does not know", waits); err != nil {
		return err
	}
	if w.queue.Asked(job, "n1") == asked {
		return errors.New("n1 has not asked again")
	}
	w.queue.SetSilent(false)
	w.queue.SetPods(job, "n1")
	if err := native.Within(limit, "the next job does not run", func() bool { return w.stateOf(next) == "COMPLETED" }); err != nil {
		return err
	}
	return w.becomes(job, "CANCELLED")
}

// outlive: pods outlive their job for longer than an epilog may wait. The agent drains the node, and lifts that.
func (w *world) outlive() error {
	job, err := w.granted(submission("a", "--nodes=2", "--ntasks-per-node=1"), "n1", "n2")
	if err != nil {
		return err
	}
	w.queue.SetPods(job, "n2")
	if _, err := w.queue.Done(wire.Order{Kind: wire.Cancel, User: user, Job: job}); err != nil {
		return err
	}
	if err := w.nodeIs("n2", "idle"); err != nil {
		return err
	}
	if err := w.nodeIs("n1", "drained"); err != nil {
		return err
	}
	_, reason := w.node("n1")
	if want := fmt.Sprintf("%sjob %d has left pods: hpc/pod-%d-n1", reasons.ByPods, job, job); reason != want {
		return fmt.Errorf("n1 is drained for %q, not for %q", reason, want)
	}
	if _, text, err := w.status(w.nodes[0]); err != nil || !strings.Contains(text, "the node is drained until its pods are gone") {
		return fmt.Errorf("status of the node: %w\n%s", err, text)
	}
	w.queue.SetPods(job, "n1")
	if err := w.nodeIs("n1", "idle"); err != nil {
		return err
	}
	next, err := w.ordinary("n1")
	if err != nil {
		return err
	}
	return native.Within(limit, "the next job does not run", func() bool { return w.stateOf(next) == "COMPLETED" })
}

// restarts: a daemon ends and comes back while a job's epilog waits, and another job waits for the node.
func (w *world) restarts(restart func(*world) error) error {
	job, err := w.granted(submission("a", "--nodelist=n1"), "n1")
	if err != nil {
		return err
	}
	if _, err := w.queue.Done(wire.Order{Kind: wire.Cancel, User: user, Job: job}); err != nil {
		return err
	}
	if err := w.nodeIs("n1", "completing"); err != nil {
		return err
	}
	next, err := w.ordinary("n1")
	if err != nil {
		return err
	}
	if err := restart(w); err != nil {
		return err
	}
	if err := stays(40*time.Second, "n1 takes a job while there are pods", func() bool { return w.stateOf(next) == "PENDING" }); err != nil {
		return err
	}
	w.queue.SetPods(job, "n1")
	return native.Within(limit, "the next job does not run", func() bool { return w.stateOf(next) == "COMPLETED" })
}

func (w *world) restartSlurmctld() error {
	if err := w.Slurmctld.Process.Signal(unix.SIGTERM); err != nil {
		return err
	}
	_ = w.Slurmctld.Wait() // its status does not matter
	return w.Control(w.hear)
}

func (w *world) restartInEpilog() error {
	err := native.Within(limit, "the epilog does not wait", func() bool {
		s, _, err := w.status(w.nodes[0])
		return err == nil && s.Node.PodHolds != nil && len(s.Node.PodHolds.Jobs) == 1 && s.Node.PodHolds.Jobs[0].Ended
	})
	if err != nil {
		return err
	}
	return w.restartSlurmd()
}

func (w *world) restartSlurmd() error {
	s, _, err := w.status(w.nodes[0])
	if err != nil || s.Main == nil {
		return fmt.Errorf("status of the node: %w", err)
	}
	if _, err := w.in(w.nodes[0], "kill", "-KILL", fmt.Sprint(s.Main.PID)); err != nil {
		return fmt.Errorf("cannot kill slurmd: %w", err)
	}
	return native.Within(limit, "slurmd does not come back", func() bool {
		now, _, err := w.status(w.nodes[0])
		return err == nil && now.Main != nil && now.Main.PID != s.Main.PID && now.Serving()
	})
}

// refuses: orders that no gateway carries out.
func (w *world) refuses() error {
	script, root, small, uid := submission("a"), submission("a"), submission("a"), submission("a", "--uid=0")
	script.Script = "#!/bin/sh\nid\n"
	root.User, small.User = "root", "daemon"
	other, err := w.Command("/usr/bin/sbatch", "--parsable", "--uid="+user, "--mem=10", "--output=/dev/null", "--wrap=sleep 1000").Output()
	if err != nil {
		return err
	}
	var foreign uint32
	if _, err := fmt.Sscan(string(other), &foreign); err != nil {
		return err
	}
	for name, o := range map[string]struct {
		order wire.Order
		want  string
	}{
		"another script":       {script, "the gateway submits"},
		"root":                 {root, `user "root"`},
		"a system's user":      {small, `user "daemon"`},
		"--uid":                {uid, `argument "--uid=0"`},
		"a file":               {submission("a", "--output=/etc/passwd"), "argument"},
		"a wrapped command":    {submission("a", "--wrap=id"), "argument"},
		"no option":            {submission("a", "/bin/sh"), "argument"},
		"an unknown partition": {submission("a", "--partition=nowhere"), "nvalid partition"},
		"another job":          {wire.Order{Kind: wire.Cancel, User: user, Job: foreign}, "has the comment"},
	} {
		result, err := w.queue.Order(o.order)
		if err != nil || !strings.Contains(result.Refused, o.want) || result.Job != 0 {
			return fmt.Errorf("%s: %+v %w", name, result, err)
		}
	}
	if none, err := w.queue.Order(wire.Order{Kind: wire.Cancel, User: user, Job: 4711}); err != nil || !none.None {
		return fmt.Errorf("a job that is not there: %+v %w", none, err)
	}
	if err := native.Stop(w.Slurmctld.Process); err != nil {
		return err
	}
	result, err := w.queue.Order(wire.Order{Kind: wire.Look, User: user, Job: 4711})
	if err != nil || result.Unknown == "" || result.None {
		return fmt.Errorf("slurmctld is silent: %+v %w", result, err)
	}
	return w.Slurmctld.Process.Signal(unix.SIGCONT)
}
