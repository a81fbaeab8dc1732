// Package sessions is the way down of a login pod: nobody new comes in, the users learn until when they may stay, and
// the pod ends when they have left. It is pure.
//
// All that it needs to remember is in the supervisor's state. `go test ./internal/lifecycle/...` tests it, by
// transcripts and the fuzzer's stories.
package sessions

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// SessionsOver: nobody is logged in any more, and nobody can log in.
type SessionsOver struct{}

type (
	// DrainSessions keeps new sessions out, warns those that are there, until so long from
	// now, and reports when the last is over.
	DrainSessions struct{ Until time.Duration }
	// WarnSessions warns them again.
	WarnSessions struct{ Until time.Duration }
	// EndSessions asks them to end, or kills them.
	EndSessions struct{ Kill bool }
)

// stages lists the deadlines of a login pod's way down, in their order.
var stages = [...]deadlines.Stage{deadlines.Signal, deadlines.Fail, deadlines.Leave, deadlines.Stop}

// Await begins the way down. The daemon that vouches for the users stays.
func Await(s supervisor.State) (supervisor.State, []any) {
	s.Timer++
	s.Question++ // nothing is confirmed any more
	if s.Activity != supervisor.Launching && s.Activity != supervisor.Pausing {
		s.Activity = supervisor.AwaitingSessions
	}
	s.Bound = true
	actions := append([]any{DrainSessions{s.Deadlines.Fail}}, s.ToCome(0, stages[:]...)...)
	if s.Activity == supervisor.Pausing {
		s, more := s.Relaunch()
		return s, append(actions, more...)
	}
	return s, actions
}

// Due: one of the deadlines is over. Sessions are asked to end where a
// node's jobs fail.
func Due(s supervisor.State, stage deadlines.Stage) (supervisor.State, []any) {
	if s.Over[stage] {
		return s, nil // it was brought forward
	}
	s.TimeLeft = s.Pass(stage)
	if s.Activity == supervisor.Ending {
		return s, nil
	}
	switch stage {
	case deadlines.Signal:
		return s, []any{WarnSessions{s.Deadlines.Fail - s.Deadlines.Signal}}
	case deadlines.Fail:
		s.Reason = "the time for sessions is over"
		return s, []any{EndSessions{}}
	case deadlines.Leave:
		return s, []any{EndSessions{Kill: true}}
	case deadlines.Stop:
		return s.End("", StopLimit(s))
	}
	return s, nil
}

// Hasten brings the deadlines forward, and warns users who have less time now.
func Hasten(s supervisor.State, grace nodesize.Grace, now time.Time) (supervisor.State, []any) {
	before := s.Deadlines.Fail
	s, actions := s.Hasten(grace, now, stages[:]...)
	stops := s.Activity == supervisor.Ending
	if s.Bound && !stops && s.Deadlines.Fail < before && !s.Over[deadlines.Fail] {
		actions = append(actions, WarnSessions{max(s.Deadlines.Fail-now.Sub(s.StoppedAt), 0)})
	}
	return s, actions
}

// StopLimit is how long the daemon gets from SIGTERM to SIGKILL.
func StopLimit(s supervisor.State) time.Duration {
	if s.Stage < deadlines.Fail {
		return s.Deadlines.End - s.Deadlines.Fail
	}
	return s.Deadlines.End - s.Deadlines.Stop
}
