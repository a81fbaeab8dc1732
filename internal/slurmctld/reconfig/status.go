package reconfig

import (
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// Status is what slurmctld runs with, and what is to come.
type Status struct {
	Sources []string `json:"sources"`
	// Live and Good are hashes: of the set in place, and of the last that slurmctld
	// and its nodes took. They differ while a set is tried.
	Live  string `json:"live"`
	Good  string `json:"good,omitempty"`
	Doing string `json:"doing,omitempty"`
	// Refused is the last content of the sources that could not be used.
	Refused *Refusal `json:"refused,omitempty"`
	// Took counts the nodes that have taken the live set, Missed names the others.
	Took   int      `json:"took"`
	Missed []string `json:"missed,omitempty"`
	// Reloads counts edits by what has become of them.
	Reloads Reloads `json:"reloads"`
	// Faults are why the last good set is not back in place, or was not kept.
	Faults []string `json:"faults,omitempty"`
	// Costs are what the user's own values lead to.
	Costs []string `json:"costs,omitempty"`
	// Warnings are what Slurm reads otherwise than it is probably meant.
	Warnings []string `json:"warnings,omitempty"`
	// Uncontained: there is no oci.conf, and srun --container runs in no container, because plugstack.conf has no plugin of
	// slurmlet's that refuses it.
	Uncontained bool `json:"uncontained,omitempty"`
	// Constrains are the keys of cgroup.conf that are yes and bound jobs, such as ConstrainDevices.
	Constrains []string `json:"constrains,omitempty"`
	// History is what has become of each edit since the container's start, the newest last.
	History []Edit `json:"history,omitempty"`
}

// Refusal says what is wrong with a content of the sources, a line for each fault.
type Refusal struct {
	Since time.Time `json:"since"`
	Hash  string    `json:"hash,omitempty"` // empty for what could not be read
	Why   []string  `json:"why"`
}

// Reloads counts edits since the container's start.
type Reloads struct {
	// Taken edits stayed, Refused edits never reached slurmctld, and RolledBack edits were
	// replaced with the last good configuration.
	Taken      int `json:"taken"`
	Refused    int `json:"refused"`
	RolledBack int `json:"rolled_back"`
	// Last is the last that was taken, nil for none.
	Last *Reload `json:"last,omitempty"`
}

// Reload is an edit that slurmctld and its nodes have taken.
type Reload struct {
	At time.Time `json:"at"`
	// Seconds is how long it took, from the agent's reading the edit to At.
	Seconds float64 `json:"seconds"`
}

// view is what a Reloader knows of the container's state. It never changes: replaced is
// closed when there is a newer one.
type view struct {
	*Status
	state    lifecycle.State
	replaced chan struct{}
}

// idle: an edit would be taken up at once.
func (v *view) idle() bool {
	return v.state.Phase == supervisor.Ready && v.state.Conf.Activity == conf.Idle
}

// ending: nothing is changed any more.
func (v *view) ending() bool {
	return v.state.Phase == supervisor.Stopping || v.state.Phase == supervisor.Exited
}

// few are enough to know where to look.
func few(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ",")
	}
	return strings.Join(names[:most], ",") + ",…"
}

// Rows writes the status for people, a row at a time.
func (s *Status) Rows(row func(name, format string, args ...any)) {
	row("Configuration", "%s from %s", strings.TrimSpace(s.Live+" "+s.Doing), strings.Join(s.Sources, ", "))
	if s.Refused != nil {
		for _, why := range s.Refused.Why {
			row("Refused", "%s (since %s)", why, s.Refused.Since.Format(time.RFC3339))
		}
	}
	if len(s.Missed) > 0 {
		row("Not taken by", "%s", few(s.Missed))
	}
	for _, f := range s.Faults {
		row("Fault", "%s", f)
	}
	for _, c := range s.Costs {
		row("Note", "%s", c)
	}
	if s.Uncontained {
		row("Note", "%s", "there is no oci.conf: srun --container runs the job on the node's own root file system, and succeeds")
	}
	for _, w := range s.Warnings {
		row("Warning", "%s", w)
	}
}

// notes are what somebody may want to know of a configuration that works.
type notes struct {
	costs, warnings []string
	// uncontained: there is no oci.conf, and no plugin that refuses --container.
	uncontained bool
	// constrains are the keys of cgroup.conf by which jobs are to be held.
	constrains []string
}

// Edit is what has become of one content of the sources.
type Edit struct {
	At      time.Time `json:"at"`
	Outcome Outcome   `json:"outcome"`
	Hash    string    `json:"hash,omitempty"` // empty for what could not be read
	// Files are those that differ from the last good set; keys are named like files.
	Files []string `json:"files,omitempty"`
	// Why has a line for each fault.
	Why []string `json:"why,omitempty"`
	// Nodes is how many have taken it, and Seconds how long that took, from the agent's reading it.
	Nodes   int     `json:"nodes,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// Outcome says what has become of an edit, for the history.
type Outcome string
