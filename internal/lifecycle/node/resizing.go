package node

import (
	"fmt"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// measure: the pod was looked at again. What cannot be used changes nothing:
// the last good size and traits stay.
func (m machine) measure(e Measured) (machine, []any) {
	m.State = m.WithGrace(e)
	switch {
	case e.Err != nil && m.Unstartable != "":
		m.Unstartable = e.Err.Error()
		return m.begin()
	case e.Err != nil:
		m.Fault = e.Err.Error()
		return m, nil
	}
	resized := e.Size != m.Size
	if resized {
		m.pace = pace{}
	}
	m.Unstartable, m.Fault = "", ""
	m.Allocation = &nodesize.Allocation{Resources: e.Resources, Size: e.Size, Traits: e.Traits.After(m.Traits), Grace: e.Grace}
	switch {
	case m.Activity == supervisor.AwaitingDescription:
		return m.begin()
	case !m.Phase.Serving():
		return m, nil // what comes next takes the new values
	case resized && m.Activity != supervisor.Replacing:
		m.Phase, m.Activity, m.Tries = supervisor.Resizing, supervisor.Leaving, 0
		return m.ask()
	case m.Phase == supervisor.Ready && (m.Traits != m.settled || m.Activity == supervisor.Describing):
		m.Activity, m.Tries = supervisor.Describing, 0
		return m.ask()
	}
	return m, nil
}

// lookAgain: the record may be free now. A job ends with several steps at once.
func (m machine) lookAgain() (machine, []any) {
	switch m.Activity {
	case supervisor.Leaving:
		if m.pace.resting == m.Timer {
			return m, nil // the pause ends by itself
		}
		m.Tries = 0
		m.looks++
		return m.wait(backoff.Grow(supervisor.Settle, m.looks-1, lastLook))
	case supervisor.Finishing:
		m.Tries, m.running, m.keepsIt = 0, 0, false
		return m.wait(backoff.Grow(supervisor.Settle, m.looks, lastLook))
	case supervisor.LookingAtRecord:
		m.stepEnded = true // the answer that is on its way may not know of it
	}
	return m, nil
}

// leave waits until nothing and nobody holds a record of another size. New
// jobs are kept away meanwhile; then it is deleted and slurmd registers anew.
func (m machine) leave(n *slurm.Node) (machine, []any) {
	m.Activity = supervisor.Leaving
	if m.Phase.Serving() {
		m.Phase = supervisor.Resizing
	}
	if m.Elastic {
		m.Activity = supervisor.Confirming
		return m.confirmElastic(n)
	}
	switch {
	case n == nil:
		m.pace.made[RenewNode]++ // somebody else's deletion is one of its kind
		m.pace.rested = false
		return m.unlisted().replace("the old record is gone")
	case m.fits(n):
		m.Activity = supervisor.Confirming
		return m.confirmRecord(n)
	}
	what := "the record is of another size: " + m.Size.Diff(n)
	if m.Size.Diff(n) == "" {
		what = "slurmctld has refused what slurmd registered: " + n.Reason
	}
	switch {
	case m.Size.Diff(n) == "" && refusedGres(n):
		return m.again(fmt.Sprintf("%s: the cluster's gres.conf must say \"Include %s\"", what, m.GresConf))
	case Foreign(n):
		return m.again(fmt.Sprintf("%s; somebody else has drained the node, which would be lost with the record: %s", what, n.Reason))
	case !n.Drained():
		m.Reason = what + "; draining it"
		return m.attempt(supervisor.Draining, Change{Verb: DrainNode, Reason: reasons.Resized})
	case n.Busy():
		return m.stillBusy(what)
	}
	m.Reason = what
	return m.deleteRecord()
}

// stillBusy waits for the jobs on the record. Some may be there no more: one
// that has died with an earlier pod is missed by slurmctld only when slurmd
// registers, and not while it is thought to be starting.
func (m machine) stillBusy(what string) (machine, []any) {
	what += "; jobs run on it"
	if m.Phase == supervisor.Resizing && m.Tries >= WatchedTries {
		m.Reason = what
		return m.wait(WatchedPause)
	}
	m, actions := m.again(what)
	if m.Tries == MissedTries && m.Phase == supervisor.Starting && m.Main != 0 {
		actions = append(actions, supervisor.SignalMain{Signal: supervisor.SigHup})
	}
	return m, actions
}
