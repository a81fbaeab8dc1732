package agent

import (
	"testing"

	"github.com/slurmlet/slurmlet/internal/nodesize"
)

// BenchmarkStep is a start of slurmctld up to Ready, and its end: what the
// judgement itself costs beside the processes that it is about.
func BenchmarkStep(b *testing.B) {
	events := []event{begun{}, mainStarted{pid: 7}, mainReady{}, timerFired{1}, answered{number: 1}, terminated{signal: "SIGTERM"}, mainExited{pid: 7}}
	b.ReportAllocs()
	for b.Loop() {
		l := newLife(plan{}, nodesize.Allocation{})
		for _, e := range events {
			l, _ = step(l, e)
		}
		if l.state != Exited {
			b.Fatalf("it ended as %s", l.state)
		}
	}
}
