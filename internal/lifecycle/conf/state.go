// Package conf is the life of slurmctld's configuration: an edit is checked, slurmctld reconfigures
// with it, the nodes follow, and it is good; or the last good set is put back. It is pure.
//
// The machine knows of slurmctld what Daemon has. It cannot start or end it: Launch, End and
// GiveUp are orders to the container's lifecycle. `go test ./internal/lifecycle/...` tests it, by
// transcripts and the fuzzer's stories.
package conf

import (
	"fmt"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
)

// Daemon is what the machine sees of slurmctld and of its container.
type Daemon struct {
	// PID is 0 where no slurmctld runs. Since is when it began.
	PID   int
	Since time.Time
	// Ready: it serves now. WasReady: one has served in this container.
	Ready, WasReady bool
	// Over: the container is being stopped, and nothing is changed any more.
	Over bool
}

// State is what slurmctld runs with, and what is to come of the revision after it.
type State struct {
	Activity Activity
	// choosing: no slurmctld runs, and the set that it is started with is looked for or put in place.
	choosing bool
	// Live is in place, Good is the last that slurmctld and its nodes took.
	Live, Good *confset.Set
	// Next was not looked at yet, Trying is, Refused was found bad.
	Next, Trying, Refused *Revision
	// Why says in one line why Refused was refused.
	Why string
	// NotRestored is why Good could not be put back.
	NotRestored string
	// Question is the number of the present action: answers to earlier ones are stale. Timer is that
	// of the armed timer.
	Question, Timer int
	// pidBefore is the main process when slurmctld was asked to reconfigure. answered: it
	// has said that it did.
	pidBefore int
	answered  bool
	// noReply counts reconfigures in a row that had neither an answer nor a successor.
	noReply int
	// Unsettled: Live was refused, or is not known to be good yet, and Good is not back in
	// its place.
	Unsettled bool
	// anew: slurmctld was started with what a reconfigure does not change, so Good cannot be
	// put back while it runs.
	anew bool
	// attempts counts looks at the nodes, or failures to put Good back.
	attempts int
	following
	Outcomes Outcomes
	// Resolved is the last request that has its result.
	Resolved int
	Result   string
}

// machine is the state with its view of slurmctld.
type machine struct {
	State
	Daemon
}

// Step takes an event. It returns the next state, and what is to be done.
func Step(s State, d Daemon, e Event) (State, []Action) {
	m, actions := machine{s, d}.take(e)
	return m.State, actions
}

func (m machine) take(e Event) (machine, []Action) {
	if m.Over {
		return m, nil
	}
	switch e := e.(type) {
	case StartDue:
		return m.choose()
	case Ended:
		return m.tryOther(e.What)
	case HandedOver:
		m.noReply = 0
		return m, nil
	case Served:
		return m.takeServed(e.First)
	case Revision:
		return m.edited(e)
	case Checked:
		return m.takeChecked(e)
	case LaunchesOver:
		return m.launched(e)
	case PlaceEnded:
		return m.placed(e)
	case ReconfigureEnded:
		return m.reconfigured(e)
	case NodesAsked:
		return m.nodesCounted(e)
	case ReloadTimerFired:
		return m.reloadDue(e)
	}
	panic(fmt.Sprintf("Step: no such event: %T", e))
}

// IsSettled says whether slurmctld and its nodes have the live set, and no other one is tried.
func (s State) IsSettled() bool {
	return s.Activity == Idle && !s.Unsettled && s.Live != nil && s.Live.Same(s.Good)
}

// Outcomes counts revisions by what became of them.
type Outcomes struct {
	Taken, Refused, RolledBack int
	// ReadAt is when the last that was taken was read.
	ReadAt time.Time
}

// Announcement says which set slurmctld's agent is to announce to the nodes' agents after a step. A reconfigure had it
// announce nothing.
type Announcement int

const (
	NoAnnouncement Announcement = iota
	// IsLive: slurmctld and its nodes have taken a set, be it the one that they had.
	IsLive
	// IsBack: the last good set is in its place again.
	IsBack
)

// Announcement compares with the state before the step. served and hadServed say whether slurmctld has served in this
// container by now, and before the step.
func (s State) Announcement(old State, served, hadServed bool) Announcement {
	switch same := s.Good.Same(old.Good); {
	case s.Good == nil || s.Unsettled:
		return NoAnnouncement
	case served && (!same || !hadServed || s.Outcomes.Taken > old.Outcomes.Taken):
		return IsLive
	case old.Unsettled && same:
		return IsBack
	}
	return NoAnnouncement
}
