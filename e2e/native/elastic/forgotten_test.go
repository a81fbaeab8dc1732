//go:build e2e

package elastic

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestForgotten has slurmctld die before it has saved that a job has begun, with SLURMLET_E2E_FULL=1: a loaded machine
// loses the race of five seconds.
func TestForgotten(t *testing.T) {
	inFull(t, "forgotten")
}

const forgottenConf = `SlurmctldParameters=enable_configless
SchedulerParameters=sched_interval=1,sched_min_interval=1000,batch_sched_delay=0
NodeSet=x Feature=x
PartitionName=x Nodes=x SuspendTime=INFINITE
`

var forgottenSets = forgottenSetsWith(`"x"`)

func forgottenSetsWith(features string) map[string]string {
	return map[string]string{"x": `{"nodes":"x-[0-1]","cpuLimit":"1","memoryLimit":"364Mi","features":[` + features + `]}`}
}

var forgottenSteps = []step{
	{"a job whose start is forgotten begins on another node", (*world).beginsElsewhere},
	{"and with an edit as soon as slurmctld is back", (*world).beginsElsewhereInEdit},
}

// slow is how long a slurmd takes to register; slurmctld would wait for it for 10 s.
const slow = 6 * time.Second

// beginsElsewhere: its first run has ended by then.
func (w *world) beginsElsewhere() error {
	return w.forgets(func() error { return nil })
}

// beginsElsewhereInEdit: a reconfigure ends waits, and slurmctld looks at such a job half a minute later.
func (w *world) beginsElsewhereInEdit() error {
	before, err := w.AgentStatus()
	if err != nil {
		return err
	}
	if err := w.forgets(func() error { return w.edit(forgottenSetsWith(`"x","more"`)) }); err != nil {
		return err
	}
	return w.until("the edit is not live", func() bool {
		now, err := w.AgentStatus()
		return err == nil && now.Conf.Live != before.Conf.Live
	})
}

// forgets has slurmctld forget that a job has begun, and does something when it is back.
func (w *world) forgets(then func() error) error {
	if err := os.RemoveAll(filepath.Join(w.Root, chaosDir, "runs")); err != nil {
		return fmt.Errorf("cannot forget the runs before: %w", err)
	}
	for _, node := range []string{"x-0", "x-1"} {
		id, err := w.batch("-p", "x", "-w", node)
		if err != nil {
			return err
		}
		if err := errors.Join(w.untilJob(id, "RUNNING"), w.cancel(id)); err != nil {
			return err
		}
	}
	if err := w.untilNodes("they are not idle", func(r record) bool { return up(r) && !r.is("COMPLETING") }, "x-0", "x-1"); err != nil {
		return err
	}
	if err := w.partition("down"); err != nil {
		return err
	}
	const script = `exec 9>>/srv/lock; flock -n 9 || echo beside >> /srv/runs; echo begins on $SLURMD_NODENAME >> /srv/runs; sleep infinity`
	id, err := w.slurm("sbatch", "--parsable", "--requeue", "-p", "x", "--mem=10", "--output=/dev/null", "--chdir=/", "--wrap="+script)
	if err != nil {
		return err
	}
	if err := w.savedAfter("job_state", "job="+id, "comment=saved"); err != nil {
		return err
	}
	if err := w.partition("up"); err != nil {
		return err
	}
	first := ""
	if err := w.until("the job does not begin", func() bool { first = w.runsOn(1); return first != "" }); err != nil {
		return err
	}
	slurmd, err := slurmdOf(w.pods.of(first))
	if err != nil {
		return err
	}
	if err := errors.Join(unix.Kill(slurmd, unix.SIGSTOP), w.killSlurmctld()); err != nil {
		return err
	}
	if w.job(id) != "PENDING" {
		return fmt.Errorf("slurmctld has saved the job's start: it is %s", w.job(id))
	}
	if _, err := w.slurm("scontrol", "update", "job="+id, "excnodelist="+first); err != nil {
		return err
	}
	if err := w.partition("up"); err != nil { // it was down when it was saved
		return err
	}
	if err := then(); err != nil {
		return err
	}
	// A slurmd that registers in time has slurmctld end the run before the job begins anew in any case.
	<-time.After(slow)
	if err := unix.Kill(slurmd, unix.SIGCONT); err != nil {
		return err
	}
	began, second := time.Now(), ""
	if err := w.until("the job does not begin anew", func() bool { second = w.runsOn(2); return second != "" }); err != nil {
		return err
	}
	fmt.Printf("Slurm %s: it begins anew %.1f s after the node could register\n", w.settings.Version, time.Since(began).Seconds())
	runs, err := w.written("runs")
	if err == nil && (second == first || strings.Contains(runs, "beside")) {
		err = fmt.Errorf("the job ran on two nodes at once: %q", runs)
	}
	return errors.Join(err, w.cancel(id))
}

// runsOn is where the job's run of this number, from 1 on, has begun.
func (w *world) runsOn(number int) string {
	runs, _ := w.written("runs") // else there is none
	parts := strings.Split(runs, "begins on ")
	if len(parts) <= number {
		return ""
	}
	node, _, _ := strings.Cut(parts[number], "\n")
	return node
}

func (w *world) partition(state string) error {
	_, err := w.slurm("scontrol", "update", "partitionname=x", "state="+state)
	return err
}
