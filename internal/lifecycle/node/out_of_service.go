package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// unlisted: slurmctld has said that it has no record of this node.
func (l machine) unlisted() machine {
	l.listed, l.Inherits = false, false
	return l
}

// leaveUnlisted ends slurmd without more ado: slurmctld does not know this node. A
// slurmd that hands over meanwhile makes it known.
func (l machine) leaveUnlisted() (machine, []any) {
	ends := l.Activity == supervisor.Replacing
	l, actions := l.end("")
	if !ends {
		return l, actions // it has not been READY
	}
	l, deadlines := l.bind()
	return l, append(deadlines, actions...)
}

// terminate begins the way down, or ends it where somebody is impatient: SIGINT twice, in a terminal.
func (l machine) terminate(e supervisor.Terminated) (machine, []any) {
	if e.Again {
		return l.end("SIGINT received twice")
	}
	l.pace = pace{}
	if !l.InService() {
		return l.leaveUnlisted()
	}
	return l.takeOutOfService(e.Idle)
}

// bind schedules the deadlines of the way down.
func (l machine) bind() (machine, []any) {
	l.Bound = true
	return l, l.ToCome(0, l.stages()...)
}

// takeOutOfService takes the node out of service: no new jobs, the running ones to
// their end, and then the record. Deadlines bound all of it.
func (l machine) takeOutOfService(idle bool) (machine, []any) {
	l, actions := l.bind()
	var more []any
	switch {
	case l.Activity == supervisor.AwaitingDescription:
		l, more = l.end("slurmd cannot be started, and " + l.mayRemain() + ": " + l.Unstartable)
	case l.Activity == supervisor.Replacing:
		l, more = l.wait(l.StartLimit()) // its end starts the next one
	case l.Main == 0 && !l.StartAsked:
		l, more = l.relaunch()
	case l.Activity == supervisor.Launching:
		l, more = l.wait(l.StartLimit()) // READY comes, or the daemon's end
	case l.Activity == supervisor.Idle && l.Seen && idle && !l.Elastic:
		// slurmctld refuses if a job has come: nothing needs to be asked.
		l, more = l.deleteRecord()
	default:
		l, more = l.lookAtRecord()
	}
	return l, append(actions, more...)
}

func (l machine) deleteRecord() (machine, []any) {
	verb := DeleteNode
	if l.Phase != supervisor.Stopping {
		verb = RenewNode
	}
	return l.attempt(supervisor.Deleting, Change{Verb: verb})
}

func (l machine) lookAtRecord() (machine, []any) {
	l.Activity, l.Tries, l.running = supervisor.LookingAtRecord, 0, 0
	return l.ask()
}

// actOnRecord takes slurmctld's word on the record. No answer is none: a node is
// idle, drained or gone only when slurmctld has said so.
func (l machine) actOnRecord(e Answered) (machine, []any) {
	n := e.Node
	doubted := e.Doubtful && !l.keepsIt
	l.doubted = nil
	if e.Err == nil {
		l.listed = l.listed || n != nil
	}
	if e.Err == nil && (!doubted || e.Counted) {
		l.Jobs = e.Jobs
	}
	switch {
	case !l.listed && l.Seen:
		return l.end("")
	case e.Err != nil:
		return l.unanswered(e)
	case n != nil && l.Elastic && n.Elastic():
		return l.actOnElastic(e)
	case !l.Seen && l.Tries < unseenTries && (n == nil || !n.Busy() || doubted):
		return l.again("slurmctld has not seen this slurmd yet, which would make the node record anew")
	case n == nil:
		return l.unlisted().end("")
	case l.isNeeded(e) && doubted && l.actionDue() && !l.mustDrain(n):
		return l.awaitJobs(e)
	case l.isNeeded(e) && (doubted || !n.Busy()):
		return l.awaitElsewhere(e)
	case !n.Busy() && l.Acted >= deadlines.Fail && e.Steps > 0 && l.Stage < deadlines.Leave:
		// Its jobs have failed; what runs here still has a moment to end in order.
		l.Activity, l.Reason = supervisor.Finishing, "the steps of failed jobs are ending"
		return l, nil
	case !n.Busy() && n.Drained() && l.refusals >= mostRefusals:
		return l.end(l.Reason)
	case !n.Busy() && (n.Drained() || l.refusals == 0):
		return l.deleteRecord()
	case doubted:
		l.doubted = &e
		return l.deleteRecord() // slurmctld refuses if a job holds the node, whatever sinfo shows
	case l.mustDrain(n):
		return l.attempt(supervisor.Draining, Change{Verb: DrainNode, Reason: reasons.Terminating})
	}
	return l.awaitJobs(e)
}

// mustDrain: new jobs could come. A drain that slurmctld refuses, or that somebody lifts, holds up nothing that is due.
func (l machine) mustDrain(n *slurm.Node) bool {
	return !n.Drained() && (l.pace.made[DrainNode] == 0 || !l.actionDue())
}

// isNeeded: jobs that have run here are ending on other nodes. slurmctld knows the nodes of a job by
// their names when it has been configured anew, and then waits for ever for one without a record.
func (l machine) isNeeded(e Answered) bool { return len(e.Elsewhere) > 0 && l.Stage < deadlines.Leave }

// awaitElsewhere keeps the record of a node without jobs until its last ones have ended on other nodes.
func (l machine) awaitElsewhere(e Answered) (machine, []any) {
	if l.mustDrain(e.Node) {
		return l.attempt(supervisor.Draining, Change{Verb: DrainNode, Reason: reasons.Terminating})
	}
	l.Activity, l.running, l.Jobs = supervisor.Finishing, 0, e.Elsewhere
	return l.again("jobs that ran here are ending on other nodes")
}

// awaitJobs waits for the jobs of a node that takes no new ones, and does what is due about them.
func (l machine) awaitJobs(e Answered) (machine, []any) {
	n := e.Node
	switch {
	case n.Is("NOT_RESPONDING") && l.Seen && !l.HasSackd && !l.revived:
		l.revived = true
		return l.replaceSoon("slurmctld has no answer of slurmd")
	case l.awaitsReportsAlone(e):
		l.Activity, l.running = supervisor.Finishing, 0
		return l.again(UnreportedReason)
	case e.Unreported > 0 && l.Stage >= deadlines.Leave && l.Acted < deadlines.Requeue && l.pace.made[RequeueJobs] == 0:
		l.Reason = UnreportedReason
		return l.attempt(supervisor.Requeueing, Change{Verb: RequeueJobs, Last: true})
	case (l.Stage >= deadlines.Fail && !l.awaitsReports(e) || l.onlyCompleting(e)) && l.Acted < deadlines.Fail:
		l.Reason = "the time for jobs to end is over"
		return l.attempt(l.lastResort(n))
	case l.Stage >= deadlines.Requeue && l.Acted < deadlines.Requeue:
		l.Reason = "the time for jobs is over"
		return l.attempt(supervisor.Requeueing, Change{Verb: RequeueJobs})
	case l.mayHaveStaleJobs(e.Steps) && l.Stage < deadlines.Requeue:
		return l.lookForStaleJobs()
	}
	return l.finish(n, e.Steps)
}

// unanswered asks again. A slurmctld that does not answer a node without a step is
// not waited for to the end.
func (l machine) unanswered(e Answered) (machine, []any) {
	if e.Late {
		l.Tries += lateTries
	}
	if e.Steps == 0 && l.Tries >= TriesWithoutSteps {
		return l.end("no step runs here, and slurmctld does not answer; " + l.mayRemain() + ": " + e.Err.Error())
	}
	return l.again(e.Err.Error())
}

// isRefusal: slurmctld has refused to delete a record that it has.
func isRefusal(err error) bool {
	return err != nil && !errors.Is(err, slurm.ErrNoNode) && !errors.Is(err, slurm.ErrUnreachable)
}

// finish waits for the node's jobs to end.
func (l machine) finish(n *slurm.Node, steps int) (machine, []any) {
	l.Activity, l.running = supervisor.Finishing, 0
	switch {
	case l.keepsIt && steps == 0:
		return l.changeAgain("jobs hold it, without a step here")
	case l.Stage >= deadlines.Requeue:
		return l.again("jobs are being ended")
	case steps > 0:
		// The end of one is reported, and slurmctld is not asked before.
		l.Reason, l.Tries = "jobs run on it", 0
		l.looks++
		if l.stepEnded {
			l.stepEnded = false
			return l.lookAgain()
		}
		l.running = steps
		return l.wait(CountEvery)
	case !n.Allocated(), len(l.Jobs) > 0 && !slices.ContainsFunc(l.Jobs, func(j slurm.Job) bool { return j.Running() }):
		// An epilog, or what a step has left: seconds, and nothing reports its end.
		return l.again("its jobs are completing")
	case l.Tries >= WatchedTries:
		l.Reason = "jobs hold it, without a step here"
		return l.wait(WatchedPause)
	}
	return l.again("jobs hold it, without a step here")
}

// recountSteps looks for ends of steps that the kernel has not reported.
func (l machine) recountSteps() (machine, []any) {
	l.Question++
	return l, []any{CountSteps{l.Question}}
}

func (l machine) fewer(e StepsCounted) (machine, []any) {
	switch {
	case e.Number != l.Question || l.Activity != supervisor.Finishing || l.running == 0:
		return l, nil
	case e.Steps < l.running:
		return l.lookAgain()
	}
	return l.wait(CountEvery)
}

// CountEvery is how often the steps that are waited for are counted.
const CountEvery = time.Minute

// TriesWithoutSteps is after how many questions in vain, a minute or more, a node
// without a step leaves: where a whole cluster is taken down, slurmctld will
// not come back, and the grace period may be days.
const TriesWithoutSteps = 17

// lateTries is how many further tries a question counts for that has taken all
// of QuestionLimit: where slurmctld's Service is gone with it, none takes less.
const lateTries = int(QuestionLimit/backoff.LastTry) + 1

// mostRefusals is how often slurmctld may refuse to delete a record that is
// drained and free of jobs: a reservation holds it, and it stays.
const mostRefusals = 3

// changeDone takes the outcome of what was done to the record or to jobs.
func (l machine) changeDone(e Done) (machine, []any) {
	doing, doubted := l.Activity, l.doubted
	l.Activity, l.doubted = supervisor.LookingAtRecord, nil
	switch {
	case doing == supervisor.EndingStaleJobs:
		return l.staleJobsEnded(e.Err)
	case doing == supervisor.Deleting && errors.Is(e.Err, slurm.ErrKept):
		l = l.unlisted() // slurmctld counts on the next pod of the name
		l.deleted = false
		l, actions := l.end("")
		l.Reason = e.Err.Error()
		return l, actions
	case doubted != nil && isRefusal(e.Err):
		l.keepsIt = true
		return l.actOnRecord(*doubted)
	case doing == supervisor.Deleting && errors.Is(e.Err, slurm.ErrNoNode):
		return l.actOnRecord(Answered{Number: e.Number})
	case doing == supervisor.Deleting && errors.Is(e.Err, slurm.ErrBusy):
		l.listed, l.deleted = true, false
		l.refusals++
		return l.changeAgain("slurmctld keeps the node's record: " + e.Err.Error())
	case doing == supervisor.Deleting && l.deleted && e.Err != nil:
		return l.actOnRecord(Answered{Number: e.Number, Err: e.Err})
	case e.Err != nil:
		return l.changeAgain(e.Err.Error())
	case doing == supervisor.Deleting && !l.deleted:
		// A registration that slurmd had on its way makes the record anew, and jobs would come.
		// To delete it once more costs slurmctld nothing where there is none.
		l = l.unlisted()
		l.deleted = true
		return l.begins(supervisor.Deleting, Change{Verb: DeleteAgain})
	case doing == supervisor.Deleting:
		l = l.unlisted()
		l.deleted = false
	case doing == supervisor.Requeueing:
		l.Acted = deadlines.Requeue
	case doing == supervisor.Failing, doing == supervisor.PoweringOff:
		l.Acted = deadlines.Fail
		l, actions := l.lookAtRecord()
		return l, append(actions, EndSteps{})
	case doing == supervisor.Draining && l.pace.last == PowerDownNode && !l.pace.repeats():
		return l.poweredDown()
	case doing == supervisor.Draining && l.pace.repeats():
		return l.changeAgain("somebody has lifted the drain of a node that is being taken out of service")
	}
	return l.lookAtRecord()
}

// due: one of the deadlines is over.
func (l machine) due(e deadlines.DeadlinePassed) (machine, []any) {
	if l.Over[e.Stage] {
		return l, nil // it was brought forward
	}
	l.TimeLeft, l.pace, l.keepsIt = l.Pass(e.Stage), pace{}, false
	if l.Activity == supervisor.Ending {
		return l, nil // a slurmd that hands over begins anew, but for what is over
	}
	switch {
	case e.Stage == deadlines.Signal:
		return l, []any{SignalJobs{}}
	case e.Stage == deadlines.Kill:
		return l, []any{KillRequeued{}}
	// else the answer leads to the record
	case e.Stage == deadlines.Leave && !l.cannotAsk() && l.Activity != supervisor.Failing && l.Activity != supervisor.PoweringOff:
		l, actions := l.lookAtRecord()
		return l, append(actions, l.endRemainingSteps()...)
	case e.Stage == deadlines.Leave:
		return l, l.endRemainingSteps()
	case e.Stage == deadlines.Stop && l.Acted < deadlines.Requeue:
		l, actions := l.end(l.undone())
		return l, append([]any{KillSteps{}}, actions...)
	case e.Stage == deadlines.Stop:
		l, actions := l.end(l.undone())
		return l, append([]any{EndSteps{Kill: true}}, actions...)
	case l.cannotAsk():
		return l, nil // when slurmd is up again
	}
	return l.lookAtRecord()
}

// endRemainingSteps: those of failed jobs have been asked before. slurmd does not stop
// as long as it ends steps, which takes up to KillWait. A slurmctld that could not
// have them requeued must not learn either that they have ended, which
// they did not by themselves: it misses them, and requeues them then.
func (l machine) endRemainingSteps() []any {
	if l.Acted < deadlines.Requeue {
		return []any{HoldSteps{}, EndSteps{}}
	}
	return []any{EndSteps{Kill: l.Acted >= deadlines.Fail}}
}

// undone says what was not done when the time was over.
func (l machine) undone() string {
	if !l.InService() {
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
