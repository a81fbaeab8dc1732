package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/login"
	"github.com/slurmlet/slurmlet/internal/slurmctld"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elasticnodes"
	"github.com/slurmlet/slurmlet/internal/slurmctld/keptrecords"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
	"github.com/slurmlet/slurmlet/internal/slurmctld/records"
	"github.com/slurmlet/slurmlet/internal/slurmctld/savedstate"
	"github.com/slurmlet/slurmlet/internal/slurmd"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// Status is what the agent tells about itself: GET /status on its socket, and "slurmlet
// status -o json".
type Status struct {
	Role    Role             `json:"role"`
	State   supervisor.Phase `json:"state"`
	Since   time.Time        `json:"since"`
	Doing   string           `json:"doing,omitempty"`
	Reason  string           `json:"reason,omitempty"`
	Version string           `json:"version"`
	// Began is when the agent, and the container, was started.
	Began time.Time `json:"began"`
	// Started says whether the container has been Ready once.
	Started bool           `json:"started"`
	Node    *slurmd.Status `json:"node,omitempty"`
	Main    *MainStatus    `json:"main,omitempty"`
	// Restarts counts the daemon's starts after the first.
	Restarts  int        `json:"restarts"`
	LastError *LastError `json:"last_error,omitempty"`
	// Losses are the lines in which slurmctld has told of lost jobs; nil for other roles.
	Losses *slurmctld.LossStatus `json:"losses,omitempty"`
	// LastEnd is how the daemon has ended last that nobody had told to end, nil for none.
	LastEnd *LastError `json:"last_end,omitempty"`
	// Services are the helpers beside the daemon, Sessions those who are logged in (login).
	Services []login.ServiceStatus `json:"services,omitempty"`
	Sessions []login.SessionStatus `json:"sessions,omitempty"`
	// Keys are auth/slurm's, by their names.
	Keys *KeysStatus `json:"keys,omitempty"`
	// Sack are the connections to sack.socket, nil where the agent is not between it and the users.
	Sack *SackStatus `json:"sack,omitempty"`
	// Conf is slurmctld's configuration.
	Conf *reconfig.Status `json:"conf,omitempty"`
	// Misfits are settings of slurmctld's cgroup.conf that some nodes' containers cannot follow.
	Misfits []nodesize.Mismatch `json:"misfits,omitempty"`
	// ConfFault is why slurmd or sackd has another configuration than slurmctld.
	ConfFault string `json:"conf_fault,omitempty"`
	// Peers are the cluster's pods, by slurmlet's controller.
	Peers *PeersStatus `json:"peers,omitempty"`
	// Records are slurmctld's node records, beside the cluster's pods.
	Records *records.Status `json:"records,omitempty"`
	// KeptRecords are node records that stay without a pod, because somebody names the nodes.
	KeptRecords *keptrecords.Status `json:"kept_records,omitempty"`
	// Elastic are the sets of nodes that Slurm starts and ends.
	Elastic *elasticnodes.Status `json:"elastic,omitempty"`
	// Nobodys are the last jobs that slurmctld holds because it does not know their user.
	Nobodys []string `json:"nobodys_jobs,omitempty"`
	// LinesLost are lines of the log that nobody read in time.
	LinesLost int64 `json:"lines_lost,omitempty"`
	// LostJobs is what crashes of slurmctld have lost.
	LostJobs *savedstate.Status `json:"lost_jobs,omitempty"`
	// Stopping is nil before SIGTERM.
	Stopping *StoppingStatus `json:"stopping,omitempty"`
}

// Serving says whether the daemon does its work, and every service beside it.
func (s Status) Serving() bool {
	return s.State.Serving() && !slices.ContainsFunc(s.Services, func(one login.ServiceStatus) bool { return one.State != login.Running })
}

// MainStatus is the daemon.
type MainStatus struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

// LastError is the last line of the daemon that was an error.
type LastError struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Status is the present one; it is safe for concurrent use.
func (a *Agent) Status() Status {
	s := a.brief()
	s.Sessions = a.loginServices.Sessions()
	if s.Conf != nil {
		s.Misfits = a.ctld.Misfits(s.Conf.Constrains)
	}
	return s
}

// counted has as many sessions as there are, and nothing of them.
func (a *Agent) counted() Status {
	s := a.brief()
	s.Sessions = make([]login.SessionStatus, a.loginServices.Count())
	return s
}

// brief is all that needs no look at the machine.
func (a *Agent) brief() Status {
	s := *a.status.Load()
	s.LastError, s.Keys = a.lastError.Load(), a.clusterKeys.status.Load()
	s.Services, s.Sack = a.loginServices.Services(), a.door.describe()
	if s.Node != nil {
		s.Node = a.node.Complete(*s.Node)
	}
	if a.LinesLost != nil {
		s.LinesLost = a.LinesLost()
	}
	if a.follower != nil {
		s.ConfFault = a.follower.Fault()
	}
	s.LastEnd, s.Peers, s.Conf = a.lastEnd.Load(), a.members.describe(), a.ctld.CompleteConf(s.Conf)
	c := a.ctld.Status()
	s.Losses, s.LostJobs, s.Nobodys = c.Losses, c.LostJobs, c.HeldJobs
	s.Records, s.KeptRecords, s.Elastic = c.Records, c.KeptRecords, c.Elastic
	return s
}

// publish makes the next state visible, and logs a change that matters.
func (a *Agent) publish(next lifecycle.State) {
	since := time.Now()
	if old := a.status.Load(); old != nil && old.State == next.Phase {
		since = old.Since
	}
	s := Status{
		Role: a.Config.Role, State: next.Phase, Since: since, Doing: next.Activity.String(), Reason: next.Reason,
		Version: a.Version, Began: a.began, Started: next.WasReady, Restarts: next.Starts, Conf: a.ctld.Conf(next), Node: a.node.Publish(next),
	}
	if next.Main != 0 {
		s.Main = &MainStatus{PID: next.Main, Since: next.MainSince}
	}
	if next.Phase == supervisor.Stopping || next.Phase == supervisor.Exited {
		s.Stopping = a.stopping(next)
	}
	a.status.Store(&s)
	a.published.Ring()
	a.logHaste(next)
	a.ctld.ReportConf(next, s.Conf)
	if a.life.Phase != next.Phase || a.life.Reason != next.Reason || a.life.Tries < patience && next.Tries == patience {
		a.logChange(a.life, next)
	}
	if next.Fault != "" && next.Fault != a.life.Fault {
		a.log(slog.LevelError, "cannot follow the pod's change; the node stays as it is", slog.String("error", next.Fault))
	}
	if next.Unlike != "" && next.Unlike != a.life.Unlike {
		a.log(slog.LevelWarn, "the record of this elastic node is another one than the pod, and only its set can put it right", slog.String("error", next.Unlike))
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

// WriteText writes the status for people.
func (s Status) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("Role", "%s (slurmlet %s)", s.Role, s.Version)
	row("State", "%s since %s", strings.Trim(string(s.State)+", "+s.Doing, ", "), s.Since.Format(time.RFC3339))
	if s.Reason != "" {
		row("Reason", "%s", s.Reason)
	}
	if s.Main != nil {
		row("Main process", "%d since %s, restarted %d times", s.Main.PID, s.Main.Since.Format(time.RFC3339), s.Restarts)
	}
	if s.Node != nil {
		s.Node.Rows(row)
	}
	for _, one := range s.Services {
		serviceRow(one, row)
	}
	for _, one := range s.Sessions {
		row("Session", "%s from %s since %s, process %d", one.User, cmp.Or(one.From, "an unknown address"), one.Since.Format(time.RFC3339), one.PID)
	}
	if s.Keys != nil {
		s.Keys.rows(row)
	}
	if s.Sack != nil {
		s.Sack.rows(row)
	}
	if s.Conf != nil {
		s.Conf.Rows(row)
	}
	for _, m := range s.Misfits {
		row("Misfit", "%s", m)
	}
	if s.ConfFault != "" {
		row("Fault", "%s", s.ConfFault)
	}
	if s.Peers != nil {
		s.Peers.rows(row)
	}
	if s.Records != nil {
		s.Records.Rows(row)
	}
	if s.KeptRecords != nil {
		s.KeptRecords.Rows(row)
	}
	if s.Elastic != nil {
		s.Elastic.Rows(row)
	}
	if len(s.Nobodys) > 0 {
		row("Held", "jobs %s: %s (scancel)", strings.Join(s.Nobodys, ","), slurmctld.WhyHeld)
	}
	if s.LostJobs != nil {
		s.LostJobs.Rows(row)
	}
	if s.LinesLost > 0 {
		row("Log", "%d lines were lost: nobody read the container's output in time", s.LinesLost)
	}
	if s.Stopping != nil {
		s.Stopping.rows(row)
	}
	if s.LastEnd != nil {
		row("Last end", "%s: %s", s.LastEnd.At.Format(time.RFC3339), s.LastEnd.Text)
	}
	if s.Losses != nil && s.Losses.Last != nil {
		row("Lost", "slurmctld has said %d times that jobs are lost, last %s: %s", s.Losses.Count, s.Losses.Last.At.Format(time.RFC3339), s.Losses.Last.Text)
	}
	if s.LastError != nil {
		name := "Last error"
		if s.State == supervisor.Ready && s.LastError.At.Before(s.Since) {
			name = "Earlier error"
		}
		row(name, "%s: %s", s.LastError.At.Format(time.RFC3339), s.LastError.Text)
	}
	return t.Flush()
}

func serviceRow(s login.ServiceStatus, row func(name, format string, args ...any)) {
	text := fmt.Sprintf("%s, %s since %s", s.Name, s.State, s.Since.Format(time.RFC3339))
	if s.PID != 0 {
		text += fmt.Sprintf(", process %d", s.PID)
	}
	text += fmt.Sprintf(", restarted %d times", s.Restarts)
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	row("Service", "%s", text)
}

// WriteJSON writes the status for programs.
func (s Status) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(s)
}
