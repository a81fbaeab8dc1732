package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// reasonPrefix marks the drains that are ours: no other is ever lifted.
const reasonPrefix = "slurmlet: "

const reasonResize = reasonPrefix + "the pod's size has changed"

// own says whether the drain on a record was set by an agent.
func own(n *slurm.Node) bool { return n.Drained() && strings.HasPrefix(n.Reason, reasonPrefix) }

// foreign says whether somebody else has drained the record. slurmctld's own
// drain of a node that registered too small ("Low CPUs") is nobody's wish.
func foreign(n *slurm.Node) bool {
	refused := n.Invalid() && strings.HasPrefix(n.Reason, "Low ")
	return n.Drained() && !own(n) && !refused
}

// begin starts slurmctld at once; slurmd only when slurmctld has told what
// record there is, since an existing record would silently win over --conf.
func (l life) begin() (life, []action) {
	if l.state != Starting || l.main != 0 || l.starting {
		return l, nil
	}
	if !l.registers {
		return l.launch(l.shape)
	}
	l.doing, l.tries = asking, 0
	return l.ask()
}

func (l life) answer(e answered) (life, []action) {
	if e.number != l.question || l.state == Stopping || l.state == Exited {
		return l, nil
	}
	switch l.doing {
	case asking, deleting:
		return l.decide(e)
	case confirming, resuming:
		if e.err != nil {
			return l.again(e.err.Error())
		}
		if !l.registers {
			return l.ready()
		}
		return l.confirm(e.node)
	case leaving:
		return l.leave(e)
	}
	return l, nil
}

// decide looks at the record that is there before slurmd is.
func (l life) decide(e answered) (life, []action) {
	l.doing = asking
	switch {
	case e.err != nil:
		return l.again(e.err.Error())
	case e.node == nil || l.shape.differences(e.node) == "" && !e.node.Invalid():
		return l.launch(l.shape)
	case e.node.Busy() || foreign(e.node):
		// Its jobs may live in the cluster's books only, and a new slurmd is what
		// settles that; an admin's drain would be lost with the record. So slurmd
		// serves the record as it is, until it is free.
		return l.launch(recorded(e.node))
	}
	return l.delete(fmt.Sprintf("the old record is of another size: %s", l.shape.differences(e.node)))
}

func (l life) delete(reason string) (life, []action) {
	l.doing, l.reason = deleting, reason
	l.question++
	return l, []action{deleteRecord{l.question}}
}

// done is called when the record is deleted, drained or resumed.
func (l life) done(e carriedOut) (life, []action) {
	if e.number != l.question || l.state == Stopping || l.state == Exited {
		return l, nil
	}
	switch {
	case e.err != nil:
		return l.again(e.err.Error())
	case l.doing == deleting:
		return l.launch(l.shape)
	case l.doing == resuming:
		return l.ready()
	case l.doing == leaving:
		return l.again(l.reason)
	}
	return l, nil
}

func (l life) started(e mainStarted) (life, []action) {
	l.starting, l.main, l.mainSince, l.killed = false, e.pid, e.at, false
	if l.state == Stopping {
		return l, []action{signalMain{sigTerm}}
	}
	return l, nil
}

func (l life) readied() (life, []action) {
	if l.doing != launching || l.main == 0 || l.state == Stopping {
		return l, nil
	}
	l.doing, l.tries = confirming, 0
	return l.ask()
}

// confirm compares the record with what was registered. slurmd cannot: it is
// told success even when it was refused.
func (l life) confirm(n *slurm.Node) (life, []action) {
	switch {
	case n == nil:
		return l.lost()
	case n.SlurmdStart.Before(l.mainSince.Truncate(time.Second)) || !n.Responding():
		return l.again("slurmctld has not seen this slurmd yet: the record is " + strings.Join(n.State, "+"))
	case l.as.differences(n) != "" || n.Invalid():
		return l.refuse(n)
	case l.shape.differences(n) != "":
		l.doing, l.tries = leaving, 0
		return l.leave(answered{node: n})
	case own(n):
		l.doing = resuming
		l.question++
		return l, []action{resumeRecord{l.question}}
	}
	return l.ready()
}

func (l life) ready() (life, []action) {
	l.state, l.doing, l.reason, l.tries, l.wasReady = Ready, nothing, "", 0, true
	return l, nil
}

// lost: slurmctld has no record. SIGHUP makes slurmd register again.
func (l life) lost() (life, []action) {
	l, actions := l.again("slurmctld has no record of this node: is MaxNodeCount reached?")
	if l.tries >= lostTries {
		actions = append(actions, signalMain{sigHup})
	}
	return l, actions
}

// refuse: the record is not what slurmd registered with. It is left as soon as
// it is free.
func (l life) refuse(n *slurm.Node) (life, []action) {
	l.state, l.doing, l.tries = Starting, leaving, 0
	return l.leave(answered{node: n})
}

// leave waits until nothing and nobody holds the old record: then slurmd is
// stopped, the record deleted, and slurmd registers with its own size.
func (l life) leave(e answered) (life, []action) {
	l.state = Starting
	switch n := e.node; {
	case e.err != nil:
		return l.again(e.err.Error())
	case n == nil:
		return l.replace("the old record is gone")
	case l.shape.differences(n) == "" && !n.Invalid():
		l.doing = confirming
		return l.confirm(n)
	case foreign(n):
		return l.again(fmt.Sprintf("the record is of another size (%s) and drained by somebody else: %s", l.shape.differences(n), n.Reason))
	case !n.Drained():
		l.reason = "draining the record of another size: " + l.shape.differences(n)
		l.question++
		return l, []action{drainRecord{l.question, reasonResize}}
	case n.Busy():
		return l.again(fmt.Sprintf("the record is of another size (%s) and jobs run on it", l.shape.differences(n)))
	}
	return l.replace("the old record is free")
}

func (l life) replace(reason string) (life, []action) {
	l.doing, l.reason = replacing, reason
	l, actions := l.wait(l.stop)
	return l, append(actions, signalMain{sigTerm})
}

// handedOver: a reconfigure has put another process in the main one's place
// (sd_notify(3), MAINPID).
func (l life) handedOver(e mainChanged) (life, []action) {
	if l.state == Exited || l.starting {
		return l, nil
	}
	l.main, l.mainSince, l.killed = e.pid, e.at, false
	switch {
	case l.state == Stopping, l.doing == replacing:
		return l, []action{signalMain{sigTerm}}
	case l.state == Ready:
		l.state, l.doing, l.tries = Reloading, confirming, 0
		return l.ask()
	}
	return l, nil
}
