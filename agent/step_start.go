package agent

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// begin starts the daemon as soon as what it needs can be reached: a slurmd that
// cannot get its configuration tries again only every 10 s. More cannot be asked
// before it runs: with auth/slurm it is slurmd, or sackd, that gives scontrol its
// credentials (sackd(8)).
func (l life) begin() (life, []action) {
	if l.state != Starting || l.main != 0 || l.starting {
		return l, nil
	}
	if l.reloads {
		return l.prepareConf()
	}
	if !l.reaches {
		return l.launch()
	}
	if l.held != "" {
		l.doing, l.reason = awaiting, l.held
		return l, nil
	}
	l.doing = reaching
	l.question++
	return l, []action{reach{l.question}}
}

func (l life) started(e mainStarted) (life, []action) {
	l.starting, l.main, l.mainSince, l.killed, l.seen = false, e.pid, e.at, false, false
	l.settled = nodesize.Traits{} // of this slurmd's record nothing is known yet
	l.listed = l.listed || l.wasReady
	switch {
	case l.doing == ending:
		return l, []action{signalMain{sigTerm}}
	case !l.announces:
		return l.readied() // it will never say so
	}
	return l, nil
}

func (l life) readied() (life, []action) {
	if l.doing != launching || l.main == 0 {
		return l, nil
	}
	l.doing, l.tries, l.listed = confirming, 0, true
	switch {
	case l.state == Stopping && l.hosts:
		l.doing = parting
		return l, nil
	case l.state == Stopping:
		l.doing = withdrawing
	}
	return l.wait(settle)
}

// answer takes slurmctld's word on what was asked last.
func (l life) answer(e answered) (life, []action) {
	if e.number != l.question || l.state == Exited {
		return l, nil
	}
	if e.main != 0 && e.main == l.main && e.began.Before(l.mainSince) {
		l.mainSince = e.began // the clock was stepped back
	}
	l.seen = l.seen || l.sees(e.node)
	if !l.wasReady && e.node != nil {
		l.unclaimed = l.unclaimed || e.node.Busy() && e.steps == 0
	}
	switch {
	case l.state == Stopping && l.doing == reaching:
		return l.reached(e)
	case l.state == Stopping && l.doing == launching:
		return l.stillSilent(e)
	case l.state == Stopping:
		return l.withdrawn(e)
	case e.err != nil:
		return l.again(e.err.Error())
	case l.doing == reaching:
		l.reason = ""
		return l.launch()
	case !l.registers: // confirmed, or what was complained of answers
		return l.ready()
	case l.inherits && l.sees(e.node) && e.node.Busy():
		return l.bury()
	case l.doing == leaving:
		return l.leave(e.node)
	}
	return l.confirm(e.node)
}

// done takes the outcome of a deletion, a drain or its end.
func (l life) done(e carriedOut) (life, []action) {
	switch {
	case e.number != l.question || l.state == Exited:
		return l, nil
	case l.state == Stopping && l.doing == speaking:
		return l.spoken(e)
	case l.state == Stopping:
		return l.withdrawDone(e)
	case l.doing == describing:
		return l.described(e.err)
	case l.doing == burying:
		return l.buried(e.err)
	case l.doing == deleting && e.err != nil:
		l.doing = leaving // a job or a reservation was quicker
		return l.again(e.err.Error())
	case e.err != nil:
		return l.again(e.err.Error())
	case l.doing == deleting:
		return l.unlisted().replace("the old record is deleted")
	case l.doing == resuming:
		l.doing = confirming
		return l.ask()
	}
	return l.again(l.reason)
}

// confirm compares the record with what slurmd has registered. slurmd cannot:
// it is told success even when it was refused, and an older record silently
// wins over --conf.
func (l life) confirm(n *slurm.Node) (life, []action) {
	switch {
	case n == nil:
		return l.lost()
	case !l.fits(n):
		l.tries = 0
		return l.leave(n)
	case l.sees(n) && (own(n) || putRight(n)):
		l.doing = resuming // also from DOWN, which an earlier agent may have set with its drain
		l.question++
		return l, []action{resumeRecord{l.question}}
	case !l.sees(n) || !n.Responding():
		return l.again("slurmctld has not seen this slurmd yet: the record is " + strings.Join(n.State, "+"))
	}
	return l.describe(n)
}

// bury looks for jobs that have died with an earlier container, once.
func (l life) bury() (life, []action) {
	l.doing = burying
	l.question++
	return l, []action{endDeadJobs{l.question}}
}

// buried: slurmctld knows of them, or will find out by itself. What it refuses
// does not keep the node from its work.
func (l life) buried(err error) (life, []action) {
	if errors.Is(err, slurm.ErrUnreachable) {
		return l.again(err.Error())
	}
	l.inherits = false
	if l.state == Stopping {
		return l.lookAtRecord()
	}
	l.doing = confirming
	return l.ask()
}

// sees: the record is that of the present slurmd, and not of an earlier one.
func (l life) sees(n *slurm.Node) bool {
	return n != nil && !n.SlurmdStart.Before(l.mainSince.Truncate(time.Second))
}

func (l life) fits(n *slurm.Node) bool { return l.Size.Diff(n) == "" && !n.Invalid() }

func (l life) ready() (life, []action) {
	first := !l.wasReady
	l.state, l.doing, l.reason, l.tries, l.wasReady = Ready, nothing, "", 0, true
	switch {
	case l.mainSince.Before(l.filesSince): // it was on its way already
		return l.hangUp()
	case l.reloads:
		return l.proven(first)
	case l.unclaimed:
		return l.wait(missedAfter)
	}
	return l, nil
}

// lost: slurmctld has no record. SIGHUP makes slurmd register again.
func (l life) lost() (life, []action) {
	if l.tries+1 < lostTries {
		return l.again("slurmctld has no record of this node yet")
	}
	l, actions := l.again("slurmctld has no record of this node: is MaxNodeCount reached?")
	return l, append(actions, signalMain{sigHup})
}

// leave waits until nothing and nobody holds a record of another size. New
// jobs are kept away meanwhile; then it is deleted and slurmd registers anew.
func (l life) leave(n *slurm.Node) (life, []action) {
	l.doing = leaving
	if l.state.Serving() {
		l.state = Resizing
	}
	switch {
	case n == nil:
		return l.unlisted().replace("the old record is gone")
	case l.fits(n):
		l.doing = confirming
		return l.confirm(n)
	}
	what := "the record is of another size: " + l.Size.Diff(n)
	if l.Size.Diff(n) == "" {
		what = "slurmctld has refused what slurmd registered: " + n.Reason
	}
	switch {
	case l.Size.Diff(n) == "" && refusedGres(n):
		return l.again(fmt.Sprintf("%s: the cluster's gres.conf must say \"Include %s\"", what, l.gresConf))
	case foreign(n):
		return l.again(fmt.Sprintf("%s; somebody else has drained the node, which would be lost with the record: %s", what, n.Reason))
	case !n.Drained():
		l.reason = what + "; draining it"
		l.question++
		return l, []action{drainRecord{l.question, reasonResize}}
	case n.Busy():
		return l.stillBusy(what)
	}
	l.reason = what
	return l.deleteRecord()
}

// stillBusy waits for the jobs on the record. Some may be there no more: one
// that has died with an earlier pod is missed by slurmctld only when slurmd
// registers, and not while it is thought to be starting.
func (l life) stillBusy(what string) (life, []action) {
	what += "; jobs run on it"
	if l.state == Resizing && l.tries >= watchedTries {
		l.reason = what
		return l.wait(watchedPause)
	}
	l, actions := l.again(what)
	if l.tries == missedTries && l.state == Starting && l.main != 0 {
		actions = append(actions, signalMain{sigHup})
	}
	return l, actions
}

// replaceTime is how long slurmd may take to stop when another is to take its
// place. It serves nobody meanwhile, and waits for a prolog, an epilog or a job
// that does not end for up to PrologEpilogTimeout, for ever by default (slurm.conf(5));
// jobs outlive it, and slurmctld says again what it did not answer.
const replaceTime = 30 * time.Second

// replace ends slurmd, whose end starts the next one.
func (l life) replace(reason string) (life, []action) {
	if l.main == 0 {
		return l.launch()
	}
	l.doing, l.reason = replacing, reason
	l, actions := l.wait(min(l.way.End, replaceTime))
	return l, append(actions, signalMain{sigTerm})
}

// handedOver: a reconfigure has put another process in the main one's place
// (sd_notify(3), MAINPID).
func (l life) handedOver(e mainChanged) (life, []action) {
	if l.state == Exited || l.starting {
		return l, nil
	}
	l.main, l.mainSince, l.killed, l.seen, l.silent = e.pid, e.at, false, false, 0
	l.listed = true
	switch {
	case l.doing == ending && l.bounded && l.left == "" && l.stage < toStop:
		// It registers, and makes the record anew that was deleted.
		l.doing, l.tries = withdrawing, 0
		return l.wait(settle)
	case l.doing == ending && l.registers && l.left == "":
		l.left = "slurmd has handed over as the time was over, and its successor may have registered"
		return l, []action{signalMain{sigTerm}}
	case l.doing == ending, l.doing == replacing:
		return l, []action{signalMain{sigTerm}}
	case l.state == Ready:
		l.state, l.doing, l.tries = Reloading, confirming, 0
		return l.ask()
	}
	return l, nil
}

// reasonPrefix marks the drains that are ours: no other is ever lifted.
const reasonPrefix = "slurmlet: "

const reasonResize = reasonPrefix + "the pod is of another size than the record"

// own says whether the drain on a record was set by an agent.
func own(n *slurm.Node) bool { return n.Drained() && strings.HasPrefix(n.Reason, reasonPrefix) }

// foreign says whether somebody else has drained the record. slurmctld's own
// drain of a node that registered too small ("Low CPUs"), or with another
// CpuSpecList ("CoreSpec differ"), is nobody's wish.
func foreign(n *slurm.Node) bool {
	refused := n.Invalid() && (strings.HasPrefix(n.Reason, "Low ") || strings.HasPrefix(n.Reason, "CoreSpec differ"))
	return n.Drained() && !own(n) && !refused && !refusedGres(n)
}

// refusedGres says whether slurmctld has refused a node because slurmd found
// fewer devices than it was to register: gres.conf did not tell it where.
func refusedGres(n *slurm.Node) bool { return n.Invalid() && strings.HasPrefix(n.Reason, "gres/") }

// putRight says whether such a refusal is over, and its drain has stayed.
func putRight(n *slurm.Node) bool {
	return n.Drained() && !n.Invalid() && strings.HasPrefix(n.Reason, "gres/")
}
