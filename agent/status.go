package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/releases"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/link/podnames"
	"github.com/slurmlet/slurmlet/internal/login"
	"github.com/slurmlet/slurmlet/internal/login/gateway"
	"github.com/slurmlet/slurmlet/internal/pod/authkeys"
	"github.com/slurmlet/slurmlet/internal/pod/mainprocess"
	"github.com/slurmlet/slurmlet/internal/pod/people"
	"github.com/slurmlet/slurmlet/internal/pod/sack"
	"github.com/slurmlet/slurmlet/internal/pod/services"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
	"github.com/slurmlet/slurmlet/internal/slurmd"
	"github.com/slurmlet/slurmlet/internal/slurmdbd"
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
	// Release is the daemon's Slurm and what is known against it, nil until the agent knows the version.
	Release *releases.Report `json:"slurm,omitempty"`
	// Began is when the agent, and the container, was started.
	Began time.Time `json:"began"`
	// Started says whether the container has been Ready once.
	Started bool           `json:"started"`
	Node    *slurmd.Status `json:"node,omitempty"`
	Main    *MainStatus    `json:"main,omitempty"`
	// Restarts counts the daemon's starts after the first.
	Restarts  int                `json:"restarts"`
	LastError *mainprocess.Words `json:"last_error,omitempty"`
	// LastEnd is how the daemon has ended last that nobody had told to end, nil for none.
	LastEnd *mainprocess.Words `json:"last_end,omitempty"`
	// Services are the helpers beside the daemon, Sessions those who are logged in (login).
	Services []services.Status     `json:"services,omitempty"`
	Sessions []login.SessionStatus `json:"sessions,omitempty"`
	// Leavers are those who have left, of login and slurmctld; nil where nobody looks for them.
	Leavers *people.Status `json:"leavers,omitempty"`
	// Users says what each user of a login pod may have, nil where cgroups are left alone.
	Users *login.UsersStatus `json:"users,omitempty"`
	// Gateway submits jobs of Kubernetes' pods, nil of a pod without one.
	Gateway *gateway.Status `json:"gateway,omitempty"`
	// Keys are auth/slurm's, by their names.
	Keys *authkeys.KeysStatus `json:"keys,omitempty"`
	// Sack are the connections to sack.socket, nil where the agent is not between it and the users.
	Sack *sack.Status `json:"sack,omitempty"`
	// Conf is slurmctld's configuration.
	Conf *reconfig.Status `json:"conf,omitempty"`
	// Misfits are settings of slurmctld's cgroup.conf that some nodes' containers cannot follow.
	Misfits []slurm.Mismatch `json:"misfits,omitempty"`
	// ConfFault is why slurmd or sackd has another configuration than slurmctld.
	ConfFault string `json:"conf_fault,omitempty"`
	// DatabaseDump is that of slurmdbd's database before its conversion, nil where this agent makes none.
	DatabaseDump *slurmdbd.DumpStatus `json:"database_dump,omitempty"`
	// Peers are the cluster's pods, by slurmlet's controller.
	Peers *podnames.Status `json:"peers,omitempty"`
	// Status is what only slurmctld's agent knows.
	slurmctld.Status
	// LinesLost are lines of the log that nobody read in time.
	LinesLost int64 `json:"lines_lost,omitempty"`
	// Stopping is nil before SIGTERM.
	Stopping *StoppingStatus `json:"stopping,omitempty"`
}

// Serving says whether the daemon does its work, and every service beside it.
func (s Status) Serving() bool {
	return s.State.Serving() && !slices.ContainsFunc(s.Services, func(one services.Status) bool { return one.State != services.Running })
}

// MainStatus is the daemon.
type MainStatus struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

// WriteText writes the status for people.
func (s Status) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("Role", "%s (slurmlet %s)", s.Role, s.Version)
	if s.Release != nil {
		s.Release.Rows(row)
	}
	row("State", "%s since %s", strings.Trim(string(s.State)+", "+s.Doing, ", "), s.Since.Format(time.RFC3339))
	if s.Reason != "" {
		row("Reason", "%s", s.Reason)
	}
	if s.Main != nil {
		row("Main process", "%d since %s, restarted %d times", s.Main.PID, s.Main.Since.Format(time.RFC3339), s.Restarts)
	}
	s.partRows(row)
	s.Rows(row)
	if s.LinesLost > 0 {
		row("Log", "%d lines were lost: nobody read the container's output in time", s.LinesLost)
	}
	if s.Stopping != nil {
		s.Stopping.rows(row)
	}
	s.pastRows(row)
	return t.Flush()
}

// partRows are those of what only some roles have, and of the keys, the configuration and the peers.
func (s Status) partRows(row func(name, format string, args ...any)) {
	if s.Node != nil {
		s.Node.Rows(row)
	}
	for _, one := range s.Services {
		serviceRow(one, row)
	}
	for _, one := range s.Sessions {
		row("Session", "%s from %s since %s, process %d", one.User, cmp.Or(one.From, "an unknown address"),
			one.Since.Format(time.RFC3339), one.PID)
	}
	if s.Leavers != nil {
		s.Leavers.Rows(row)
	}
	s.Users.Rows(row)
	if s.Gateway != nil {
		s.Gateway.Rows(row)
	}
	if s.Keys != nil {
		s.Keys.Rows(row)
	}
	if s.Sack != nil {
		s.Sack.Rows(row)
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
	if s.DatabaseDump != nil {
		row("Dump", "%s", s.DatabaseDump)
	}
	if s.Peers != nil {
		s.Peers.Rows(row)
	}
}

// pastRows are those of ends, losses and errors.
func (s Status) pastRows(row func(name, format string, args ...any)) {
	if s.LastEnd != nil {
		row("Last end", "%s: %s", s.LastEnd.At.Format(time.RFC3339), s.LastEnd.Text)
	}
	if s.Losses != nil && s.Losses.Last != nil {
		row("Lost", "slurmctld has said %d times that jobs are lost, last %s: %s", s.Losses.Count,
			s.Losses.Last.At.Format(time.RFC3339), s.Losses.Last.Text)
	}
	if s.LastError != nil {
		name := "Last error"
		if s.State == supervisor.Ready && s.LastError.At.Before(s.Since) {
			name = "Earlier error"
		}
		row(name, "%s: %s", s.LastError.At.Format(time.RFC3339), s.LastError.Text)
	}
}

func serviceRow(s services.Status, row func(name, format string, args ...any)) {
	text := fmt.Sprintf("%s, %s since %s", s.Name, s.State, s.Since.Format(time.RFC3339))
	if s.PID != 0 {
		text += fmt.Sprintf(", process %d", s.PID)
	}
	text += fmt.Sprintf(", restarted %d times", s.Restarts)
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	row("Service", "%s", text)
	if s.Refused != "" {
		row("Service", "%s refuses its next configuration, and the last good one stays: %s", s.Name, s.Refused)
	}
}

// WriteJSON writes the status for programs.
func (s Status) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(s)
}
