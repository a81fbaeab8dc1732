package lifecycle

import (
	"time"

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
func (l State) expectDrain() (State, []Action) {
	if !l.Registers {
		return l, nil
	}
	l.relaunched = true
	if l.Phase != Ready || l.Activity != Idle {
		return l, nil // what comes next looks at the record
	}
	l.Activity, l.Tries, l.Reason = Doubting, 0, "slurmd has refused to launch a job that it runs already"
	return l.wait(drainTime)
}

// mustMend: a node that is about to be suspended stays drained until it is off (internal/slurmctld/elastic).
func (l State) mustMend(n *slurm.Node) bool {
	return l.registered() && !n.Off() && (l.relaunched || Relaunched(n) && !n.Is("POWER_DOWN"))
}

func (l State) mend() (State, []Action) {
	return l.attempt(Mending, Change{Verb: MendLaunch})
}

func (l State) mended() (State, []Action) {
	l.relaunched, l.Activity = false, Confirming
	return l.changeAgain("slurmctld has been told, and may drain the node again")
}
