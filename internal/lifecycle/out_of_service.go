package lifecycle

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// inService says whether slurmctld may count on this node: only then is there
// something to take back before slurmd ends. What it is doing says nothing about
// that: jobs live on while slurmd is dead, restarted or unreachable.
func (l State) inService() bool { return l.listed || l.Inherits }

// unlisted: slurmctld has said that it has no record of this node.
func (l State) unlisted() State {
	l.listed, l.Inherits = false, false
	return l
}

// leaveUnlisted ends slurmd without more ado: slurmctld does not know this node. A
// slurmd that hands over meanwhile makes it known.
func (l State) leaveUnlisted() (State, []Action) {
	ends := l.Activity == Replacing
	l, actions := l.end("")
	if !ends {
		return l, actions // it has not been READY
	}
	l, deadlines := l.bind()
	return l, append(deadlines, actions...)
}

// bind schedules the deadlines of the way down.
func (l State) bind() (State, []Action) {
	l.bounded = true
	return l, l.schedules(0)
}

// takeOutOfService takes the node out of service: no new jobs, the running ones to
// their end, and then the record. Deadlines bound all of it.
func (l State) takeOutOfService(idle bool) (State, []Action) {
	l, actions := l.bind()
	var more []Action
	switch {
	case l.Activity == AwaitingDescription:
		l, more = l.end("slurmd cannot be started, and " + l.mayRemain() + ": " + l.Unstartable)
	case l.Activity == Replacing:
		l, more = l.wait(l.slurmdLimit()) // its end starts the next one
	case l.Main == 0 && !l.starting:
		l, more = l.relaunch()
	case l.Activity == Launching:
		l, more = l.wait(l.slurmdLimit()) // READY comes, or the daemon's end
	case l.Activity == Idle && l.seen && idle && !l.Elastic:
		// slurmctld refuses if a job has come: nothing needs to be asked.
		l, more = l.deleteRecord()
	default:
		l, more = l.lookAtRecord()
	}
	return l, append(actions, more...)
}

// schedules are the deadlines that are still to come, elapsed after SIGTERM.
func (l State) schedules(elapsed time.Duration) []Action {
	var actions []Action
	add := func(s Stage, at time.Duration) {
		if !l.passed[s] {
			actions = append(actions, Schedule{s, max(at-elapsed, 0)})
		}
	}
	if l.Hosts {
		add(toSignal, l.Deadlines.Signal)
	} else {
		add(toRequeue, l.Deadlines.Requeue)
		add(toKill, l.Deadlines.Kill)
	}
	add(toFail, l.Deadlines.Fail)
	add(toLeave, l.Deadlines.Leave)
	add(toStop, l.Deadlines.Stop)
	if l.Signals && !l.Hosts {
		add(toSignal, l.Deadlines.Signal)
	}
	return actions
}

func (l State) deleteRecord() (State, []Action) {
	verb := DeleteNode
	if l.Phase != Stopping {
		verb = RenewNode
	}
	return l.attempt(Deleting, Change{Verb: verb})
}

func (l State) lookAtRecord() (State, []Action) {
	l.Activity, l.Tries, l.running = LookingAtRecord, 0, 0
	return l.ask()
}

// actOnRecord takes slurmctld's word on the record. No answer is none: a node is
// idle, drained or gone only when slurmctld has said so.
func (l State) actOnRecord(e Answered) (State, []Action) {
	n := e.Node
	doubted := e.Doubtful && !l.keepsIt
	l.doubted = Answered{}
	if e.Err == nil {
		l.listed = l.listed || n != nil
	}
	if e.Err == nil && (!doubted || e.Counted) {
		l.Jobs = e.Jobs
	}
	switch {
	case !l.listed && l.seen:
		return l.end("")
	case e.Err != nil:
		return l.unanswered(e)
	case n != nil && l.Elastic && n.Elastic():
		return l.actOnElastic(e)
	case !l.seen && l.Tries < unseenTries && (n == nil || !n.Busy() || doubted):
		return l.again("slurmctld has not seen this slurmd yet, which would make the node record anew")
	case n == nil:
		return l.unlisted().end("")
	case l.isNeeded(e) && doubted && l.actionDue() && !l.mustDrain(n):
		return l.awaitJobs(e)
	case l.isNeeded(e) && (doubted || !n.Busy()):
		return l.awaitElsewhere(e)
	case !n.Busy() && l.acted >= toFail && e.Steps > 0 && l.stage < toLeave:
		// Its jobs have failed; what runs here still has a moment to end in order.
		l.Activity, l.Reason = Finishing, "the steps of failed jobs are ending"
		return l, nil
	case !n.Busy() && n.Drained() && l.refusals >= mostRefusals:
		return l.end(l.Reason)
	case !n.Busy() && (n.Drained() || l.refusals == 0):
		return l.deleteRecord()
	case doubted:
		l.doubted = e
		return l.deleteRecord() // slurmctld refuses if a job holds the node, whatever sinfo shows
	case l.mustDrain(n):
		return l.attempt(Draining, Change{Verb: DrainNode, Reason: reasons.Terminating})
	}
	return l.awaitJobs(e)
}

// mustDrain: new jobs could come. A drain that slurmctld refuses, or that somebody lifts, holds up nothing that is due.
func (l State) mustDrain(n *slurm.Node) bool {
	return !n.Drained() && (l.pace.made[DrainNode] == 0 || !l.actionDue())
}

// isNeeded: jobs that have run here are ending on other nodes. slurmctld knows the nodes of a job by
// their names when it has been configured anew, and then waits for ever for one without a record.
func (l State) isNeeded(e Answered) bool { return len(e.Elsewhere) > 0 && l.stage < toLeave }

// awaitElsewhere keeps the record of a node without jobs until its last ones have ended on other nodes.
func (l State) awaitElsewhere(e Answered) (State, []Action) {
	if l.mustDrain(e.Node) {
		return l.attempt(Draining, Change{Verb: DrainNode, Reason: reasons.Terminating})
	}
	l.Activity, l.running, l.Jobs = Finishing, 0, e.Elsewhere
	return l.again("jobs that ran here are ending on other nodes")
}

// awaitJobs waits for the jobs of a node that takes no new ones, and does what is due about them.
func (l State) awaitJobs(e Answered) (State, []Action) {
	n := e.Node
	switch {
	case n.Is("NOT_RESPONDING") && l.seen && !l.hasSackd && !l.revived:
		l.revived = true
		return l.replaceSoon("slurmctld has no answer of slurmd")
	case l.awaitsWord(e):
		l.Activity, l.running = Finishing, 0
		return l.again(UntoldReason)
	case e.Untold > 0 && l.stage >= toLeave && l.acted < toRequeue && l.pace.made[RequeueJobs] == 0:
		l.Reason = UntoldReason
		return l.attempt(Requeueing, Change{Verb: RequeueJobs, Last: true})
	case (l.stage >= toFail && !l.sparesUntold(e) || l.onlyCompleting(e)) && l.acted < toFail:
		l.Reason = "the time for jobs to end is over"
		return l.attempt(l.lastResort(n))
	case l.stage >= toRequeue && l.acted < toRequeue:
		l.Reason = "the time for jobs is over"
		return l.attempt(Requeueing, Change{Verb: RequeueJobs})
	case l.mayHaveStaleJobs(e.Steps) && l.stage < toRequeue:
		return l.lookForStaleJobs()
	}
	return l.finish(n, e.Steps)
}

// unanswered asks again. A slurmctld that does not answer a node without a step is
// not waited for to the end.
func (l State) unanswered(e Answered) (State, []Action) {
	if e.Late {
		l.Tries += lateTries
	}
	if e.Steps == 0 && l.Tries >= lonelyTries {
		return l.end("no step runs here, and slurmctld does not answer; " + l.mayRemain() + ": " + e.Err.Error())
	}
	return l.again(e.Err.Error())
}

// isRefusal: slurmctld has refused to delete a record that it has.
func isRefusal(err error) bool {
	return err != nil && !errors.Is(err, slurm.ErrNoNode) && !errors.Is(err, slurm.ErrUnreachable)
}

// finish waits for the node's jobs to end.
func (l State) finish(n *slurm.Node, steps int) (State, []Action) {
	l.Activity, l.running = Finishing, 0
	switch {
	case l.keepsIt && steps == 0:
		return l.changeAgain("jobs hold it, without a step here")
	case l.stage >= toRequeue:
		return l.again("jobs are being ended")
	case steps > 0:
		// The end of one is told, and slurmctld is not asked before.
		l.Reason, l.Tries = "jobs run on it", 0
		l.looks++
		if l.stepEnded {
			l.stepEnded = false
			return l.lookAgain()
		}
		l.running = steps
		return l.wait(CountEvery)
	case !n.Allocated(), len(l.Jobs) > 0 && !slices.ContainsFunc(l.Jobs, func(j slurm.Job) bool { return j.Running() }):
		// An epilog, or what a step has left: seconds, and nothing tells of its end.
		return l.again("its jobs are completing")
	case l.Tries >= watchedTries:
		l.Reason = "jobs hold it, without a step here"
		return l.wait(WatchedPause)
	}
	return l.again("jobs hold it, without a step here")
}

// recountSteps looks for ends of steps that the kernel has not told.
func (l State) recountSteps() (State, []Action) {
	l.question++
	return l, []Action{CountSteps{l.question}}
}

func (l State) fewer(e StepsCounted) (State, []Action) {
	switch {
	case e.Number != l.question || l.Activity != Finishing || l.running == 0:
		return l, nil
	case e.Steps < l.running:
		return l.lookAgain()
	}
	return l.wait(CountEvery)
}

// CountEvery is how often the steps that are waited for are counted.
const CountEvery = time.Minute

// lonelyTries is after how many questions in vain, a minute or more, a node
// without a step leaves: where a whole cluster is taken down, slurmctld will
// not come back, and the grace period may be days.
const lonelyTries = 17

// lateTries is how many further tries a question counts for that has taken all
// of QuestionLimit: where slurmctld's Service is gone with it, none takes less.
const lateTries = int(QuestionLimit/backoff.LastTry) + 1

// lastLook is how long after a step's end the record is looked at when many
// looks have been in vain: a job may have a thousand short steps.
const lastLook = 2 * time.Second

// unseenTries is for how many questions, most of a second, a slurmd that has
// just said READY is given to register: it does so within 50 ms.
const unseenTries = 4

// mostRefusals is how often slurmctld may refuse to delete a record that is
// drained and free of jobs: a reservation holds it, and it stays.
const mostRefusals = 3

// changeDone takes the outcome of what was done to the record or to jobs.
func (l State) changeDone(e Done) (State, []Action) {
	doing, doubted := l.Activity, l.doubted
	l.Activity, l.doubted = LookingAtRecord, Answered{}
	switch {
	case doing == EndingStaleJobs:
		return l.staleJobsEnded(e.Err)
	case doing == Deleting && errors.Is(e.Err, slurm.ErrKept):
		l = l.unlisted() // slurmctld counts on the next pod of the name
		l.deleted = false
		l, actions := l.end("")
		l.Reason = e.Err.Error()
		return l, actions
	case doubted.Doubtful && isRefusal(e.Err):
		l.keepsIt = true
		return l.actOnRecord(doubted)
	case doing == Deleting && errors.Is(e.Err, slurm.ErrNoNode):
		return l.actOnRecord(Answered{Number: e.Number})
	case doing == Deleting && errors.Is(e.Err, slurm.ErrBusy):
		l.listed, l.deleted = true, false
		l.refusals++
		return l.changeAgain("slurmctld keeps the node's record: " + e.Err.Error())
	case doing == Deleting && l.deleted && e.Err != nil:
		return l.actOnRecord(Answered{Number: e.Number, Err: e.Err})
	case e.Err != nil:
		return l.changeAgain(e.Err.Error())
	case doing == Deleting && !l.deleted:
		// A registration that slurmd had on its way makes the record anew, and jobs would come.
		// To delete it once more costs slurmctld nothing where there is none.
		l = l.unlisted()
		l.deleted = true
		return l.begins(Deleting, Change{Verb: DeleteAgain})
	case doing == Deleting:
		l = l.unlisted()
		l.deleted = false
	case doing == Requeueing:
		l.acted = toRequeue
	case doing == Failing, doing == PoweringOff:
		l.acted = toFail
		l, actions := l.lookAtRecord()
		return l, append(actions, EndSteps{})
	case doing == Draining && l.pace.last == PowerDownNode && !l.pace.repeats():
		return l.poweredDown()
	case doing == Draining && l.pace.repeats():
		return l.changeAgain("somebody has lifted the drain of a node that is being taken out of service")
	}
	return l.lookAtRecord()
}

// Stage is what a deadline of the way down is for.
type Stage int

// The stages, in their order.
const (
	toWait Stage = iota // none is over
	toSignal
	toRequeue
	toKill
	toFail
	toLeave
	toStop
	toEnd // SIGKILL, of a daemon that has less time now than it had when it was told to end
)

// due: one of the deadlines is over.
func (l State) due(e DeadlinePassed) (State, []Action) {
	if e.Stage == toEnd {
		return l.endDue()
	}
	if l.passed[e.Stage] {
		return l, nil // it was brought forward
	}
	l.passed[e.Stage], l.stage, l.pace, l.keepsIt = true, max(l.stage, e.Stage), pace{}, false
	if l.Activity == Ending {
		return l, nil // a slurmd that hands over begins anew, but for what is over
	}
	if l.Hosts {
		return l.sessionsDue(e.Stage)
	}
	switch {
	case e.Stage == toSignal:
		return l, []Action{SignalJobs{}}
	case e.Stage == toKill:
		return l, []Action{KillRequeued{}}
	case e.Stage == toLeave && !l.cannotAsk() && l.Activity != Failing && l.Activity != PoweringOff: // else the answer leads to the record
		l, actions := l.lookAtRecord()
		return l, append(actions, l.endRemainingSteps()...)
	case e.Stage == toLeave:
		return l, l.endRemainingSteps()
	case e.Stage == toStop && l.acted < toRequeue:
		l, actions := l.end(l.undone())
		return l, append([]Action{KillSteps{}}, actions...)
	case e.Stage == toStop:
		l, actions := l.end(l.undone())
		return l, append([]Action{EndSteps{Kill: true}}, actions...)
	case l.cannotAsk():
		return l, nil // when slurmd is up again
	}
	return l.lookAtRecord()
}

// endDue kills a daemon that was told to end and has less time since.
func (l State) endDue() (State, []Action) {
	switch {
	case l.Activity == Converting:
		return l.killConverting()
	case l.Activity != Ending || l.killed:
		return l, nil
	}
	return l.overdue()
}

// endRemainingSteps: those of failed jobs have been asked before. slurmd does not stop
// as long as it ends steps, which takes up to KillWait. A slurmctld that could not
// be told to requeue the jobs must not be told either that they have ended, which
// they did not by themselves: it misses them, and requeues them then.
func (l State) endRemainingSteps() []Action {
	if l.acted < toRequeue {
		return []Action{HoldSteps{}, EndSteps{}}
	}
	return []Action{EndSteps{Kill: l.acted >= toFail}}
}

// undone says what was not done when the time was over.
func (l State) undone() string {
	if !l.inService() {
		return ""
	}
	text := "the time is over, and " + l.mayRemain() + ": " + l.Reason
	if len(l.Jobs) > 0 {
		text += "; jobs " + jobList(l.Jobs)
	}
	return text
}

func jobList(jobs []slurm.Job) string {
	var names []string
	for _, j := range jobs {
		names = append(names, fmt.Sprintf("%s of %s", j.Name(), j.User))
	}
	return strings.Join(names, ", ")
}
