package lifecycle

import (
	"testing"

	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// BenchmarkStep is a start of slurmctld up to Ready, and its end: what the
// judgement itself costs beside the processes that it is about.
func BenchmarkStep(b *testing.B) {
	events := []Event{supervisor.Begun{}, supervisor.MainStarted{PID: 7}, supervisor.MainReady{}, supervisor.TimerFired{Number: 1}, node.Answered{Number: 1}, supervisor.Terminated{Signal: "SIGTERM"}, supervisor.MainExited{PID: 7}}
	b.ReportAllocs()
	for b.Loop() {
		l := New(Plan{}, nodesize.Allocation{})
		for _, e := range events {
			l, _ = Step(l, e)
		}
		if l.Phase != supervisor.Exited {
			b.Fatalf("it ended as %s", l.Phase)
		}
	}
}
