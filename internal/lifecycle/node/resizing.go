package node

import (
	"fmt"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// measure: the pod was looked at again. What cannot be used changes nothing:
// the last good size and traits stay.
func (l machine) measure(e Measured) (machine, []any) {
	l.State = l.WithGrace(e)
	switch {
	case e.Err != nil && l.Unstartable != "":
		l.Unstartable = e.Err.Error()
		return l.begin()
	case e.Err != nil:
		l.Fault = e.Err.Error()
		return l, nil
	}
	resized := e.Size != l.Size
	if resized {
		l.pace = pace{}
	}
	l.Unstartable, l.Fault = "", ""
	l.Allocation = &nodesize.Allocation{Resources: e.Resources, Size: e.Size, Traits: e.Traits.After(l.Traits), Grace: e.Grace}
	switch {
	case l.Activity == supervisor.AwaitingDescription:
		return l.begin()
	case !l.Phase.Serving():
		return l, nil // what comes next takes the new values
	case resized && l.Activity != supervisor.Replacing:
		l.Phase, l.Activity, l.Tries = supervisor.Resizing, supervisor.Leaving, 0
		return l.ask()
	case l.Phase == supervisor.Ready && (l.Traits != l.settled || l.Activity == supervisor.Describing):
		l.Activity, l.Tries = supervisor.Describing, 0
		return l.ask()
	}
	return l, nil
}

// lookAgain: the record may be free now. A job ends with several steps at once.
func (l machine) lookAgain() (machine, []any) {
	switch l.Activity {
	case supervisor.Leaving:
		if l.pace.resting == l.Timer {
			return l, nil // the pause ends by itself
		}
		l.Tries = 0
		l.looks++
		return l.wait(backoff.Grow(supervisor.Settle, l.looks-1, lastLook))
	case supervisor.Finishing:
		l.Tries, l.running, l.keepsIt = 0, 0, false
		return l.wait(backoff.Grow(supervisor.Settle, l.looks, lastLook))
	case supervisor.LookingAtRecord:
		l.stepEnded = true // the answer that is on its way may not know of it
	}
	return l, nil
}

// leave waits until nothing and nobody holds a record of another size. New
// jobs are kept away meanwhile; then it is deleted and slurmd registers anew.
func (l machine) leave(n *slurm.Node) (machine, []any) {
	l.Activity = supervisor.Leaving
	if l.Phase.Serving() {
		l.Phase = supervisor.Resizing
	}
	if l.Elastic {
		l.Activity = supervisor.Confirming
		return l.confirmElastic(n)
	}
	switch {
	case n == nil:
		l.pace.made[RenewNode]++ // somebody else's deletion is one of its kind
		l.pace.rested = false
		return l.unlisted().replace("the old record is gone")
	case l.fits(n):
		l.Activity = supervisor.Confirming
		return l.confirmRecord(n)
	}
	what := "the record is of another size: " + l.Size.Diff(n)
	if l.Size.Diff(n) == "" {
		what = "slurmctld has refused what slurmd registered: " + n.Reason
	}
	switch {
	case l.Size.Diff(n) == "" && refusedGres(n):
		return l.again(fmt.Sprintf("%s: the cluster's gres.conf must say \"Include %s\"", what, l.GresConf))
	case Foreign(n):
		return l.again(fmt.Sprintf("%s; somebody else has drained the node, which would be lost with the record: %s", what, n.Reason))
	case !n.Drained():
		l.Reason = what + "; draining it"
		return l.attempt(supervisor.Draining, Change{Verb: DrainNode, Reason: reasons.Resized})
	case n.Busy():
		return l.stillBusy(what)
	}
	l.Reason = what
	return l.deleteRecord()
}

// stillBusy waits for the jobs on the record. Some may be there no more: one
// that has died with an earlier pod is missed by slurmctld only when slurmd
// registers, and not while it is thought to be starting.
func (l machine) stillBusy(what string) (machine, []any) {
	what += "; jobs run on it"
	if l.Phase == supervisor.Resizing && l.Tries >= WatchedTries {
		l.Reason = what
		return l.wait(WatchedPause)
	}
	l, actions := l.again(what)
	if l.Tries == MissedTries && l.Phase == supervisor.Starting && l.Main != 0 {
		actions = append(actions, supervisor.SignalMain{Signal: supervisor.SigHup})
	}
	return l, actions
}
