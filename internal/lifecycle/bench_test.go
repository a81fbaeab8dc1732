package lifecycle

import (
	"testing"

	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// BenchmarkStep is a start of slurmctld up to Ready, and its end: what the
// judgement itself costs beside the processes that it is about.
func BenchmarkStep(b *testing.B) {
	events := []Event{Begun{}, MainStarted{PID: 7}, MainReady{}, TimerFired{1}, Answered{Number: 1}, Terminated{Signal: "SIGTERM"}, MainExited{PID: 7}}
	b.ReportAllocs()
	for b.Loop() {
		l := New(Plan{}, nodesize.Allocation{})
		for _, e := range events {
			l, _ = Step(l, e)
		}
		if l.Phase != Exited {
			b.Fatalf("it ended as %s", l.Phase)
		}
	}
}
