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
	"github.com/slurmlet/slurmlet/internal/login"
	"github.com/slurmlet/slurmlet/internal/slurmctld"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elasticnodes"
	"github.com/slurmlet/slurmlet/internal/slurmctld/keptrecords"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
	"github.com/slurmlet/slurmlet/internal/slurmctld/records"
	"github.com/slurmlet/slurmlet/internal/slurmctld/savedstate"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// Status is what the agent tells about itself: GET /status on its socket, and "slurmlet
// status -o json".
type Status struct {
	Role    Role            `json:"role"`
	State   lifecycle.Phase `json:"state"`
	Since   time.Time       `json:"since"`
	Doing   string          `json:"doing,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	Version string          `json:"version"`
	// Began is when the agent, and the container, was started.
	Began time.Time `json:"began"`
	// Started says whether the container has been Ready once.
	Started bool        `json:"started"`
	Node    *NodeStatus `json:"node,omitempty"`
	Main    *MainStatus `json:"main,omitempty"`
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

// NodeStatus is the node's size, where it comes from, and how it is enforced.
type NodeStatus struct {
	Name   string             `json:"name"`
	Conf   string             `json:"conf"`
	Size   nodesize.Size      `json:"shape"`
	Limits nodesize.Resources `json:"limits"`
	Traits nodesize.Traits    `json:"traits"`
	// Grace is the time to end that others than SLURMLET_GRACE_PERIOD give the pod.
	Grace  nodesize.Grace `json:"granted"`
	Cgroup *delegation    `json:"cgroup"`
	Gres   nodesize.Gres  `json:"gres"`
	// Fit is nil before the cluster's configuration was asked for.
	Fit *MismatchStatus `json:"fit,omitempty"`
	// Fault is why the last change of the pod could not be followed, Refusal why
	// slurmctld did not take the traits.
	Fault string `json:"fault,omitempty"`
	// Unlike is in what the record of an elastic node is another one than the pod, Elastic that the node is one.
	Unlike  string `json:"unlike,omitempty"`
	Elastic bool   `json:"elastic,omitempty"`
	Refusal string `json:"refusal,omitempty"`
	// Steps is what is done in the cgroups of jobs.
	Steps *StepsStatus `json:"steps,omitempty"`
	// Strays is nil where processes that Slurm did not start die no sooner than jobs.
	Strays *StraysStatus `json:"strays,omitempty"`
	// Files is nil before users' files were looked at.
	Files *FilesStatus `json:"files,omitempty"`
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
		node := *s.Node
		node.Fit = a.mismatchCheck.found.Load()
		node.Steps, node.Strays = a.describeSteps(), a.strays.describe()
		node.Files = a.files.describe()
		s.Node = &node
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
		Version: a.Version, Began: a.began, Started: next.WasReady, Restarts: next.Starts, Conf: a.ctld.Conf(next),
	}
	if next.Main != 0 {
		s.Main = &MainStatus{PID: next.Main, Since: next.MainSince}
	}
	if next.Registers {
		s.Node = &NodeStatus{
			Name: a.Config.NodeName, Conf: next.Size.Conf() + next.Traits.Conf(), Size: next.Size, Limits: next.Resources,
			Traits: next.Traits, Grace: next.Grace.Sooner(next.Deadline), Cgroup: &a.delegated, Gres: a.gres, Fault: next.Fault, Refusal: next.Refusal,
			Unlike: next.Unlike, Elastic: next.Elastic,
		}
	}
	if next.Phase == lifecycle.Stopping || next.Phase == lifecycle.Exited {
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

// mib is bytes of a MiB.
const mib = 1 << 20

// patience is how many tries are nothing to worry about: nobody is ready at once.
const patience = 3

func (a *Agent) logChange(old, next lifecycle.State) {
	level := slog.LevelInfo
	switch {
	case next.Left != "":
		level = slog.LevelWarn
	case next.Phase == old.Phase && next.Tries < patience:
		level = slog.LevelDebug
	case next.Phase == old.Phase || next.Phase == lifecycle.Starting:
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
		s.Node.rows(row)
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
		if s.State == lifecycle.Ready && s.LastError.At.Before(s.Since) {
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

func (n *NodeStatus) rows(row func(name, format string, args ...any)) {
	row("Node", "%s %s", n.Name, n.Conf)
	limit := func(name, value, source string) {
		if source == "" {
			value, source = "no limit", "none found"
		}
		row(name, "%s (%s)", value, source)
	}
	limit("CPU quota", fmt.Sprintf("%g CPUs", n.Limits.Quota.Value), n.Limits.Quota.Source)
	limit("CPU set", n.Limits.CPUSet.Value.String(), n.Limits.CPUSet.Source)
	limit("Memory", fmt.Sprintf("%.1f MiB", float64(n.Limits.Memory.Value)/mib), n.Limits.Memory.Source)
	limit("Swap", fmt.Sprintf("%.1f MiB, not counted", float64(n.Limits.Swap.Value)/mib), n.Limits.Swap.Source)
	limit("Disk", fmt.Sprintf("%d MiB", n.Limits.Disk.Value/mib), n.Limits.Disk.Source)
	row("Machine", "CPUs %s, %d MiB", n.Limits.Online, n.Limits.MemTotal/mib)
	if len(n.Limits.Topology.Packages) > 0 {
		row("Topology", "%s", n.Limits.Topology)
	}
	for _, d := range n.Limits.Disagreements {
		row("Note", "%s", d)
	}
	traitRows(n.Traits, row)
	graceRows(n.Grace, row)
	row("Cgroup", "%s", n.Cgroup)
	gresRows(n.Gres, row)
	if n.Fit != nil && n.Fit.Devices != "" {
		row("Devices", "%s", n.Fit.Devices)
	}
	if n.Fault != "" {
		row("Fault", "cannot follow the pod's change: %s", n.Fault)
	}
	if n.Refusal != "" {
		row("Fault", "slurmctld does not take what the pod's annotations say: %s", n.Refusal)
	}
	if n.Unlike != "" {
		row("Fault", "the record of this elastic node is another one than the pod: %s", n.Unlike)
	}
	row("Steps", "%s", n.Steps)
	if n.Strays != nil {
		row("Other processes", "%s", n.Strays)
	}
	if n.Files != nil {
		n.Files.rows(row)
	}
	if n.Fit == nil {
		return
	}
	for _, m := range n.Fit.Mismatches {
		row("Misfit", "%s", m)
	}
	if n.Fit.Error != "" {
		row("Misfits", "not known: %s", n.Fit.Error)
	}
}

// WriteJSON writes the status for programs.
func (s Status) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

func traitRows(t nodesize.Traits, row func(name, format string, args ...any)) {
	for _, one := range []struct {
		name string
		nodesize.Trait
	}{{"Features", t.Features}, {"Topology", t.Topology}, {"Weight", t.Weight}} {
		if one.Given() {
			row(one.name, "%s (%s)", one.Value, one.Source)
		}
	}
}

func gresRows(g nodesize.Gres, row func(name, format string, args ...any)) {
	for _, line := range g.Lines {
		row("Device", "%s", line)
	}
	for _, note := range g.Notes {
		row("Note", "%s", note)
	}
}
