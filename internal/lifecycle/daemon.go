package lifecycle

import (
	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// begin starts the daemon as soon as it can be. slurmctld needs a configuration first.
func (s State) begin() (State, []Action) {
	if s.Reloads && s.MayBegin() {
		return s.startConfigured()
	}
	return s.with(s.Begin())
}

// started: a process is the main one.
func (s State) started(e supervisor.MainStarted) (State, []Action) {
	s.Supervisor = s.Started(e)
	s.listens, s.unread = false, noSignal
	if s.Registers {
		s, _ = s.asNode(node.Started{})
	}
	switch {
	case s.Activity == supervisor.Ending:
		return s, []Action{supervisor.SignalMain{Signal: supervisor.SigTerm}}
	case s.Activity == supervisor.Converting:
		return s.with(s.Wait(supervisor.Settle))
	case !s.Announces:
		return s.announced() // it will never say so
	}
	return s, nil
}

// announced: the daemon is READY.
func (s State) announced() (State, []Action) {
	if s.Activity != supervisor.Launching || s.Main == 0 {
		return s, nil
	}
	s.Activity, s.Tries = supervisor.Confirming, 0
	switch {
	case s.Registers:
		return s.asNode(node.Announced{})
	case s.Phase == supervisor.Stopping && s.Hosts:
		s.Activity = supervisor.AwaitingSessions
		return s, nil
	}
	return s.with(s.Wait(supervisor.Settle))
}

// serve makes the container Ready, as slurmd's node does by itself.
func (s State) serve() (State, []Action) {
	first := !s.WasReady
	s.Supervisor = s.Serve()
	s.listens = true
	switch {
	case s.unread != noSignal:
		return s.with(s.Wait(signalDelay))
	case s.MainSince.Before(s.FilesSince): // it was on its way already
		return s.sendHUP()
	case s.Reloads:
		return s.configure(conf.Served{First: first})
	}
	return s, nil
}

// handedOver: a reconfigure has put another process in the main one's place
// (sd_notify(3), MAINPID).
func (s State) handedOver(e supervisor.MainChanged) (State, []Action) {
	if s.StartAsked {
		return s, nil
	}
	s.Supervisor = s.HandedOver(e)
	s, _ = s.configure(conf.HandedOver{})
	switch {
	case s.Registers:
		return s.asNode(e)
	case s.Activity == supervisor.Ending:
		return s, []Action{supervisor.SignalMain{Signal: supervisor.SigTerm}}
	case s.Activity == supervisor.Replacing: // the successor has its own time to stop
		return s.with(s.StopReplaced())
	case s.Phase == supervisor.Ready:
		s.Phase, s.Activity, s.Tries = supervisor.Reloading, supervisor.Confirming, 0
		return s.with(s.AskService())
	}
	return s, nil
}

// failed: the daemon could not be started at all.
func (s State) failed(e supervisor.MainFailed) (State, []Action) {
	s.StartAsked = false
	s.Question++ // whether slurmctld can be reached, which was asked meanwhile, is no word on the record
	switch {
	case s.Activity == supervisor.Ending, s.Activity == supervisor.Converting:
		return s.with(s.LeaveWith(exitcode.OK))
	case !s.Restarts:
		s.Reason = e.Err.Error()
		return s.with(s.LeaveWith(exitcode.Failure))
	}
	return s.with(s.Pause(e.Err.Error()))
}

// sendHUP is passed on for the daemon to read its configuration again.
func (s State) sendHUP() (State, []Action) {
	switch {
	case s.Phase == supervisor.Stopping:
		return s, nil
	case s.converting() && s.Main != 0 && s.Activity != supervisor.Launching:
		return s.postpone(sighup), nil
	}
	return s.with(s.SendHUP())
}

// takeFiles: a signal is enough for most of a configuration. A start that is
// still to come takes all of it anyway, and one that came since has taken it.
func (s State) takeFiles(e supervisor.FilesChanged) (State, []Action) {
	s.FilesSince = e.Since
	switch {
	case s.Phase == supervisor.Stopping:
		return s, nil
	case !e.Since.IsZero() && s.MainSince.After(e.Since):
		return s, nil
	case s.Main == 0 || s.Activity == supervisor.Replacing:
		return s, nil
	case s.converting() && e.Restart:
		return s.postpone(restart), nil
	case e.Restart:
		return s.with(s.Replace("the configuration has changed"))
	}
	return s.sendHUP()
}

// refetch restarts slurmd or sackd, which ask for the configuration when they start
// only. Jobs and sessions live on.
func (s State) refetch() (State, []Action) {
	if s.Phase != supervisor.Ready || s.Main == 0 || s.Activity == supervisor.Replacing {
		return s, nil
	}
	s.Phase = supervisor.Reloading
	return s.with(s.Replace("the daemon has missed a configuration, and fetches it by its start"))
}

// reachAnew tries at once what was tried at an address that slurmctld has no more, or waits for the next try.
func (s State) reachAnew() (State, []Action) {
	if s.Activity != supervisor.Reaching {
		return s, nil
	}
	return s.with(s.Relaunch())
}
