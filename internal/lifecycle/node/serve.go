package node

import (
	"errors"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// serve makes the node Ready.
func (l machine) serve() (machine, []any) {
	l.Supervisor = l.Serve()
	l.Seen, l.looks, l.pace, l.Fresh = l.registered(), 0, pace{}, false
	switch {
	case l.MainSince.Before(l.FilesSince): // it was on its way already
		return l.sendHUP()
	case l.unclaimed:
		return l.toFindLost()
	}
	return l, nil
}

// doubt asks what a daemon that serves has complained of, until it answers.
func (l machine) doubt() (machine, []any) {
	if l.Phase != supervisor.Ready || l.Activity != supervisor.Idle || !l.Reaches {
		return l, nil
	}
	l.Activity, l.Tries = supervisor.Doubting, 0
	return l.ask()
}

// describe brings features, topology and weight up to date, once for each
// change of theirs: slurmctld may write them another way than they were given.
func (l machine) describe(n *slurm.Node) (machine, []any) {
	fields := l.updates(n)
	if l.Traits == l.settled || len(fields) == 0 {
		l.settled, l.Refusal = l.Traits, ""
		return l.serve()
	}
	l.settled = nodesize.Traits{}
	return l.begins(supervisor.Describing, Change{Verb: UpdateNode, Fields: fields})
}

// described: slurmctld has changed the record, or refuses to. A refusal does
// not keep the node from its work.
func (l machine) described(err error) (machine, []any) {
	if errors.Is(err, slurm.ErrUnreachable) {
		return l.again(err.Error())
	}
	l.settled, l.Refusal = l.Traits, ""
	if err != nil {
		l.Refusal = err.Error()
	}
	return l.serve()
}

// A job of which nothing runs here is one that slurmctld has only begun to start:
// the node's container or its slurmd died, or slurmctld itself was stopped with the launch still
// to be sent. It is RUNNING for slurmctld until slurmd registers, which it asks
// for every twenty minutes or so.

// mostReconciles is how often slurmd registers again for them: the first time may be
// too early for slurmctld (BatchStartTimeout).
const mostReconciles = 3

// recheckClaims: slurmctld has been started anew, and may take jobs for running of which nothing runs here.
func (l machine) recheckClaims() (machine, []any) {
	l = l.doubtClaims()
	l.lookedEarly = true // its pod is the same
	if l.Phase != supervisor.Ready || l.Activity != supervisor.Idle {
		return l, nil // becomeReady looks at it
	}
	return l.toFindLost()
}

// doubtClaims: slurmctld may count jobs here of which nothing runs.
func (l machine) doubtClaims() machine {
	l.unclaimed, l.reconciles, l.lookedEarly = true, 0, false
	return l
}

// toFindLost gives slurmctld time to send what it starts. On an elastic node it does not end what began before
// the pod, which the agent does (agent, endForgotten): no time makes that live again.
func (l machine) toFindLost() (machine, []any) {
	if l.Elastic && !l.lookedEarly {
		return l.wait(forgottenAfter)
	}
	return l.wait(MissedAfter)
}

// findLost looks for such jobs.
func (l machine) findLost() (machine, []any) {
	if !l.unclaimed || l.Phase != supervisor.Ready || l.Main == 0 {
		return l, nil
	}
	l.Question++
	return l, []any{FindLostJobs{l.Question}}
}

// reconcile has slurmd register again, which reports all jobs to slurmctld that run here.
func (l machine) reconcile(e LostJobsFound) (machine, []any) {
	switch {
	case l.Phase != supervisor.Ready || e.Number != l.Question || l.Activity != supervisor.Idle:
		return l, nil
	case e.Err != nil:
		return l.wait(MissedAfter)
	case l.Elastic && !l.lookedEarly && len(e.Lost) == 0:
		l.lookedEarly = true
		return l.toFindLost()
	}
	l.reconciles, l.lookedEarly = l.reconciles+1, true
	l.unclaimed = len(e.Lost) > 0 && l.reconciles < mostReconciles
	if len(e.Lost) == 0 {
		return l, nil
	}
	return l.sendHUP() // becomeReady looks again
}
