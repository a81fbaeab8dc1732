package lifecycle

import (
	"fmt"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
)

// Step is the agent's whole judgement: what happened goes in, the next state
// and what to do come out. It is pure; agent.go turns the world into events
// and actions into the world.
func Step(l State, e Event) (State, []Action) {
	next, actions := l.take(e)
	return next, append(l.consequences(next), actions...)
}

// consequences are the actions that follow from a change of the state, whatever event
// has led to it.
func (l State) consequences(next State) []Action {
	if next.Registers && next.Phase == Ready && l.Phase != Ready {
		return []Action{CompareCluster{}}
	}
	return nil
}

// take has the phase that the container is in take an event. What the main process does
// means the same in all of them.
func (l State) take(e Event) (State, []Action) {
	if l.Phase == Exited {
		return l, nil // nothing happens any more
	}
	switch e := e.(type) {
	case MainStarted:
		return l.started(e)
	case MainFailed:
		return l.failed(e)
	case MainReady:
		return l.readied()
	case MainChanged:
		return l.handedOver(e)
	case MainExited:
		return l.ended(e)
	case MainHung:
		return l.replaceHung(e)
	}
	switch l.Phase {
	case Starting:
		return l.whileStarting(e)
	case Ready:
		return l.whileReady(e)
	case Stopping:
		return l.whileStopping(e)
	}
	return l.beforeStopping(e) // Reloading, Resizing
}

// beforeStopping takes the events that mean the same in every phase before SIGTERM.
func (l State) beforeStopping(e Event) (State, []Action) {
	switch e := e.(type) {
	case Answered:
		return l.answer(e)
	case Done:
		return l.changed(e)
	case Measured:
		return l.measure(e)
	case DeadlineSet:
		return l.order(e), nil
	case StepsEnded:
		return l.lookAgain()
	case TimerFired:
		return l.fired(e)
	case Terminated:
		return l.terminate(e)
	case FilesChanged:
		return l.takeFiles(e)
	case HungUp:
		return l.hangUp()
	case DatabaseAway:
		return l.takeAway()
	case ControllerLost:
		return l.recheckClaims()
	case ControllerMoved:
		return l.reachAnew()
	case LaunchRefused:
		return l.expectDrain()
	case StateHeld:
		return l.heldUp(e)
	case conf.Revision, conf.Checked, conf.LaunchesOver, conf.PlaceEnded, conf.ReconfigureEnded, conf.NodesAsked, conf.ReloadTimerFired:
		return l.configure(e)
	case Begun, StepsCounted, DeadlinePassed, SessionsOver, Troubled, Outdated, LostJobsFound:
		return l, nil
	}
	panic(fmt.Sprintf("Step: no such event: %T", e))
}

// ask opens a question; the answer to any earlier one is stale from now on.
func (l State) ask() (State, []Action) {
	l.question++
	switch {
	case l.Activity == Converting:
		return l, []Action{Confirm{l.question}}
	case l.Phase == Stopping:
		return l, []Action{AskJobs{l.question, l.need()}}
	case l.Registers:
		return l, []Action{AskNode{l.question, l.need()}}
	case l.Activity == Doubting:
		return l, []Action{Reach{l.question}}
	}
	return l, []Action{Confirm{l.question}}
}

// need is what the answer must be sure to tell. Mostly slurmd says who it is in the record's
// Extra; where it cannot, every other answer has the time of its start. That there is no record
// matters where the agent acts on it.
func (l State) need() Need {
	looksAgain := l.Tries >= lostTries-1
	return Need{
		Start:    !l.seen && !l.Elastic && (!l.tookOver || l.Phase == Stopping) && l.Tries%2 == 1,
		Topology: l.Traits.Topology.Given() && l.Traits != l.settled && l.Phase != Stopping,
		Jobs:     l.keepsIt || !l.Elastic && l.Activity == Leaving || l.Elastic && l.Phase == Stopping && l.Tries >= watchedTries,
		Absence:  looksAgain || l.Activity == Leaving || l.Phase == Stopping && (l.seen || l.Tries >= unseenTries),
	}
}

// wait arms the timer; any earlier one is stale from now on.
func (l State) wait(d time.Duration) (State, []Action) {
	l.timer++
	l.pace.resting = false
	return l, []Action{Arm{l.timer, max(d, time.Millisecond)}}
}

// again waits before the next question, longer from try to try.
func (l State) again(reason string) (State, []Action) {
	l.Reason = reason
	l.Tries++
	return l.wait(backoff.Grow(backoff.FirstTry, l.Tries-1, l.lastTry()))
}

// lastTry is the longest pause between questions. Before SIGTERM a node that has no answer yet
// waits a minute: 10,000 of them ask slurmctld 170 questions a second then, where 5 s would make
// 2,000. On the way down the kubelet waits, and Reach only opens a connection.
func (l State) lastTry() time.Duration {
	if l.Registers && l.Phase != Stopping && l.Activity != Reaching {
		return backoff.LastQuiet
	}
	return backoff.LastTry
}

const (
	// settle is what a daemon is left in peace for after its READY, while it
	// registers.
	settle = 10 * time.Millisecond
	// lostTries is after how many looks without a record slurmd is told to
	// register again: slurmctld, its table full, tells slurmd success.
	lostTries = 6
	// watchedTries is after how many looks at a record that runs its own slurmd's
	// jobs the end of a step is waited for, and watchedPause how long: a job of
	// which no step runs any more, but an epilog, ends without a word.
	watchedTries = 6
	WatchedPause = time.Minute
	// missedTries is after how many looks at a busy record slurmd is told to
	// register again: half a minute, when BatchStartTimeout and MessageTimeout
	// (slurm.conf(5)), 10 s each, are over.
	missedTries = 10
	// missedAfter is after how long a node that is Ready looks for jobs that are
	// counted on it, and of which nothing runs.
	missedAfter = 25 * time.Second
	// forgottenAfter is the same for what began before the pod.
	forgottenAfter = 2 * time.Second
)

func (l State) launch() (State, []Action) {
	l.Phase, l.Activity, l.starting, l.Tries = Starting, Launching, true, 0
	return l, []Action{StartMain{}}
}

func (l State) fired(e TimerFired) (State, []Action) {
	if e.Number != l.timer {
		return l, nil
	}
	l.pace.rested, l.pace.resting = l.pace.resting, false
	switch l.Activity {
	case Pausing:
		l.Starts++
		return l.begin()
	case Replacing:
		return l.overdueReplaced()
	case Idle:
		if l.unread != nothing {
			return l.tellLate()
		}
		return l.findLost()
	case Launching, AwaitingDescription, ChoosingConf:
		return l, nil
	case Reaching:
		return l.begin()
	}
	return l.ask()
}

// hangUp is passed on for the daemon to read its configuration again. One that
// has not said READY may not catch the signal yet, and reads it anyway.
func (l State) hangUp() (State, []Action) {
	switch {
	case l.Main == 0 || l.Activity == Launching:
		return l, nil
	case l.converting():
		return l.postpone(toHangUp), nil
	}
	return l, []Action{SignalMain{SigHup}}
}

// takeFiles: a signal is enough for most of a configuration. A start that is
// still to come takes all of it anyway, and one that came since has taken it.
func (l State) takeFiles(e FilesChanged) (State, []Action) {
	l.filesSince = e.Since
	switch {
	case !e.Since.IsZero() && l.MainSince.After(e.Since):
		return l, nil
	case l.Main == 0 || l.Activity == Replacing:
		return l, nil
	case l.converting() && e.Restart:
		return l.postpone(toRestart), nil
	case e.Restart:
		return l.replace("the configuration has changed")
	}
	return l.hangUp()
}

// QuestionLimit bounds one question to slurmctld. It is above scontrol's own
// MessageTimeout of 10 s (slurm.conf(5)); a longer one makes it longer.
const QuestionLimit = 15 * time.Second

// MostQuestions is how often a node may ask slurmctld, or have it change something, in a minute
// of the troubles that TestBudget lists. Most of it is the first ten seconds of a trouble: 10,000 nodes
// that wait for slurmctld ask it once a minute each, 170 times a second, where it answers some
// 10,000 questions about one node on one processor.
const MostQuestions = 45
