package supervisor

import (
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
)

// BySignal is what a shell adds to the number of a signal that has ended a process.
const BySignal = 128

const byKill = BySignal + 9

// replaceTime is how long slurmd may take to stop when another is to take its
// place. It serves nobody meanwhile, and waits for a prolog, an epilog or a job
// that does not end for up to PrologEpilogTimeout, for ever by default (slurm.conf(5));
// jobs outlive it, and slurmctld says again what it did not answer.
const replaceTime = 30 * time.Second

// Replace ends the daemon, whose end starts the next one.
func (s State) Replace(reason string) (State, []any) {
	if s.Main == 0 {
		return s.Launch()
	}
	s.Activity, s.Reason = Replacing, reason
	s.Question++ // what was asked is about a daemon that ends
	return s.StopReplaced()
}

// StopReplaced asks a daemon to stop that is to be replaced.
func (s State) StopReplaced() (State, []any) {
	s, actions := s.Wait(min(s.Deadlines.End, replaceTime))
	return s, append(actions, SignalMain{SigTerm})
}

// ReplaceSoon restarts the daemon on the way down.
func (s State) ReplaceSoon(reason string) (State, []any) {
	s.Activity, s.Reason = Replacing, reason
	s.Question++
	s, actions := s.Wait(s.StartLimit())
	return s, append(actions, SignalMain{SigTerm})
}

// OverdueReplaced kills a daemon that has not stopped in time to be replaced.
func (s State) OverdueReplaced() (State, []any) {
	switch {
	case s.Main == 0:
		return s, nil
	case s.Killed:
		s.Reason = "the daemon hangs and cannot be killed: does a file system that it uses not answer?"
		return s, nil
	}
	s.Killed = true
	if s.Phase != Stopping {
		return s, []any{SignalMain{SigKill}}
	}
	s, actions := s.Wait(s.StartLimit())
	return s, append(actions, SignalMain{SigKill})
}

// End stops the daemon, and kills it after limit. left is what could not be done before, empty for
// nothing. The actions in before come before its SIGTERM.
func (s State) End(left string, limit time.Duration, before ...any) (State, []any) {
	if s.Activity == Ending {
		return s, nil
	}
	s = s.toStopping(left)
	if s.Main == 0 && !s.StartAsked {
		return s.LeaveWith(exitcode.OK)
	}
	s, actions := s.Wait(limit)
	actions = append(actions, before...)
	if s.Main != 0 {
		actions = append(actions, SignalMain{SigTerm})
	}
	return s, actions
}

// GiveUp ends the agent where SIGKILL has not ended the daemon, and SIGTERM will not.
func (s State) GiveUp(left string) (State, []any) { return s.toStopping(left).LeaveWith(byKill) }

func (s State) toStopping(left string) State {
	s.Activity, s.Left = Ending, left
	s.Question++ // what was asked is of no interest any more
	if left != "" {
		s.Reason = left
	}
	return s
}

// Overdue: the daemon has not stopped in time; after SIGKILL the agent does
// not wait for ever either.
func (s State) Overdue() (State, []any) {
	if s.Killed || s.Main == 0 {
		return s.LeaveWith(byKill)
	}
	s.Killed = true
	s.Reason = strings.TrimPrefix(s.Left+"; the daemon did not stop in time and was killed", "; ")
	s, actions := s.Wait(s.Deadlines.Exit - s.Deadlines.End)
	return s, append(actions, SignalMain{SigKill})
}

// LeaveWith ends the agent. What was left undone is reported by the status, unless
// the daemon's own reports more than that the agent has killed it.
func (s State) LeaveWith(code int) (State, []any) {
	if s.Left != "" && (code == exitcode.OK || s.Killed) {
		code = exitcode.Left
	}
	s.Phase, s.Activity, s.Code = Exited, Idle, code
	return s, []any{Exit{code}}
}
