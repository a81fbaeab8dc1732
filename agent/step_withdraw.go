package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// reasonTerminate is the reason of the drain of a pod that is being deleted.
const reasonTerminate = reasonPrefix + "pod is terminating"

// inService says whether slurmctld may count on this node: only then is there
// something to take back before slurmd ends. What it is doing says nothing about
// that: jobs live on while slurmd is dead, restarted or unreachable.
func (l life) inService() bool { return l.listed || l.inherits }

// unlisted: slurmctld has said that it has no record of this node.
func (l life) unlisted() life {
	l.listed, l.inherits = false, false
	return l
}

// leaveUnlisted ends slurmd without more ado: slurmctld does not know this node. A
// slurmd that hands over meanwhile makes it known.
func (l life) leaveUnlisted() (life, []action) {
	ends := l.doing == replacing
	l, actions := l.end("")
	if !ends {
		return l, actions // it has not been READY
	}
	l, deadlines := l.bind()
	return l, append(deadlines, actions...)
}

// bind schedules the deadlines of the way down.
func (l life) bind() (life, []action) {
	l.bounded = true
	return l, l.schedules(0)
}

// withdraw takes the node out of service: no new jobs, the running ones to
// their end, and then the record. Deadlines bound all of it.
func (l life) withdraw(idle bool) (life, []action) {
	l, actions := l.bind()
	var more []action
	switch {
	case l.doing == awaiting:
		l, more = l.end("slurmd cannot be started, and an earlier container's node record may still be there: " + l.held)
	case l.doing == replacing:
		l, more = l.wait(l.restartLimit()) // its end starts the next one
	case l.main == 0 && !l.starting:
		l, more = l.relaunch()
	case l.doing == launching:
		l, more = l.wait(l.restartLimit()) // READY comes, or the daemon's end
	case l.doing == nothing && l.seen && idle:
		// slurmctld refuses if a job has come: nothing needs to be asked.
		l, more = l.deleteRecord()
	default:
		l, more = l.lookAtRecord()
	}
	return l, append(actions, more...)
}

// schedules are the deadlines that are still to come, elapsed after SIGTERM.
func (l life) schedules(elapsed time.Duration) []action {
	var actions []action
	add := func(s stage, at time.Duration) {
		if !l.passed[s] {
			actions = append(actions, schedule{s, max(at-elapsed, 0)})
		}
	}
	add(toRequeue, l.way.Requeue)
	add(toKill, l.way.Kill)
	add(toFail, l.way.Fail)
	add(toLeave, l.way.Leave)
	add(toStop, l.way.Stop)
	if l.signals {
		add(toSignal, l.way.Signal)
	}
	return actions
}

func (l life) deleteRecord() (life, []action) {
	l.doing = deleting
	l.question++
	return l, []action{deleteRecord{l.question}}
}

func (l life) lookAtRecord() (life, []action) {
	l.doing, l.tries, l.running = withdrawing, 0, 0
	return l.ask()
}

// withdrawn takes slurmctld's word on the record. No answer is none: a node is
// idle, drained or gone only when slurmctld has said so.
func (l life) withdrawn(e answered) (life, []action) {
	n := e.node
	if e.err == nil {
		l.jobs = e.jobs
		l.listed = l.listed || n != nil
	}
	switch {
	case !l.listed && l.seen:
		return l.end("")
	case e.err != nil:
		return l.unanswered(e)
	case !l.seen && l.tries < unseenTries && (n == nil || !n.Busy()):
		return l.again("slurmctld has not seen this slurmd yet, which would make the node record anew")
	case n == nil:
		return l.unlisted().end("")
	case !n.Busy() && l.acted >= toFail && e.steps > 0 && l.stage < toLeave:
		// Its jobs have failed; what runs here still has a moment to end in order.
		l.doing, l.reason = finishing, "the steps of failed jobs are ending"
		return l, nil
	case !n.Busy() && n.Drained() && l.refusals >= mostRefusals:
		return l.end(l.reason)
	case !n.Busy() && (n.Drained() || l.refusals == 0):
		return l.deleteRecord()
	case !n.Drained():
		l.doing = draining
		l.question++
		return l, []action{drainRecord{l.question, reasonTerminate}}
	case n.Is("NOT_RESPONDING") && l.seen && !l.voiced && !l.revived:
		l.revived = true
		return l.replaceSoon("slurmctld has no answer of slurmd")
	case (l.stage >= toFail || l.onlyCompleting(e)) && l.acted < toFail:
		l.doing, l.reason = failing, "the time for jobs to end is over"
		l.question++
		return l, []action{failRecord{l.question, reasonTerminate}}
	case l.stage >= toRequeue && l.acted < toRequeue:
		l.doing, l.reason = requeueing, "the time for jobs is over"
		l.question++
		return l, []action{requeueJobs{l.question}}
	case l.inherits && l.stage < toRequeue:
		return l.bury()
	}
	return l.finish(e.steps)
}

// unanswered asks again. A slurmctld that does not answer a node without a step is
// not waited for to the end.
func (l life) unanswered(e answered) (life, []action) {
	if errors.Is(e.err, context.DeadlineExceeded) {
		l.tries += lateTries
	}
	if e.steps == 0 && l.tries >= lonelyTries {
		return l.end("no step runs here, and slurmctld does not answer; the node record may still be there: " + e.err.Error())
	}
	return l.again(e.err.Error())
}

// finish waits for the node's jobs to end.
func (l life) finish(steps int) (life, []action) {
	l.doing, l.running = finishing, 0
	switch {
	case l.stage >= toRequeue:
		return l.again("jobs are being ended")
	case steps > 0:
		// The end of one is told, and slurmctld is not asked before.
		l.reason, l.tries = "jobs run on it", 0
		l.looks++
		if l.stepEnded {
			l.stepEnded = false
			return l.lookAgain()
		}
		l.running = steps
		return l.wait(countEvery)
	case len(l.jobs) > 0 && !slices.ContainsFunc(l.jobs, func(j slurm.Job) bool { return j.Running() }):
		// An epilog, or what a step has left: seconds, and nothing tells of its end.
		return l.again("its jobs are completing")
	case l.tries >= watchedTries:
		l.reason = "jobs hold it, without a step here"
		return l.wait(watchedPause)
	}
	return l.again("jobs hold it, without a step here")
}

// countSteps looks for ends of steps that the kernel has not told.
func (l life) countSteps() (life, []action) {
	l.question++
	return l, []action{countSteps{l.question}}
}

func (l life) fewer(e stepsCounted) (life, []action) {
	switch {
	case e.number != l.question || l.doing != finishing || l.running == 0:
		return l, nil
	case e.steps < l.running:
		return l.lookAgain()
	}
	return l.wait(countEvery)
}

// countEvery is how often the steps that are waited for are counted.
const countEvery = time.Minute

// lonelyTries is after how many questions in vain, a minute or more, a node
// without a step leaves: where a whole cluster is taken down, slurmctld will
// not come back, and the grace period may be days.
const lonelyTries = 17

// lateTries is how many further tries a question counts for that has taken all
// of questionLimit: where slurmctld's Service is gone with it, none takes less.
const lateTries = int(questionLimit/lastTry) + 1

// lastLook is how long after a step's end the record is looked at when many
// looks have been in vain: a job may have a thousand short steps.
const lastLook = 500 * time.Millisecond

// unseenTries is for how many questions, most of a second, a slurmd that has
// just said READY is given to register: it does so within 50 ms.
const unseenTries = 4

// mostRefusals is how often slurmctld may refuse to delete a record that is
// drained and free of jobs: a reservation holds it, and it stays.
const mostRefusals = 3

// withdrawDone takes the outcome of what was done to the record or to jobs.
func (l life) withdrawDone(e carriedOut) (life, []action) {
	doing := l.doing
	l.doing = withdrawing
	switch {
	case doing == burying:
		return l.buried(e.err)
	case doing == deleting && errors.Is(e.err, slurm.ErrBusy):
		l.refusals++
		return l.again("slurmctld keeps the node's record: " + e.err.Error())
	case e.err != nil:
		return l.again(e.err.Error())
	case doing == deleting:
		// A registration that slurmd had on its way makes the record anew, and jobs would come.
		l = l.unlisted()
	case doing == requeueing:
		l.acted = toRequeue
	case doing == failing:
		l.acted = toFail
		l, actions := l.lookAtRecord()
		return l, append(actions, endSteps{})
	}
	return l.lookAtRecord()
}

// stage is what a deadline of the way down is for.
type stage int

// The stages, in their order.
const (
	toWait stage = iota // none is over
	toSignal
	toRequeue
	toKill
	toFail
	toLeave
	toStop
)

// due: one of the deadlines is over.
func (l life) due(e deadline) (life, []action) {
	if l.state != Stopping || l.doing == ending {
		return l, nil
	}
	if l.passed[e.stage] {
		return l, nil // it was brought forward
	}
	l.passed[e.stage], l.stage = true, max(l.stage, e.stage)
	if l.hosts {
		return l.partingDue(e.stage)
	}
	switch {
	case e.stage == toSignal:
		return l, []action{signalJobs{}}
	case e.stage == toKill:
		return l, []action{killRequeued{}}
	case e.stage == toLeave && !l.isSilent():
		l, actions := l.lookAtRecord()
		return l, append(actions, l.endSteps()...)
	case e.stage == toLeave:
		return l, l.endSteps()
	case e.stage == toStop && l.acted < toRequeue:
		l, actions := l.end(l.undone())
		return l, append([]action{killSteps{}}, actions...)
	case e.stage == toStop:
		l, actions := l.end(l.undone())
		return l, append([]action{endSteps{kill: true}}, actions...)
	case l.isSilent():
		return l, nil // when slurmd is up again
	}
	return l.lookAtRecord()
}

// endSteps: those of failed jobs have been asked before. slurmd does not stop
// as long as it ends steps, which takes up to KillWait. A slurmctld that could not
// be told to requeue the jobs must not be told either that they have ended, which
// they did not by themselves: it misses them, and requeues them then.
func (l life) endSteps() []action {
	if l.acted < toRequeue {
		return []action{holdSteps{}, endSteps{}}
	}
	return []action{endSteps{kill: l.acted >= toFail}}
}

// undone says what was not done when the time was over.
func (l life) undone() string {
	if !l.inService() {
		return ""
	}
	text := "the time is over, and the node record may still be there: " + l.reason
	if len(l.jobs) > 0 {
		text += "; jobs " + jobList(l.jobs)
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
