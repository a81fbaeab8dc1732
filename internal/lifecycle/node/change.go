package node

import (
	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
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
