package node

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// A slurmctld that dies before it has saved a job's start takes the job for one that waits when it is back. It
// launches it once more where it runs already, and slurmd refuses. slurmctld then ends both runs; it requeues the
// job with a hold, and drains the node for ever (24.11.5 and 26.05.5: slurmd's _rpc_batch_job, slurmctld's agent.c,
// DSH_DUP_JOBID). The job's hold and the drain are nobody's wish.

// Relaunched: slurmctld has drained the node because slurmd has refused a launch.
func Relaunched(n *slurm.Node) bool { return n.Drained() && reasons.Of(n.Reason) == reasons.Relaunched }

// drainTime is what slurmctld has to drain the node before it is asked.
const drainTime = time.Second

// expectDrain: slurmctld is about to hold the job, and to drain the node.
func (m machine) expectDrain() (machine, []any) {
	m.Relaunched = true
	if m.Phase != supervisor.Ready || m.Activity != supervisor.Idle {
		return m, nil // what comes next looks at the record
	}
	m.Activity, m.Tries, m.Reason = supervisor.Doubting, 0, "slurmd has refused to launch a job that it runs already"
	return m.wait(drainTime)
}

// mustMend: a node that is about to be suspended stays drained until it is off (internal/slurmctld/elastic/planner).
func (m machine) mustMend(n *slurm.Node) bool {
	return m.registered() && !n.Off() && (m.Relaunched || Relaunched(n) && !n.Is("POWER_DOWN"))
}

func (m machine) mend() (machine, []any) {
	return m.attempt(supervisor.Mending, Change{Verb: MendLaunch})
}

func (m machine) mended() (machine, []any) {
	m.Relaunched, m.Activity = false, supervisor.Confirming
	return m.changeAgain("the jobs were released, and slurmctld may drain the node again")
}
