package lifecycle

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// whileStopping takes an event after SIGTERM. The configuration is not changed any more.
func (l State) whileStopping(e Event) (State, []Action) {
	switch e := e.(type) {
	case Answered:
		return l.answerStopping(e)
	case Done:
		return l.changedStopping(e)
	case Measured:
		return l.takeGrace(e).hastenBy(e)
	case DeadlineSet:
		return l.order(e).hasten(e.At)
	case StepsEnded:
		return l.lookAgain()
	case StepsCounted:
		return l.fewer(e)
	case TimerFired:
		return l.firedStopping(e)
	case Terminated:
		return l.hurry(e)
	case DeadlinePassed:
		return l.due(e)
	case SessionsOver:
		return l.end("")
	case FilesChanged:
		l.filesSince = e.Since
		return l, nil
	case ControllerMoved:
		return l.reachAnew()
	case DatabaseAway:
		return l.takeAway()
	case Begun, HungUp, Troubled, Outdated, ControllerLost, LaunchRefused, LostJobsFound, StateHeld,
		conf.Revision, conf.Checked, conf.LaunchesOver, conf.PlaceEnded, conf.ReconfigureEnded, conf.NodesAsked, conf.ReloadTimerFired:
		return l, nil
	}
	panic(fmt.Sprintf("Step: no such event: %T", e))
}

// answerStopping takes slurmctld's word on the way down.
func (l State) answerStopping(e Answered) (State, []Action) {
	if e.Number != l.question {
		return l, nil
	}
	l = l.note(e)
	if e.Err != nil && !l.Unanswered {
		l.Tries = 0 // those before had answers
	}
	l.Unanswered = e.Err != nil
	switch l.Activity {
	case Reaching:
		return l.reached(e)
	case Launching:
		return l.notReady(e)
	case Converting:
		return l.answerConverting(e)
	}
	return l.actOnRecord(e)
}

// changedStopping takes the outcome of a change on the way down.
func (l State) changedStopping(e Done) (State, []Action) {
	switch {
	case e.Number != l.question:
		return l, nil
	case l.Activity == StartingSackd:
		return l.sackdStarted(e)
	}
	l.Unanswered = errors.Is(e.Err, slurm.ErrUnreachable)
	return l.changeDone(e)
}

// firedStopping: what was waited for on the way down has not come in time.
func (l State) firedStopping(e TimerFired) (State, []Action) {
	if e.Number != l.timer {
		return l, nil
	}
	l.pace.rested, l.pace.resting = l.pace.resting, false
	switch {
	case l.Activity == Ending:
		return l.overdue()
	case l.Activity == Converting:
		return l.askConverting()
	case l.Activity == Pausing:
		return l.relaunch()
	case l.Activity == Replacing:
		return l.overdueReplaced()
	case l.Activity == Launching, l.Activity == Reaching:
		return l.tryToReach()
	case l.Activity == Idle, l.Activity == AwaitingDescription, l.Activity == ChoosingConf:
		return l, nil
	case l.Activity == Finishing && l.running > 0:
		return l.recountSteps()
	case l.Activity == Finishing:
		l.keepsIt = false
		l.Activity = LookingAtRecord // and no step that ends meanwhile cuts the question short
	}
	return l.ask()
}

// hurry: a second signal shortens nothing, but for an impatient one: SIGINT twice, in a
// terminal.
func (l State) hurry(e Terminated) (State, []Action) {
	if e.Again {
		return l.end("SIGINT received twice")
	}
	return l, nil
}

// terminate begins the orderly stop.
func (l State) terminate(e Terminated) (State, []Action) {
	l.Phase, l.Reason, l.StoppedAt, l.pace = Stopping, e.Signal+" received", e.At, pace{}
	if l.Grace.Outlived(e.At) {
		l.Reason += "; the deadline of " + l.Grace.Deadline.Source + " was over before, and counts for nothing"
	}
	l, _ = l.hasten(e.At)
	if l.Hosts {
		return l.awaitSessions()
	}
	switch {
	case l.converting() && l.Activity != Replacing:
		return l.awaitListening()
	case !l.Registers:
		return l.end("")
	case !l.inService():
		return l.leaveUnlisted()
	}
	return l.takeOutOfService(e.Idle)
}

// end stops the daemon. left is what could not be done before, empty for nothing.
func (l State) end(left string) (State, []Action) {
	if l.Activity == Ending {
		return l, nil
	}
	l.Activity, l.Left = Ending, left
	l.question++ // what was asked is of no interest any more
	if left != "" {
		l.Reason = left
	}
	switch {
	case l.Main == 0 && !l.starting:
		return l.leaveWith(exitcode.OK)
	case l.killed && !l.mayStartSackd():
		return l.leaveWith(128 + 9) // SIGKILL has not ended it, and SIGTERM will not
	}
	l, actions := l.wait(l.stopLimit())
	if l.acted >= toFail {
		// slurmd waits for the steps of jobs that slurmctld has failed, and a
		// slurmstepd may go on telling an srun that is gone (24.11.5).
		actions = append(actions, KillSteps{})
	}
	if l.Main != 0 {
		actions = append(actions, SignalMain{SigTerm})
	}
	return l, actions
}

// stopLimit is how long the daemon gets from SIGTERM to SIGKILL. Before jobs are
// requeued it is certain to have more: on a machine that stops many pods at once,
// slurmd may need it.
func (l State) stopLimit() time.Duration {
	switch {
	case l.Hosts && l.stage < toFail:
		return l.Deadlines.End - l.Deadlines.Fail
	case l.Converts:
		return min(l.Deadlines.End, servedStop)
	case !l.Registers && !l.Hosts:
		return l.Deadlines.End
	case l.stage < toRequeue:
		return l.Deadlines.End - l.Deadlines.Requeue
	}
	return l.Deadlines.End - l.Deadlines.Stop
}

// overdue: the daemon has not stopped in time; after SIGKILL the agent does
// not wait for ever either.
func (l State) overdue() (State, []Action) {
	if l.killed || l.Main == 0 {
		return l.leaveWith(128 + 9)
	}
	l.killed = true
	l.Reason = strings.TrimPrefix(l.Left+"; the daemon did not stop in time and was killed", "; ")
	l, actions := l.wait(l.Deadlines.Exit - l.Deadlines.End)
	return l, append(actions, SignalMain{SigKill})
}

// leaveWith ends the agent. What was left undone is told by the status, unless
// the daemon's own tells more than that the agent has killed it.
func (l State) leaveWith(code int) (State, []Action) {
	if l.Left != "" && (code == exitcode.OK || l.killed) {
		code = exitcode.Left
	}
	l.Phase, l.Activity, l.Code = Exited, Idle, code
	return l, []Action{Exit{code}}
}

// endedByTerm is the end of a daemon that was too young to catch SIGTERM: as
// much in order as the end of one that caught it.
const endedByTerm = 128 + 15

// endedByUSR1 is the status of a slurmdbd that gets SIGTERM just after it has begun to listen: it wakes its threads by
// SIGUSR1, which it does not catch yet (26.05.5). Nothing is lost.
const endedByUSR1 = 128 + 10

// ended: a process that was main has ended. Only the present main counts.
func (l State) ended(e MainExited) (State, []Action) {
	if e.PID != l.Main || l.Main == 0 {
		return l, nil
	}
	l.Main = 0
	l.question++ // what was asked about this daemon is stale
	switch {
	case l.Phase == Exited:
		return l, nil
	case l.Activity == Ending && (e.Code == endedByTerm || l.Converts && e.Code == endedByUSR1):
		return l.leaveWith(exitcode.OK)
	case l.Activity == Ending && l.hung:
		l.Reason = "slurmd has hung while it stopped, and nothing was lost"
		return l.leaveWith(exitcode.OK)
	case l.Activity == Ending && l.crashed(e):
		l.Reason = "slurmd has crashed while it stopped, and nothing was lost: " + e.What
		return l.leaveWith(exitcode.OK)
	case l.Activity == Ending, l.Activity == Converting:
		return l.leaveWith(e.Code)
	case l.mayTryOther():
		return l.tryOther(e.What)
	case l.mayRevive(e):
		return l.revive(e)
	case !l.Restarts && l.Activity == Replacing: // for a reason of the agent's
		return l.leaveWith(exitcode.Failure)
	case !l.Restarts:
		l.Reason = e.What
		return l.leaveWith(e.Code)
	case l.Activity == Replacing && l.Phase == Stopping:
		return l.relaunch()
	case l.Activity == Replacing && l.Registers:
		return l.launch()
	case l.Activity == Replacing:
		l.Phase = Starting
		return l.begin()
	}
	if e.Uptime >= backoff.Steady {
		l.failures = 0
	}
	return l.pause(e.What)
}

// crashed: a signal has ended a slurmd that stops, and slurmctld has no record of the node any more. One
// that was killed because it did not stop is none of these.
func (l State) crashed(e MainExited) bool {
	const byKill = bySignal + 9
	return l.losesNothing() && e.Code > bySignal && e.Code != byKill
}

// losesNothing: slurmctld counts on a slurmd that stops no more.
func (l State) losesNothing() bool {
	return l.Registers && l.WasReady && !l.inService() && l.Left == ""
}

// failed: the daemon could not be started at all.
func (l State) failed(e MainFailed) (State, []Action) {
	l.starting = false
	l.question++ // whether slurmctld can be reached, which was asked meanwhile, is no word on the record
	switch {
	case l.Activity == Ending, l.Activity == Converting:
		return l.leaveWith(exitcode.OK)
	case !l.Restarts:
		l.Reason = e.Err.Error()
		return l.leaveWith(exitcode.Failure)
	}
	return l.pause(e.Err.Error())
}

// pause waits before the daemon is started again, longer from failure to
// failure. One that ends while its node is taken out of service is needed too:
// without it slurmctld cannot be spoken to.
func (l State) pause(reason string) (State, []Action) {
	if l.Phase != Stopping {
		l.Phase = Starting
	}
	l.Activity, l.Reason = Pausing, reason
	l.failures++
	return l.wait(backoff.Grow(backoff.FirstPause, l.failures-1, backoff.LastPause))
}
