package lifecycle

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
)

// registerTime is what a successor has to register before its record is looked at. All nodes
// take over at once.
const registerTime = time.Second

// handedOver: a reconfigure has put another process in the main one's place
// (sd_notify(3), MAINPID).
func (l State) handedOver(e MainChanged) (State, []Action) {
	if l.Phase == Exited || l.starting {
		return l, nil
	}
	l.tookOver = l.registered() && l.Phase != Stopping
	l.Main, l.MainSince, l.killed, l.seen = e.PID, e.At, false, false
	l, _ = l.configure(conf.Succeeded{})
	l.listed, l.awaited, l.wasUp = true, false, false
	switch {
	case l.Activity == Ending && l.Registers && l.bounded && l.Left == "" && l.stage < toStop:
		// It registers, and makes the record anew that was deleted.
		l.Activity, l.Tries = LookingAtRecord, 0
		return l.wait(settle)
	case l.Activity == Ending && l.Registers && l.Left == "":
		l.Left = "slurmd has handed over as the time was over, and its successor may have registered"
		return l, []Action{SignalMain{SigTerm}}
	case l.Activity == Ending:
		return l, []Action{SignalMain{SigTerm}}
	case l.Activity == Replacing: // the successor has its own time to stop
		l, actions := l.wait(min(l.Deadlines.End, replaceTime))
		return l, append(actions, SignalMain{SigTerm})
	case l.Phase == Ready:
		l.Phase, l.Activity, l.Tries = Reloading, Confirming, 0
		if l.tookOver {
			l.question++ // the answer to an earlier one would be about its predecessor
			return l.wait(registerTime)
		}
		return l.ask()
	}
	return l, nil
}
