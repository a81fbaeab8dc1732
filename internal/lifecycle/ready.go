package lifecycle

import (
	"errors"

	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// whileReady takes an event of a container that serves.
func (l State) whileReady(e Event) (State, []Action) {
	switch e := e.(type) {
	case Troubled:
		return l.doubt()
	case Outdated:
		return l.refetch()
	case LostJobsFound:
		return l.reconcile(e)
	}
	return l.beforeStopping(e)
}

func (l State) becomeReady() (State, []Action) {
	first := !l.WasReady
	l.Phase, l.Activity, l.Reason, l.Tries, l.WasReady = Ready, Idle, "", 0, true
	l.seen, l.looks, l.pace, l.Fresh, l.listens = l.registered(), 0, pace{}, false, true
	switch {
	case l.unread != nothing:
		return l.wait(peace)
	case l.MainSince.Before(l.filesSince): // it was on its way already
		return l.hangUp()
	case l.Reloads:
		return l.configure(conf.Served{First: first})
	case l.unclaimed:
		return l.toFindLost()
	}
	return l, nil
}

// doubt asks what a daemon that serves has complained of, until it answers.
func (l State) doubt() (State, []Action) {
	if l.Activity != Idle || !l.Reaches {
		return l, nil
	}
	l.Activity, l.Tries = Doubting, 0
	return l.ask()
}

// refetch restarts slurmd or sackd, which ask for the configuration when they start
// only. Jobs and sessions live on.
func (l State) refetch() (State, []Action) {
	if l.Main == 0 || l.Activity == Replacing {
		return l, nil
	}
	l.Phase = Reloading
	return l.replace("the daemon has missed a configuration, and fetches it by its start")
}

// describe brings features, topology and weight up to date, once for each
// change of theirs: slurmctld may write them another way than they were given.
func (l State) describe(n *slurm.Node) (State, []Action) {
	fields := l.updates(n)
	if l.Traits == l.settled || len(fields) == 0 {
		l.settled, l.Refusal = l.Traits, ""
		return l.becomeReady()
	}
	l.settled = nodesize.Traits{}
	return l.begins(Describing, Change{Verb: UpdateNode, Fields: fields})
}

// described: slurmctld has changed the record, or refuses to. A refusal does
// not keep the node from its work.
func (l State) described(err error) (State, []Action) {
	if errors.Is(err, slurm.ErrUnreachable) {
		return l.again(err.Error())
	}
	l.settled, l.Refusal = l.Traits, ""
	if err != nil {
		l.Refusal = err.Error()
	}
	return l.becomeReady()
}

// A job of which nothing runs here is one that slurmctld has only begun to start:
// the node's container or its slurmd died, or slurmctld itself was stopped with the launch still
// to be sent. It is RUNNING for slurmctld until slurmd registers, which it asks
// for every twenty minutes or so.

// mostReconciles is how often slurmd registers again for them: the first time may be
// too early for slurmctld (BatchStartTimeout).
const mostReconciles = 3

// recheckClaims: slurmctld has been started anew, and may take jobs for running of which nothing runs here.
func (l State) recheckClaims() (State, []Action) {
	if !l.Registers {
		return l, nil
	}
	l = l.doubtClaims()
	l.lookedEarly = true // its pod is the same
	if l.Phase != Ready || l.Activity != Idle {
		return l, nil // becomeReady looks at it
	}
	return l.toFindLost()
}

// doubtClaims: slurmctld may count jobs here of which nothing runs.
func (l State) doubtClaims() State {
	l.unclaimed, l.reconciles, l.lookedEarly = true, 0, false
	return l
}

// toFindLost gives slurmctld time to send what it starts. On an elastic node it does not end what began before
// the pod, which the agent does (agent, endForgotten): no time makes that live again.
func (l State) toFindLost() (State, []Action) {
	if l.Elastic && !l.lookedEarly {
		return l.wait(forgottenAfter)
	}
	return l.wait(missedAfter)
}

// findLost looks for such jobs.
func (l State) findLost() (State, []Action) {
	if !l.unclaimed || l.Phase != Ready || l.Main == 0 {
		return l, nil
	}
	l.question++
	return l, []Action{FindLostJobs{l.question}}
}

// reconcile has slurmd register again, which tells slurmctld of all jobs that run here.
func (l State) reconcile(e LostJobsFound) (State, []Action) {
	switch {
	case e.Number != l.question || l.Activity != Idle:
		return l, nil
	case e.Err != nil:
		return l.wait(missedAfter)
	case l.Elastic && !l.lookedEarly && len(e.Lost) == 0:
		l.lookedEarly = true
		return l.toFindLost()
	}
	l.reconciles, l.lookedEarly = l.reconciles+1, true
	l.unclaimed = len(e.Lost) > 0 && l.reconciles < mostReconciles
	if len(e.Lost) == 0 {
		return l, nil
	}
	return l.hangUp() // becomeReady looks again
}
