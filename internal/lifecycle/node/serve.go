package node

import (
	"errors"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// serve makes the node Ready.
func (m machine) serve() (machine, []any) {
	m.Supervisor = m.Serve()
	m.Seen, m.looks, m.pace, m.Fresh = m.registered(), 0, pace{}, false
	switch {
	case m.MainSince.Before(m.FilesSince): // it was on its way already
		return m.sendHUP()
	case m.unclaimed:
		return m.toFindLost()
	}
	return m, nil
}

// doubt asks what a daemon that serves has complained of, until it answers.
func (m machine) doubt() (machine, []any) {
	if m.Phase != supervisor.Ready || m.Activity != supervisor.Idle || !m.Reaches {
		return m, nil
	}
	m.Activity, m.Tries = supervisor.Doubting, 0
	return m.ask()
}

// describe brings features, topology and weight up to date, once for each
// change of theirs: slurmctld may write them another way than they were given.
func (m machine) describe(n *slurm.Node) (machine, []any) {
	fields := m.updates(n)
	if m.Traits == m.settled || len(fields) == 0 {
		m.settled, m.Refusal = m.Traits, ""
		return m.serve()
	}
	m.settled = nodesize.Traits{}
	return m.begins(supervisor.Describing, Change{Verb: UpdateNode, Fields: fields})
}

// described: slurmctld has changed the record, or refuses to. A refusal does
// not keep the node from its work.
func (m machine) described(err error) (machine, []any) {
	if errors.Is(err, slurm.ErrUnreachable) {
		return m.again(err.Error())
	}
	m.settled, m.Refusal = m.Traits, ""
	if err != nil {
		m.Refusal = err.Error()
	}
	return m.serve()
}

// A job of which nothing runs here is one that slurmctld has only begun to start:
// the node's container or its slurmd died, or slurmctld itself was stopped with the launch still
// to be sent. It is RUNNING for slurmctld until slurmd registers, which it asks
// for every twenty minutes or so.

// mostReconciles is how often slurmd registers again for them: the first time may be
// too early for slurmctld (BatchStartTimeout).
const mostReconciles = 3

// recheckClaims: slurmctld has been started anew, and may take jobs for running of which nothing runs here.
func (m machine) recheckClaims() (machine, []any) {
	m = m.doubtClaims()
	m.lookedEarly = true // its pod is the same
	if m.Phase != supervisor.Ready || m.Activity != supervisor.Idle {
		return m, nil // becomeReady looks at it
	}
	return m.toFindLost()
}

// doubtClaims: slurmctld may count jobs here of which nothing runs.
func (m machine) doubtClaims() machine {
	m.unclaimed, m.reconciles, m.lookedEarly = true, 0, false
	return m
}

// toFindLost gives slurmctld time to send what it starts. On an elastic node it does not end what began before
// the pod, which the agent does (agent, endForgotten): no time makes that live again.
func (m machine) toFindLost() (machine, []any) {
	if m.Elastic && !m.lookedEarly {
		return m.wait(forgottenAfter)
	}
	return m.wait(MissedAfter)
}

// findLost looks for such jobs.
func (m machine) findLost() (machine, []any) {
	if !m.unclaimed || m.Phase != supervisor.Ready || m.Main == 0 {
		return m, nil
	}
	m.Question++
	return m, []any{FindLostJobs{m.Question}}
}

// reconcile has slurmd register again, which reports all jobs to slurmctld that run here.
func (m machine) reconcile(e LostJobsFound) (machine, []any) {
	switch {
	case m.Phase != supervisor.Ready || e.Number != m.Question || m.Activity != supervisor.Idle:
		return m, nil
	case e.Err != nil:
		return m.wait(MissedAfter)
	case m.Elastic && !m.lookedEarly && len(e.Lost) == 0:
		m.lookedEarly = true
		return m.toFindLost()
	}
	m.reconciles, m.lookedEarly = m.reconciles+1, true
	m.unclaimed = len(e.Lost) > 0 && m.reconciles < mostReconciles
	if len(e.Lost) == 0 {
		return m, nil
	}
	return m.sendHUP() // becomeReady looks again
}
