package node

import (
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// UnreportedReason is why jobs are waited for that have ended.
const UnreportedReason = "jobs have ended here, and slurmstepd has not reported that to slurmctld yet"

// awaitsReports: a job has ended that slurmctld counts as running. To requeue it, or to set its node DOWN, would have
// it run twice, or fail. slurmstepd has as long to report its end as the time allows: it tries every 15 s.
func (m machine) awaitsReports(e Answered) bool { return e.Unreported > 0 && m.Stage < deadlines.Leave }

// awaitsReportsAlone: the time for jobs is over, and all that are known here have ended.
func (m machine) awaitsReportsAlone(e Answered) bool {
	running := 0
	for _, job := range e.Jobs {
		if isRunning(job) {
			running++
		}
	}
	return m.awaitsReports(e) && m.Stage >= deadlines.Requeue && m.Acted < deadlines.Fail && e.Unreported == running
}

func isRunning(j slurm.Job) bool { return j.Running() }
