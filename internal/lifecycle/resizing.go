package lifecycle

import (
	"fmt"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// leave waits until nothing and nobody holds a record of another size. New
// jobs are kept away meanwhile; then it is deleted and slurmd registers anew.
func (l State) leave(n *slurm.Node) (State, []Action) {
	l.Activity = Leaving
	if l.Phase.Serving() {
		l.Phase = Resizing
	}
	if l.Elastic {
		l.Activity = Confirming
		return l.confirmElastic(n)
	}
	switch {
	case n == nil:
		l.pace.made[RenewNode]++ // somebody else's deletion is one of its kind
		l.pace.rested = false
		return l.unlisted().replace("the old record is gone")
	case l.fits(n):
		l.Activity = Confirming
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
		return l.attempt(Draining, Change{Verb: DrainNode, Reason: reasons.Resized})
	case n.Busy():
		return l.stillBusy(what)
	}
	l.Reason = what
	return l.deleteRecord()
}

// stillBusy waits for the jobs on the record. Some may be there no more: one
// that has died with an earlier pod is missed by slurmctld only when slurmd
// registers, and not while it is thought to be starting.
func (l State) stillBusy(what string) (State, []Action) {
	what += "; jobs run on it"
	if l.Phase == Resizing && l.Tries >= watchedTries {
		l.Reason = what
		return l.wait(WatchedPause)
	}
	l, actions := l.again(what)
	if l.Tries == missedTries && l.Phase == Starting && l.Main != 0 {
		actions = append(actions, SignalMain{SigHup})
	}
	return l, actions
}
