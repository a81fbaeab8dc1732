package agent

import (
	"fmt"
	"time"

	"github.com/slurmlet/slurmlet/internal/backoff"
)

// step is the agent's whole judgement: what happened goes in, the next state
// and what to do come out. It is pure; agent.go turns the world into events
// and actions into the world.
func step(l life, e event) (life, []action) {
	switch e := e.(type) {
	case begun:
		return l.begin()
	case mainStarted:
		return l.started(e)
	case mainFailed:
		return l.failed(e)
	case mainReady:
		return l.readied()
	case mainChanged:
		return l.handedOver(e)
	case mainExited:
		return l.exited(e)
	case mainSilent:
		return l.replaceHung(e)
	case answered:
		return l.answer(e)
	case carriedOut:
		return l.done(e)
	case measured:
		return l.measure(e)
	case ordered:
		return l.order(e)
	case stepsEnded:
		return l.lookAgain()
	case stepsCounted:
		return l.fewer(e)
	case timerFired:
		return l.fired(e)
	case terminated:
		return l.terminate(e)
	case deadline:
		return l.due(e)
	case sessionsOver:
		return l.alone()
	case troubled:
		return l.doubt()
	case filesChanged:
		return l.takeFiles(e)
	case hungUp:
		return l.hangUp()
	case edition:
		return l.edited(e)
	case checked:
		return l.looked(e)
	case launchesOver:
		return l.launched(e)
	case placeEnded:
		return l.placed(e)
	case reconfigureEnded:
		return l.reconfigured(e)
	case nodesAsked:
		return l.count(e)
	case outdated:
		return l.refetch()
	case controllerLost:
		return l.mistrust()
	case lostSought:
		return l.sought(e)
	case reloadTimer:
		return l.reloadDue(e)
	}
	panic(fmt.Sprintf("step: no such event: %T", e))
}

// ask opens a question; the answer to any earlier one is stale from now on.
func (l life) ask() (life, []action) {
	l.question++
	return l, []action{ask{l.question}}
}

// wait arms the timer; any earlier one is stale from now on.
func (l life) wait(d time.Duration) (life, []action) {
	l.timer++
	return l, []action{arm{l.timer, max(d, time.Millisecond)}}
}

// again waits before the next question, longer from try to try.
func (l life) again(reason string) (life, []action) {
	l.reason = reason
	l.tries++
	return l.wait(grow(firstTry, l.tries-1, lastTry))
}

const (
	// settle is what a daemon is left in peace for after its READY, while it
	// registers.
	settle = 10 * time.Millisecond
	// A record shows up some 50 ms after slurmd's READY; a slurmctld that is
	// away is asked every few seconds.
	firstTry = backoff.FirstTry
	lastTry  = backoff.LastTry
	// A daemon that dies is started again at once at first.
	firstPause = backoff.FirstPause
	lastPause  = backoff.LastPause
	steady     = backoff.Steady
	// lostTries is after how many looks without a record slurmd is told to
	// register again: slurmctld, its table full, tells slurmd success.
	lostTries = 6
	// watchedTries is after how many looks at a record that runs its own slurmd's
	// jobs the end of a step is waited for, and watchedPause how long: a job of
	// which no step runs any more, but an epilog, ends without a word.
	watchedTries = 6
	watchedPause = time.Minute
	// missedTries is after how many looks at a busy record slurmd is told to
	// register again: half a minute, when BatchStartTimeout and MessageTimeout
	// (slurm.conf(5)), 10 s each, are over.
	missedTries = 12
	// missedAfter is after how long a node that is Ready looks for jobs that are
	// counted on it, and of which nothing runs.
	missedAfter = 25 * time.Second
)

func grow(first time.Duration, n int, last time.Duration) time.Duration {
	return backoff.Grow(first, n, last)
}

func (l life) launch() (life, []action) {
	l.state, l.doing, l.starting, l.tries = Starting, launching, true, 0
	return l, []action{startMain{}}
}

func (l life) fired(e timerFired) (life, []action) {
	switch {
	case e.number != l.timer || l.state == Exited:
		return l, nil
	case l.doing == ending:
		return l.overdue()
	case l.doing == pausing && l.state == Stopping:
		return l.relaunch()
	case l.doing == pausing:
		l.starts++
		return l.begin()
	case l.doing == replacing:
		return l.overdueReplaced()
	case l.doing == nothing:
		return l.seek()
	case l.state == Stopping && (l.doing == launching || l.doing == reaching):
		return l.reach()
	case l.doing == launching, l.doing == awaiting, l.doing == preparing:
		return l, nil
	case l.doing == reaching:
		return l.begin()
	case l.doing == finishing && l.running > 0:
		return l.countSteps()
	case l.doing == finishing:
		l.doing = withdrawing // and no step that ends meanwhile cuts the question short
	}
	return l.ask()
}

// hangUp is passed on for the daemon to read its configuration again. One that
// has not said READY may not catch the signal yet, and reads it anyway.
func (l life) hangUp() (life, []action) {
	if l.main == 0 || l.state == Stopping || l.doing == launching {
		return l, nil
	}
	return l, []action{signalMain{sigHup}}
}

// doubt asks what a daemon that serves has complained of, until it answers.
func (l life) doubt() (life, []action) {
	if l.state != Ready || l.doing != nothing || !l.reaches {
		return l, nil
	}
	l.doing, l.tries = doubting, 0
	return l.ask()
}

// takeFiles: a signal is enough for most of a configuration. A start that is
// still to come takes all of it anyway, and one that came since has taken it.
func (l life) takeFiles(e filesChanged) (life, []action) {
	l.filesSince = e.since
	switch {
	case !e.since.IsZero() && l.mainSince.After(e.since):
		return l, nil
	case l.state == Stopping || l.main == 0 || l.doing == replacing:
		return l, nil
	case e.restart:
		return l.replace("the configuration has changed")
	}
	return l.hangUp()
}
