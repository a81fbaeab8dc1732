package agent

import (
	"cmp"
	"log/slog"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/releases"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/login"
)

// Status is the present one; it is safe for concurrent use.
func (a *Agent) Status() Status {
	s := a.brief()
	s.Sessions, s.Users = a.userSessions.Sessions(), a.userSessions.Users()
	if s.Conf != nil {
		s.Misfits = a.ctld.Misfits(s.Conf.Constrains)
	}
	return s
}

// counted has as many sessions as there are, and nothing of them.
func (a *Agent) counted() Status {
	s := a.brief()
	s.Sessions, s.Users = make([]login.SessionStatus, a.userSessions.Count()), a.userSessions.Limited()
	return s
}

// brief is all that needs no look at the machine.
func (a *Agent) brief() Status {
	s := *a.published.Load()
	s.LastError, s.Keys = a.main.LastError(), a.keys.Status()
	s.Services, s.Sack = a.helpers.Statuses(), a.kiosk.Status()
	if s.Node != nil {
		s.Node = a.slurmdNode.Complete(*s.Node)
	}
	if a.LinesLost != nil {
		s.LinesLost = a.LinesLost()
	}
	if a.follower != nil {
		s.ConfFault = a.follower.Fault()
	}
	s.LastEnd, s.Peers, s.Conf = a.main.LastEnd(), a.names.Status(), a.ctld.CompleteConf(s.Conf)
	s.Status, s.DatabaseDump = a.ctld.Status(), a.database.Dump()
	s.Gateway = a.userSessions.GatewayStatus()
	s.Leavers = cmp.Or(a.ctld.Leavers(), a.userSessions.Leavers())
	if v := a.published.installed.Load(); v != nil {
		report := releases.Judge(*v, time.Now())
		s.Release = &report
	}
	return s
}

// publish makes the next state visible, and logs a change that matters.
func (a *Agent) publish(next lifecycle.State) {
	since := time.Now()
	if old := a.published.Load(); old != nil && old.State == next.Phase {
		since = old.Since
	}
	s := Status{
		Role: a.Config.Role, State: next.Phase, Since: since, Doing: next.Activity.String(), Reason: next.Reason,
		Version: a.Version, Began: a.began, Started: next.WasReady, Restarts: next.Starts, Conf: a.ctld.Conf(next),
		Node: a.slurmdNode.Publish(next),
	}
	if next.Main != 0 {
		s.Main = &MainStatus{PID: next.Main, Since: next.MainSince}
	}
	if next.Phase == supervisor.Stopping || next.Phase == supervisor.Exited {
		s.Stopping = a.stopping(next)
	}
	a.published.Store(&s)
	a.published.Ring()
	a.logHaste(next)
	a.ctld.ReportConf(next, s.Conf)
	if a.life.Phase != next.Phase || a.life.Reason != next.Reason || a.life.Tries < patience && next.Tries == patience {
		a.logChange(a.life, next)
	}
	if next.Fault != "" && next.Fault != a.life.Fault {
		a.log(slog.LevelError, "cannot follow the pod's change; the node stays as it is", slog.String("error", next.Fault))
	}
	if next.RecordDiffers != "" && next.RecordDiffers != a.life.RecordDiffers {
		a.log(slog.LevelWarn,
			"the record of this elastic node differs from the pod, and only its set can put it right",
			slog.String("error", next.RecordDiffers))
	}
	if next.Refusal != "" && next.Refusal != a.life.Refusal {
		a.log(slog.LevelError, "slurmctld does not take what the pod's annotations say", slog.String("error", next.Refusal))
	}
}

// patience is how many tries are nothing to worry about: nobody is ready at once.
const patience = 3

func (a *Agent) logChange(old, next lifecycle.State) {
	level := slog.LevelInfo
	switch {
	case next.Left != "":
		level = slog.LevelWarn
	case next.Phase == old.Phase && next.Tries < patience:
		level = slog.LevelDebug
	case next.Phase == old.Phase || next.Phase == supervisor.Starting:
		level = slog.LevelWarn // it stays where it is, or falls back
	}
	attrs := []slog.Attr{slog.String("state", string(next.Phase))}
	if next.Reason != "" {
		attrs = append(attrs, slog.String("reason", next.Reason))
	}
	if next.Main != 0 {
		attrs = append(attrs, slog.Int("main", next.Main))
	}
	a.log(level, "state", attrs...)
}

// stopping is what SIGTERM has led to so far.
func (a *Agent) stopping(next lifecycle.State) *StoppingStatus {
	since := cmp.Or(next.StoppedAt, time.Now()) // a daemon has ended without SIGTERM
	if before := a.published.Load(); before != nil && before.Stopping != nil {
		since = before.Stopping.Since
	}
	s := &StoppingStatus{
		Since: since, Until: since.Add(next.Deadlines.Exit), By: next.HastenedBy, Left: next.Left,
		Unanswered: next.Unanswered,
	}
	if next.Registers {
		until := since.Add(next.Deadlines.Requeue)
		s.JobsUntil = &until
	}
	for _, j := range next.Jobs {
		s.Jobs = append(s.Jobs, JobStatus{j.JobID(), j.User, strings.Join(j.State, "+"), j.End.Time(), j.Batch && j.Requeue})
	}
	return s
}

// logHaste: a pod that is on its way down, or begins it, has less time than was thought.
func (a *Agent) logHaste(next lifecycle.State) {
	if s := a.published.Load().Stopping; s != nil && next.Deadlines != a.life.Deadlines {
		attrs := []slog.Attr{slog.Time("until", s.Until), slog.String("by", s.By)}
		if s.JobsUntil != nil {
			attrs = append(attrs, slog.Time("jobs_until", *s.JobsUntil))
		}
		a.log(slog.LevelWarn, "the pod has less time to end than before", attrs...)
	}
}
