package lifecycle

import (
	"errors"

	"github.com/slurmlet/slurmlet/internal/backoff"
	"github.com/slurmlet/slurmlet/internal/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// measure: the pod was looked at again. What cannot be used changes nothing:
// the last good size and traits stay.
func (l State) measure(e Measured) (State, []Action) {
	l = l.takeGrace(e)
	if l.Phase == Stopping {
		return l.hastenBy(e)
	}
	switch {
	case l.Phase == Exited:
		return l, nil
	case e.Err != nil && l.Held != "":
		l.Held = e.Err.Error()
		return l.begin()
	case e.Err != nil:
		l.Fault = e.Err.Error()
		return l, nil
	}
	resized := e.Size != l.Size
	l.Held, l.Fault = "", ""
	l.Allocation = &nodesize.Allocation{Resources: e.Resources, Size: e.Size, Traits: e.Traits.After(l.Traits), Grace: e.Grace}
	switch {
	case l.Activity == AwaitingDescription:
		return l.begin()
	case !l.Phase.Serving():
		return l, nil // what comes next takes the new values
	case resized && l.Activity != Replacing:
		l.Phase, l.Activity, l.Tries = Resizing, Leaving, 0
		return l.ask()
	case l.Phase == Ready && (l.Traits != l.settled || l.Activity == Describing):
		l.Activity, l.Tries = Describing, 0
		return l.ask()
	}
	return l, nil
}

// refetch restarts slurmd or sackd, which ask for the configuration when they start
// only. Jobs and sessions live on.
func (l State) refetch() (State, []Action) {
	if l.Phase != Ready || l.Main == 0 || l.Activity == Replacing {
		return l, nil
	}
	l.Phase = Reloading
	return l.replace("the daemon has missed a configuration, and fetches it by its start")
}

// lookAgain: the record may be free now. A job ends with several steps at once.
func (l State) lookAgain() (State, []Action) {
	switch l.Activity {
	case Leaving:
		l.Tries = 0
		return l.wait(settle)
	case Finishing:
		l.Tries, l.running = 0, 0
		return l.wait(backoff.Grow(settle, l.looks, lastLook))
	case Withdrawing:
		l.stepEnded = true // the answer that is on its way may not know of it
	}
	return l, nil
}

// describe brings features, topology and weight up to date, once for each
// change of theirs: slurmctld may write them another way than they were given.
func (l State) describe(n *slurm.Node) (State, []Action) {
	fields := l.Traits.Update(n)
	if l.Traits == l.settled || len(fields) == 0 {
		l.settled, l.Refusal = l.Traits, ""
		return l.ready()
	}
	l.Activity, l.settled = Describing, nodesize.Traits{}
	l.question++
	return l, []Action{Change{Number: l.question, Verb: UpdateNode, Fields: fields}}
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
	return l.ready()
}
