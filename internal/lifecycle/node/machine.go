package node

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// with takes slurmd's next state.
func (l machine) with(s supervisor.State, actions []any) (machine, []any) {
	l.Supervisor = s
	return l, actions
}

func (l machine) wait(d time.Duration) (machine, []any) { return l.with(l.Wait(d)) }

// again waits before the next question, longer from try to try.
func (l machine) again(reason string) (machine, []any) { return l.with(l.Again(reason, l.lastTry())) }

func (l machine) begin() (machine, []any)   { return l.with(l.Begin()) }
func (l machine) launch() (machine, []any)  { return l.with(l.Launch()) }
func (l machine) sendHUP() (machine, []any) { return l.with(l.SendHUP()) }

func (l machine) replace(reason string) (machine, []any) { return l.with(l.Replace(reason)) }

func (l machine) replaceSoon(reason string) (machine, []any) { return l.with(l.ReplaceSoon(reason)) }

func (l machine) relaunch() (machine, []any)   { return l.with(l.Relaunch()) }
func (l machine) tryToReach() (machine, []any) { return l.with(l.TryToReach()) }

// lastTry is the longest pause between questions. Before SIGTERM a node that has no answer yet
// waits a minute: 10,000 of them ask slurmctld 170 questions a second then, where 5 s would make
// 2,000. On the way down the kubelet waits, and Reach only opens a connection.
func (l machine) lastTry() time.Duration {
	if l.Phase != supervisor.Stopping && l.Activity != supervisor.Reaching {
		return backoff.LastQuiet
	}
	return backoff.LastTry
}

// ask opens a question; the answer to any earlier one is stale from now on.
func (l machine) ask() (machine, []any) {
	l.Question++
	if l.Phase == supervisor.Stopping {
		return l, []any{AskJobs{l.Question, l.need()}}
	}
	return l, []any{AskNode{l.Question, l.need()}}
}

// need is what the answer must be sure to have. Mostly slurmd says who it is in the record's
// Extra; where it cannot, every other answer has the time of its start. That there is no record
// matters where the agent acts on it.
func (l machine) need() Need {
	looksAgain := l.Tries >= LostTries-1
	stopping := l.Phase == supervisor.Stopping
	return Need{
		Start:    !l.Seen && !l.Elastic && (!l.tookOver || stopping) && l.Tries%2 == 1,
		Topology: l.Traits.Topology.Given() && l.Traits != l.settled && !stopping,
		Jobs:     l.keepsIt || !l.Elastic && l.Activity == supervisor.Leaving || l.Elastic && stopping && l.Tries >= WatchedTries,
		Absence:  looksAgain || l.Activity == supervisor.Leaving || stopping && (l.Seen || l.Tries >= unseenTries),
	}
}

const (
	// LostTries is after how many looks without a record slurmd is asked to
	// register again: slurmctld, its table full, answers slurmd with success.
	LostTries = 6
	// WatchedTries is after how many looks at a record that runs its own slurmd's
	// jobs the end of a step is waited for, and WatchedPause how long: a job of
	// which no step runs any more, but an epilog, ends without a word.
	WatchedTries = 6
	WatchedPause = time.Minute
	// MissedTries is after how many looks at a busy record slurmd is asked to
	// register again: half a minute, when BatchStartTimeout and MessageTimeout
	// (slurm.conf(5)), 10 s each, are over.
	MissedTries = 10
	// MissedAfter is after how long a node that is Ready looks for jobs that are
	// counted on it, and of which nothing runs.
	MissedAfter = 25 * time.Second
	// forgottenAfter is the same for what began before the pod.
	forgottenAfter = 2 * time.Second
	// QuestionLimit bounds one question to slurmctld. It is above scontrol's own
	// MessageTimeout of 10 s (slurm.conf(5)); a longer one makes it longer.
	QuestionLimit = 15 * time.Second
	// MostQuestions is how often a node may ask slurmctld, or have it change something, in a minute
	// of the troubles that TestBudget lists. Most of it is the first ten seconds of a trouble: 10,000 nodes
	// that wait for slurmctld ask it once a minute each, 170 times a second, where it answers some
	// 10,000 questions about one node on one processor.
	MostQuestions = 45
	// unseenTries is for how many questions, most of a second, a slurmd that has
	// just said READY is given to register: it does so within 50 ms.
	unseenTries = 4
	// lastLook is how long after a step's end the record is looked at when many
	// looks have been in vain: a job may have a thousand short steps.
	lastLook = 2 * time.Second
)
