package node

import (
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// UntoldReason is why jobs are waited for that have ended.
const UntoldReason = "jobs have ended here, and slurmstepd has not told slurmctld yet"

// sparesUntold: a job has ended that slurmctld counts as running. To requeue it, or to set its node DOWN, would have
// it run twice, or fail. slurmstepd has as long to tell of its end as the time allows: it tries every 15 s.
func (l machine) sparesUntold(e Answered) bool { return e.Untold > 0 && l.Stage < deadlines.Leave }

// awaitsWord: the time for jobs is over, and all that are known here have ended.
func (l machine) awaitsWord(e Answered) bool {
	running := 0
	for _, job := range e.Jobs {
		if isRunning(job) {
			running++
		}
	}
	return l.sparesUntold(e) && l.Stage >= deadlines.Requeue && l.Acted < deadlines.Fail && e.Untold == running
}

func isRunning(j slurm.Job) bool { return j.Running() }
