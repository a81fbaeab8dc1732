package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/prometheus/procfs"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

const slurmConf = `SlurmctldParameters=enable_configless
MaxNodeCount=8
`

// trial is one node with all its steps.
type trial struct {
	*native.Cluster
	settings
	node *native.Node
	rows []row
}

// row is what the agent has after some steps.
type row struct {
	after string
	figures
	took time.Duration
}

// figures are of the agent's process (proc_pid_fdinfo(5), proc_pid_stat(5)).
type figures struct {
	watches, files, threads int
	rss                     int // bytes
}

func (t *trial) run() error {
	if err := t.Control(func(string) {}); err != nil {
		return err
	}
	t.node.Cgroup = t.Cgroup
	if err := t.Start(t.node, "SLURMLET_AGENT_PORT=0", "SLURMLET_CGROUP=prefer", "SLURMLET_LOG_LEVEL=info"); err != nil {
		return err
	}
	if err := t.ready(); err != nil {
		return err
	}
	for _, act := range []func() error{func() error { return t.note("the start", 0) }, t.runSteps, t.countCgroups, t.print, t.check} {
		if err := act(); err != nil {
			return errors.Join(err, t.explain())
		}
	}
	return nil
}

// ready waits for the agent, and for the cgroup that it makes for steps.
func (t *trial) ready() error {
	if err := t.node.AwaitReady(native.Limit); err != nil {
		return errors.Join(err, t.explain())
	}
	if _, err := os.Stat(t.scope()); err != nil {
		return errors.Join(fmt.Errorf("the agent has made no cgroup for steps: %w", err), t.explain())
	}
	return nil
}

func (t *trial) explain() error {
	log := t.node.Log()
	return errors.New("its last lines:\n" + strings.Join(log[max(len(log)-20, 0):], "\n"))
}

func (t *trial) scope() string {
	return filepath.Join(t.Cgroup, "system.slice", t.node.Name+"_slurmstepd.scope")
}

// runSteps has srun run steps: slurmstepd's socket in the spool directory comes and goes.
func (t *trial) runSteps() error {
	began := time.Now()
	for i := range t.Run {
		if out, err := t.Command("/usr/bin/srun", "--nodelist="+t.node.Name, "--mem=10", "/bin/true").CombinedOutput(); err != nil {
			return fmt.Errorf("cannot run a step: %w: %s", err, out)
		}
		if (i+1)%max(t.Run/4, 1) == 0 {
			native.Progress("srun: %d of %d", i+1, t.Run)
		}
	}
	return t.note(fmt.Sprintf("%d steps by srun", t.Run), time.Since(began))
}

func (t *trial) countCgroups() error {
	began := time.Now()
	err := comeAndGo(t.scope(), t.Steps, func(done int) error {
		now, err := t.look()
		native.Progress("cgroups of %d steps of %d: %d watches, %d KiB", done, t.Steps, now.watches, now.rss>>10)
		return err
	})
	if err != nil {
		return err
	}
	return t.note(fmt.Sprintf("cgroups of %d steps", t.Steps), time.Since(began))
}

// note takes the figures once they do not change any more.
func (t *trial) note(after string, took time.Duration) error {
	var last figures
	since := time.Now()
	err := native.Within(native.Limit, "the agent does not come to rest", func() bool {
		now, err := t.look()
		if err != nil || now.watches != last.watches || now.files != last.files {
			last, since = now, time.Now()
		}
		last = now
		return time.Since(since) > settled
	})
	t.rows = append(t.rows, row{after, last, took})
	return err
}

func (t *trial) look() (figures, error) {
	var f figures
	p, err := procfs.NewProc(t.node.PID())
	if err != nil {
		return f, fmt.Errorf("cannot find the agent: %w", err)
	}
	files, err := p.FileDescriptorsInfo()
	if err != nil {
		return f, fmt.Errorf("cannot look at the agent's files: %w", err)
	}
	stat, err := p.Stat()
	if err != nil {
		return f, fmt.Errorf("cannot look at the agent: %w", err)
	}
	f.files, f.threads, f.rss = len(files), stat.NumThreads, stat.ResidentMemory()
	f.watches, err = files.InotifyWatchLen()
	return f, err
}

func (t *trial) print() error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "the agent after\twatches\tfile descriptors\tRSS, MB\tthreads\ttook\n")
	for _, r := range t.rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%d\t%v\n", r.after, r.watches, r.files, float64(r.rss)/1e6, r.threads, r.took.Round(time.Millisecond))
	}
	return w.Flush()
}

func (t *trial) check() error {
	first, last := t.rows[0], t.rows[len(t.rows)-1]
	switch {
	case t.node.Ended():
		return errors.New("the agent has ended")
	case last.watches != first.watches:
		return fmt.Errorf("%d watches are left of the steps", last.watches-first.watches)
	case last.files > first.files:
		return fmt.Errorf("%d file descriptors are left of the steps", last.files-first.files)
	}
	return nil
}
