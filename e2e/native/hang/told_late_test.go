//go:build e2e

package hang

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/agent"
)

// ends is a job that writes down that it has ended.
const ends = "sleep 3; echo end >> /srv/ends"

// toldLate are jobs whose tasks end while the node cannot reach slurmctld: slurmstepd tells of the end later. It gives up
// its first try after MessageTimeout (10 s), and tries again 15 s later: after jobs are requeued (22 s after SIGTERM), and
// before the node is set DOWN (33 s).
var toldLate = []testCase{
	{"a job's end is told after the time for jobs is over", "", ends, (*world).endUnheard, agent.ExitOK, "COMPLETED"},
	{"the end of a job that may not be requeued is told after the time for jobs is over", "", ends, func(w *world) error {
		return errors.Join(w.slurm("scontrol", "update", "jobid="+w.job, "requeue=0"), w.endUnheard())
	}, agent.ExitOK, "COMPLETED"},
}

// endUnheard has the job end while its node is cut off, and slurmctld be back just before jobs are to be requeued.
func (w *world) endUnheard() error {
	if err := w.Cut(w.node); err != nil {
		return err
	}
	if err := w.wait("the job's tasks have ended", func() bool { return len(w.pids("slurm_script"))+len(w.pids("sleep")) == 0 }); err != nil {
		return err
	}
	if err := w.node.Terminate(); err != nil {
		return err
	}
	<-time.After(21 * time.Second) // slurmctld is away meanwhile
	if len(w.pids("slurmstepd")) == 0 {
		return errors.New("slurmstepd has nothing to tell any more")
	}
	if err := w.Mend(w.node); err != nil {
		return err
	}
	if err := w.wait("the pod has ended", func() bool { return closed(w.node.Exited) }); err != nil {
		return err
	}
	for _, lie := range []string{"requeueing job", "it will fail"} {
		if w.told(lie) == nil {
			return fmt.Errorf("the agent says %q of a job that has ended", lie)
		}
	}
	runs, err := os.ReadFile(filepath.Join(w.Root, "srv/ends"))
	if n := strings.Count(string(runs), "end"); err != nil || n != 1 {
		return fmt.Errorf("the job has ended %d times: %w", n, err)
	}
	return nil
}
