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
func (m machine) unlisted() machine {
	m.listed, m.Inherits = false, false
	return m
}

// leaveUnlisted ends slurmd without more ado: slurmctld does not know this node. A
// slurmd that hands over meanwhile makes it known.
func (m machine) leaveUnlisted() (machine, []any) {
	ends := m.Activity == supervisor.Replacing
	m, actions := m.end("")
	if !ends {
		return m, actions // it has not been READY
	}
	m, deadlines := m.bind()
	return m, append(deadlines, actions...)
}

// terminate begins the way down, or ends it where somebody is impatient: SIGINT twice, in a terminal.
func (m machine) terminate(e supervisor.Terminated) (machine, []any) {
	if e.Again {
		return m.end("SIGINT received twice")
	}
	m.pace = pace{}
	if !m.InService() {
		return m.leaveUnlisted()
	}
	return m.takeOutOfService(e.Idle)
}

// bind schedules the deadlines of the way down.
func (m machine) bind() (machine, []any) {
	m.Bound = true
	return m, m.ToCome(0, m.stages()...)
}

// takeOutOfService takes the node out of service: no new jobs, the running ones to
// their end, and then the record. Deadlines bound all of it.
func (m machine) takeOutOfService(idle bool) (machine, []any) {
	m, actions := m.bind()
	var more []any
	switch {
	case m.Activity == supervisor.AwaitingDescription:
		m, more = m.end("slurmd cannot be started, and " + m.mayRemain() + ": " + m.Unstartable)
	case m.Activity == supervisor.Replacing:
		m, more = m.wait(m.StartLimit()) // its end starts the next one
	case m.Main == 0 && !m.StartAsked:
		m, more = m.relaunch()
	case m.Activity == supervisor.Launching:
		m, more = m.wait(m.StartLimit()) // READY comes, or the daemon's end
	case m.Activity == supervisor.Idle && m.Seen && idle && !m.Elastic:
		// slurmctld refuses if a job has come: nothing needs to be asked.
		m, more = m.deleteRecord()
	default:
		m, more = m.lookAtRecord()
	}
	return m, append(actions, more...)
}

func (m machine) deleteRecord() (machine, []any) {
	verb := DeleteNode
	if m.Phase != supervisor.Stopping {
		verb = RenewNode
	}
	return m.attempt(supervisor.Deleting, Change{Verb: verb})
}

func (m machine) lookAtRecord() (machine, []any) {
	m.Activity, m.Tries, m.running = supervisor.LookingAtRecord, 0, 0
	return m.ask()
}

// actOnRecord takes slurmctld's word on the record. No answer is none: a node is
// idle, drained or gone only when slurmctld has said so.
func (m machine) actOnRecord(e Answered) (machine, []any) {
	n := e.Node
	doubted := e.Doubtful && !m.keepsIt
	m.doubted = nil
	if e.Err == nil {
		m.listed = m.listed || n != nil
	}
	if e.Err == nil && (!doubted || e.Counted) {
		m.Jobs = e.Jobs
	}
	switch {
	case !m.listed && m.Seen:
		return m.end("")
	case e.Err != nil:
		return m.unanswered(e)
	case n != nil && m.Elastic && n.Elastic():
		return m.actOnElastic(e)
	case !m.Seen && m.Tries < unseenTries && (n == nil || !n.Busy() || doubted):
		return m.again("slurmctld has not seen this slurmd yet, which would make the node record anew")
	case n == nil:
		return m.unlisted().end("")
	case m.isNeeded(e) && doubted && m.actionDue() && !m.mustDrain(n):
		return m.awaitJobs(e)
	case m.isNeeded(e) && (doubted || !n.Busy()):
		return m.awaitElsewhere(e)
	case !n.Busy() && m.Acted >= deadlines.Fail && e.Steps > 0 && m.Stage < deadlines.Leave:
		// Its jobs have failed; what runs here still has a moment to end in order.
		m.Activity, m.Reason = supervisor.Finishing, "the steps of failed jobs are ending"
		return m, nil
	case !n.Busy() && n.Drained() && m.refusals >= mostRefusals:
		return m.end(m.Reason)
	case !n.Busy() && (n.Drained() || m.refusals == 0):
		return m.deleteRecord()
	case doubted:
		m.doubted = &e
		return m.deleteRecord() // slurmctld refuses if a job holds the node, whatever sinfo shows
	case m.mustDrain(n):
		return m.attempt(supervisor.Draining, Change{Verb: DrainNode, Reason: reasons.Terminating})
	}
	return m.awaitJobs(e)
}

// mustDrain: new jobs could come. A drain that slurmctld refuses, or that somebody lifts, holds up nothing that is due.
func (m machine) mustDrain(n *slurm.Node) bool {
	return !n.Drained() && (m.pace.made[DrainNode] == 0 || !m.actionDue())
}

// isNeeded: jobs that have run here are ending on other nodes. slurmctld knows the nodes of a job by
// their names when it has been configured anew, and then waits for ever for one without a record.
func (m machine) isNeeded(e Answered) bool { return len(e.Elsewhere) > 0 && m.Stage < deadlines.Leave }

// awaitElsewhere keeps the record of a node without jobs until its last ones have ended on other nodes.
func (m machine) awaitElsewhere(e Answered) (machine, []any) {
	if m.mustDrain(e.Node) {
		return m.attempt(supervisor.Draining, Change{Verb: DrainNode, Reason: reasons.Terminating})
	}
	m.Activity, m.running, m.Jobs = supervisor.Finishing, 0, e.Elsewhere
	return m.again("jobs that ran here are ending on other nodes")
}

// awaitJobs waits for the jobs of a node that takes no new ones, and does what is due about them.
func (m machine) awaitJobs(e Answered) (machine, []any) {
	n := e.Node
	switch {
	case n.Is("NOT_RESPONDING") && m.Seen && !m.HasSackd && !m.revived:
		m.revived = true
		return m.replaceSoon("slurmctld has no answer of slurmd")
	case m.awaitsReportsAlone(e):
		m.Activity, m.running = supervisor.Finishing, 0
		return m.again(UnreportedReason)
	case e.Unreported > 0 && m.Stage >= deadlines.Leave && m.Acted < deadlines.Requeue && m.pace.made[RequeueJobs] == 0:
		m.Reason = UnreportedReason
		return m.attempt(supervisor.Requeueing, Change{Verb: RequeueJobs, Last: true})
	case (m.Stage >= deadlines.Fail && !m.awaitsReports(e) || m.onlyCompleting(e)) && m.Acted < deadlines.Fail:
		m.Reason = "the time for jobs to end is over"
		return m.attempt(m.lastResort(n))
	case m.Stage >= deadlines.Requeue && m.Acted < deadlines.Requeue:
		m.Reason = "the time for jobs is over"
		return m.attempt(supervisor.Requeueing, Change{Verb: RequeueJobs})
	case m.mayHaveStaleJobs(e.Steps) && m.Stage < deadlines.Requeue:
		return m.lookForStaleJobs()
	}
	return m.finish(n, e.Steps)
}

// unanswered asks again. A slurmctld that does not answer a node without a step is
// not waited for to the end.
func (m machine) unanswered(e Answered) (machine, []any) {
	if e.Late {
		m.Tries += lateTries
	}
	if e.Steps == 0 && m.Tries >= TriesWithoutSteps {
		return m.end("no step runs here, and slurmctld does not answer; " + m.mayRemain() + ": " + e.Err.Error())
	}
	return m.again(e.Err.Error())
}

// isRefusal: slurmctld has refused to delete a record that it has.
func isRefusal(err error) bool {
	return err != nil && !errors.Is(err, slurm.ErrNoNode) && !errors.Is(err, slurm.ErrUnreachable)
}

// finish waits for the node's jobs to end.
func (m machine) finish(n *slurm.Node, steps int) (machine, []any) {
	m.Activity, m.running = supervisor.Finishing, 0
	switch {
	case m.keepsIt && steps == 0:
		return m.changeAgain("jobs hold it, without a step here")
	case m.Stage >= deadlines.Requeue:
		return m.again("jobs are being ended")
	case steps > 0:
		// The end of one is reported, and slurmctld is not asked before.
		m.Reason, m.Tries = "jobs run on it", 0
		m.looks++
		if m.stepEnded {
			m.stepEnded = false
			return m.lookAgain()
		}
		m.running = steps
		return m.wait(CountEvery)
	case !n.Allocated(), len(m.Jobs) > 0 && !slices.ContainsFunc(m.Jobs, func(j slurm.Job) bool { return j.Running() }):
		// An epilog, or what a step has left: seconds, and nothing reports its end.
		return m.again("its jobs are completing")
	case m.Tries >= WatchedTries:
		m.Reason = "jobs hold it, without a step here"
		return m.wait(WatchedPause)
	}
	return m.again("jobs hold it, without a step here")
}

// recountSteps looks for ends of steps that the kernel has not reported.
func (m machine) recountSteps() (machine, []any) {
	m.Question++
	return m, []any{CountSteps{m.Question}}
}

func (m machine) fewer(e StepsCounted) (machine, []any) {
	switch {
	case e.Number != m.Question || m.Activity != supervisor.Finishing || m.running == 0:
		return m, nil
	case e.Steps < m.running:
		return m.lookAgain()
	}
	return m.wait(CountEvery)
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
func (m machine) changeDone(e Done) (machine, []any) {
	doing, doubted := m.Activity, m.doubted
	m.Activity, m.doubted = supervisor.LookingAtRecord, nil
	switch {
	case doing == supervisor.EndingStaleJobs:
		return m.staleJobsEnded(e.Err)
	case doing == supervisor.Deleting && errors.Is(e.Err, slurm.ErrKept):
		m = m.unlisted() // slurmctld counts on the next pod of the name
		m.deleted = false
		m, actions := m.end("")
		m.Reason = e.Err.Error()
		return m, actions
	case doubted != nil && isRefusal(e.Err):
		m.keepsIt = true
		return m.actOnRecord(*doubted)
	case doing == supervisor.Deleting && errors.Is(e.Err, slurm.ErrNoNode):
		return m.actOnRecord(Answered{Number: e.Number})
	case doing == supervisor.Deleting && errors.Is(e.Err, slurm.ErrBusy):
		m.listed, m.deleted = true, false
		m.refusals++
		return m.changeAgain("slurmctld keeps the node's record: " + e.Err.Error())
	case doing == supervisor.Deleting && m.deleted && e.Err != nil:
		return m.actOnRecord(Answered{Number: e.Number, Err: e.Err})
	case e.Err != nil:
		return m.changeAgain(e.Err.Error())
	case doing == supervisor.Deleting && !m.deleted:
		// A registration that slurmd had on its way makes the record anew, and jobs would come.
		// To delete it once more costs slurmctld nothing where there is none.
		m = m.unlisted()
		m.deleted = true
		return m.begins(supervisor.Deleting, Change{Verb: DeleteAgain})
	case doing == supervisor.Deleting:
		m = m.unlisted()
		m.deleted = false
	case doing == supervisor.Requeueing:
		m.Acted = deadlines.Requeue
	case doing == supervisor.Failing, doing == supervisor.PoweringOff:
		m.Acted = deadlines.Fail
		m, actions := m.lookAtRecord()
		return m, append(actions, EndSteps{})
	case doing == supervisor.Draining && m.pace.last == PowerDownNode && !m.pace.repeats():
		return m.poweredDown()
	case doing == supervisor.Draining && m.pace.repeats():
		return m.changeAgain("somebody has lifted the drain of a node that is being taken out of service")
	}
	return m.lookAtRecord()
}

// due: one of the deadlines is over.
func (m machine) due(e deadlines.DeadlinePassed) (machine, []any) {
	if m.Over[e.Stage] {
		return m, nil // it was brought forward
	}
	m.TimeLeft, m.pace, m.keepsIt = m.Pass(e.Stage), pace{}, false
	if m.Activity == supervisor.Ending {
		return m, nil // a slurmd that hands over begins anew, but for what is over
	}
	switch {
	case e.Stage == deadlines.Signal:
		return m, []any{SignalJobs{}}
	case e.Stage == deadlines.Kill:
		return m, []any{KillRequeued{}}
	// else the answer leads to the record
	case e.Stage == deadlines.Leave && !m.cannotAsk() && m.Activity != supervisor.Failing && m.Activity != supervisor.PoweringOff:
		m, actions := m.lookAtRecord()
		return m, append(actions, m.endRemainingSteps()...)
	case e.Stage == deadlines.Leave:
		return m, m.endRemainingSteps()
	case e.Stage == deadlines.Stop && m.Acted < deadlines.Requeue:
		m, actions := m.end(m.undone())
		return m, append([]any{KillSteps{}}, actions...)
	case e.Stage == deadlines.Stop:
		m, actions := m.end(m.undone())
		return m, append([]any{EndSteps{Kill: true}}, actions...)
	case m.cannotAsk():
		return m, nil // when slurmd is up again
	}
	return m.lookAtRecord()
}

// endRemainingSteps: those of failed jobs have been asked before. slurmd does not stop
// as long as it ends steps, which takes up to KillWait. A slurmctld that could not
// have them requeued must not learn either that they have ended, which
// they did not by themselves: it misses them, and requeues them then.
func (m machine) endRemainingSteps() []any {
	if m.Acted < deadlines.Requeue {
		return []any{HoldSteps{}, EndSteps{}}
	}
	return []any{EndSteps{Kill: m.Acted >= deadlines.Fail}}
}

// undone says what was not done when the time was over.
func (m machine) undone() string {
	if !m.InService() {
		return ""
	}
	text := "the time is over, and " + m.mayRemain() + ": " + m.Reason
	if len(m.Jobs) > 0 {
		text += "; jobs " + jobList(m.Jobs)
	}
	return text
}

func jobList(jobs []slurm.Job) string {
	var names []string
	for _, j := range jobs {
		names = append(names, fmt.Sprintf("%s of %s", j.JobID(), j.User))
	}
	return strings.Join(names, ", ")
}
