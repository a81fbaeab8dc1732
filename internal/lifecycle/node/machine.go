package node

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// with takes slurmd's next state.
func (m machine) with(s supervisor.State, actions []any) (machine, []any) {
	m.Supervisor = s
	return m, actions
}

func (m machine) wait(d time.Duration) (machine, []any) { return m.with(m.Wait(d)) }

// again waits before the next question, longer from try to try.
func (m machine) again(reason string) (machine, []any) { return m.with(m.Again(reason, m.lastTry())) }

func (m machine) begin() (machine, []any)   { return m.with(m.Begin()) }
func (m machine) launch() (machine, []any)  { return m.with(m.Launch()) }
func (m machine) sendHUP() (machine, []any) { return m.with(m.SendHUP()) }

func (m machine) replace(reason string) (machine, []any) { return m.with(m.Replace(reason)) }

func (m machine) replaceSoon(reason string) (machine, []any) { return m.with(m.ReplaceSoon(reason)) }

func (m machine) relaunch() (machine, []any)   { return m.with(m.Relaunch()) }
func (m machine) tryToReach() (machine, []any) { return m.with(m.TryToReach()) }

// lastTry is the longest pause between questions. Before SIGTERM a node that has no answer yet
// waits a minute: 10,000 of them ask slurmctld 170 questions a second then, where 5 s would make
// 2,000. On the way down the kubelet waits, and Reach only opens a connection.
func (m machine) lastTry() time.Duration {
	if m.Phase != supervisor.Stopping && m.Activity != supervisor.Reaching {
		return backoff.LastQuiet
	}
	return backoff.LastTry
}

// ask opens a question; the answer to any earlier one is stale from now on.
func (m machine) ask() (machine, []any) {
	m.Question++
	if m.Phase == supervisor.Stopping {
		return m, []any{AskJobs{m.Question, m.need()}}
	}
	return m, []any{AskNode{m.Question, m.need()}}
}

// need is what the answer must be sure to have. Mostly slurmd says who it is in the record's
// Extra; where it cannot, every other answer has the time of its start. That there is no record
// matters where the agent acts on it.
func (m machine) need() Need {
	looksAgain := m.Tries >= LostTries-1
	stopping := m.Phase == supervisor.Stopping
	return Need{
		Start:    !m.Seen && !m.Elastic && (!m.tookOver || stopping) && m.Tries%2 == 1,
		Topology: m.Traits.Topology.Given() && m.Traits != m.settled && !stopping,
		Jobs:     m.keepsIt || !m.Elastic && m.Activity == supervisor.Leaving || m.Elastic && stopping && m.Tries >= WatchedTries,
		Absence:  looksAgain || m.Activity == supervisor.Leaving || stopping && (m.Seen || m.Tries >= unseenTries),
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
