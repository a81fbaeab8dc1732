package agent

import (
	"errors"

	"github.com/slurmlet/slurmlet/internal/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// measure: the pod was looked at again. What cannot be used changes nothing:
// the last good size and traits stay.
func (l life) measure(e measured) (life, []action) {
	l = l.takeGrace(e)
	if l.state == Stopping {
		return l.hastenBy(e)
	}
	switch {
	case l.state == Exited:
		return l, nil
	case e.err != nil && l.held != "":
		l.held = e.err.Error()
		return l.begin()
	case e.err != nil:
		l.fault = e.err.Error()
		return l, nil
	}
	resized := e.Size != l.Size
	l.held, l.fault = "", ""
	l.Allocation = &nodesize.Allocation{Resources: e.Resources, Size: e.Size, Traits: e.Traits.After(l.Traits), Grace: e.Grace}
	switch {
	case l.doing == awaiting:
		return l.begin()
	case !l.state.Serving():
		return l, nil // what comes next takes the new values
	case resized && l.doing != replacing:
		l.state, l.doing, l.tries = Resizing, leaving, 0
		return l.ask()
	case l.state == Ready && (l.Traits != l.settled || l.doing == describing):
		l.doing, l.tries = describing, 0
		return l.ask()
	}
	return l, nil
}

// refetch restarts slurmd or sackd, which ask for the configuration when they start
// only. Jobs and sessions live on.
func (l life) refetch() (life, []action) {
	if l.state != Ready || l.main == 0 || l.doing == replacing {
		return l, nil
	}
	l.state = Reloading
	return l.replace("the daemon has missed a configuration, and fetches it by its start")
}

// lookAgain: the record may be free now. A job ends with several steps at once.
func (l life) lookAgain() (life, []action) {
	switch l.doing {
	case leaving:
		l.tries = 0
		return l.wait(settle)
	case finishing:
		l.tries, l.running = 0, 0
		return l.wait(grow(settle, l.looks, lastLook))
	case withdrawing:
		l.stepEnded = true // the answer that is on its way may not know of it
	}
	return l, nil
}

// describe brings features, topology and weight up to date, once for each
// change of theirs: slurmctld may write them another way than they were given.
func (l life) describe(n *slurm.Node) (life, []action) {
	fields := l.Traits.Update(n)
	if l.Traits == l.settled || len(fields) == 0 {
		l.settled, l.refusal = l.Traits, ""
		return l.ready()
	}
	l.doing, l.settled = describing, nodesize.Traits{}
	l.question++
	return l, []action{updateRecord{l.question, fields}}
}

// described: slurmctld has changed the record, or refuses to. A refusal does
// not keep the node from its work.
func (l life) described(err error) (life, []action) {
	if errors.Is(err, slurm.ErrUnreachable) {
		return l.again(err.Error())
	}
	l.settled, l.refusal = l.Traits, ""
	if err != nil {
		l.refusal = err.Error()
	}
	return l.ready()
}
