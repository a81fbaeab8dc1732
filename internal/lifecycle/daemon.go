package lifecycle

import (
	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// begin starts the daemon as soon as it can be. slurmctld needs a configuration first.
func (l State) begin() (State, []Action) {
	if l.Reloads && l.MayBegin() {
		return l.startConfigured()
	}
	return l.with(l.Begin())
}

// started: a process is the main one.
func (l State) started(e supervisor.MainStarted) (State, []Action) {
	l.Supervisor = l.Started(e)
	l.listens, l.unread = false, noSignal
	if l.Registers {
		l, _ = l.asNode(node.Started{})
	}
	switch {
	case l.Activity == supervisor.Ending:
		return l, []Action{supervisor.SignalMain{Signal: supervisor.SigTerm}}
	case l.Activity == supervisor.Converting:
		return l.with(l.Wait(supervisor.Settle))
	case !l.Announces:
		return l.announced() // it will never say so
	}
	return l, nil
}

// announced: the daemon is READY.
func (l State) announced() (State, []Action) {
	if l.Activity != supervisor.Launching || l.Main == 0 {
		return l, nil
	}
	l.Activity, l.Tries = supervisor.Confirming, 0
	switch {
	case l.Registers:
		return l.asNode(node.Announced{})
	case l.Phase == supervisor.Stopping && l.Hosts:
		l.Activity = supervisor.AwaitingSessions
		return l, nil
	}
	return l.with(l.Wait(supervisor.Settle))
}

// serve makes the container Ready, as slurmd's node does by itself.
func (l State) serve() (State, []Action) {
	first := !l.WasReady
	l.Supervisor = l.Serve()
	l.listens = true
	switch {
	case l.unread != noSignal:
		return l.with(l.Wait(signalDelay))
	case l.MainSince.Before(l.FilesSince): // it was on its way already
		return l.sendHUP()
	case l.Reloads:
		return l.configure(conf.Served{First: first})
	}
	return l, nil
}

// handedOver: a reconfigure has put another process in the main one's place
// (sd_notify(3), MAINPID).
func (l State) handedOver(e supervisor.MainChanged) (State, []Action) {
	if l.StartAsked {
		return l, nil
	}
	l.Supervisor = l.Succeeded(e)
	l, _ = l.configure(conf.Succeeded{})
	switch {
	case l.Registers:
		return l.asNode(e)
	case l.Activity == supervisor.Ending:
		return l, []Action{supervisor.SignalMain{Signal: supervisor.SigTerm}}
	case l.Activity == supervisor.Replacing: // the successor has its own time to stop
		return l.with(l.StopReplaced())
	case l.Phase == supervisor.Ready:
		l.Phase, l.Activity, l.Tries = supervisor.Reloading, supervisor.Confirming, 0
		return l.with(l.AskService())
	}
	return l, nil
}

// failed: the daemon could not be started at all.
func (l State) failed(e supervisor.MainFailed) (State, []Action) {
	l.StartAsked = false
	l.Question++ // whether slurmctld can be reached, which was asked meanwhile, is no word on the record
	switch {
	case l.Activity == supervisor.Ending, l.Activity == supervisor.Converting:
		return l.with(l.LeaveWith(exitcode.OK))
	case !l.Restarts:
		l.Reason = e.Err.Error()
		return l.with(l.LeaveWith(exitcode.Failure))
	}
	return l.with(l.Pause(e.Err.Error()))
}

// sendHUP is passed on for the daemon to read its configuration again.
func (l State) sendHUP() (State, []Action) {
	switch {
	case l.Phase == supervisor.Stopping:
		return l, nil
	case l.converting() && l.Main != 0 && l.Activity != supervisor.Launching:
		return l.postpone(sighup), nil
	}
	return l.with(l.SendHUP())
}

// takeFiles: a signal is enough for most of a configuration. A start that is
// still to come takes all of it anyway, and one that came since has taken it.
func (l State) takeFiles(e supervisor.FilesChanged) (State, []Action) {
	l.FilesSince = e.Since
	switch {
	case l.Phase == supervisor.Stopping:
		return l, nil
	case !e.Since.IsZero() && l.MainSince.After(e.Since):
		return l, nil
	case l.Main == 0 || l.Activity == supervisor.Replacing:
		return l, nil
	case l.converting() && e.Restart:
		return l.postpone(restart), nil
	case e.Restart:
		return l.with(l.Replace("the configuration has changed"))
	}
	return l.sendHUP()
}

// refetch restarts slurmd or sackd, which ask for the configuration when they start
// only. Jobs and sessions live on.
func (l State) refetch() (State, []Action) {
	if l.Phase != supervisor.Ready || l.Main == 0 || l.Activity == supervisor.Replacing {
		return l, nil
	}
	l.Phase = supervisor.Reloading
	return l.with(l.Replace("the daemon has missed a configuration, and fetches it by its start"))
}

// reachAnew tries at once what was tried at an address that slurmctld has no more, or waits for the next try.
func (l State) reachAnew() (State, []Action) {
	if l.Activity != supervisor.Reaching {
		return l, nil
	}
	return l.with(l.Relaunch())
}
