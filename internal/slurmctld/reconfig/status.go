package reconfig

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
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
	// Reloads is what has become of edits.
	Reloads Reloads `json:"reloads"`
	// Faults are why the last good set is not back in place, or was not kept.
	Faults []string `json:"faults,omitempty"`
	// Costs are what the user's own values lead to.
	Costs []string `json:"costs,omitempty"`
	// Warnings are what Slurm reads otherwise than it is probably meant.
	Warnings []string `json:"warnings,omitempty"`
	// Uncontained: there is no oci.conf, and srun --container runs in no container.
	Uncontained bool `json:"uncontained,omitempty"`
	// Constrains are the keys of cgroup.conf that are yes and bound jobs, such as ConstrainDevices.
	Constrains []string `json:"constrains,omitempty"`
	// ConfigMap is what the controller has streamed of the ConfigMap, nil for nothing.
	ConfigMap *StreamStatus `json:"config_map,omitempty"`
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
	return v.state.Phase == lifecycle.Ready && v.state.Conf.Activity == conf.Idle
}

// ending: nothing is changed any more.
func (v *view) ending() bool {
	return v.state.Phase == lifecycle.Stopping || v.state.Phase == lifecycle.Exited
}

// Status is that of the next state, which Report has not been given yet.
func (r *Reloader) Status(next lifecycle.State) *Status {
	s := &Status{
		Sources: r.Sources, Doing: next.Conf.Activity.String(), Took: next.Conf.Took, Missed: slices.Concat(next.Conf.Missed, next.Conf.Unheard),
		Reloads: r.seen.Load().reloads(next.Conf.Outcomes, time.Now()),
	}
	if next.Conf.Activity == conf.Spreading || next.Conf.Activity == conf.RestartingOne {
		s.Doing = next.Conf.Awaits()
	}
	if next.Conf.Live != nil {
		s.Live = next.Conf.Live.Hash
	}
	if next.Conf.Good != nil {
		s.Good = next.Conf.Good.Hash
	}
	if next.Conf.Refused != nil {
		s.Refused = &Refusal{Since: next.Conf.Refused.At, Why: strings.Split(next.Conf.Why, "\n")}
		if next.Conf.Refused.Set != nil {
			s.Refused.Hash = next.Conf.Refused.Set.Hash
		}
	}
	if next.Conf.NotRestored != "" {
		s.Faults = append(s.Faults, "cannot put the last good configuration back: "+next.Conf.NotRestored)
	}
	return s
}

// reloads adds the time to the outcomes, of which a state knows none.
func (v *view) reloads(next conf.Outcomes, now time.Time) Reloads {
	all := Reloads{Taken: next.Taken, Refused: next.Refused, RolledBack: next.RolledBack}
	switch {
	case v != nil && v.state.Conf.Outcomes.Taken == next.Taken:
		all.Last = v.Reloads.Last
	case next.Taken > 0:
		all.Last = &Reload{At: now, Seconds: now.Sub(next.ReadAt).Seconds()}
	}
	return all
}

// Complete adds what a Reloader knows besides the state.
func (r *Reloader) Complete(s Status) *Status {
	if unkept := r.unkept.Load(); unkept != nil && *unkept != "" {
		s.Faults = append(slices.Clip(s.Faults), *unkept)
	}
	if h := r.history.Load(); h != nil {
		s.History = *h
	}
	if s.ConfigMap = r.streamStatus(); s.ConfigMap != nil && s.ConfigMap.Fault != "" {
		s.Faults = append(slices.Clip(s.Faults), s.ConfigMap.Fault)
	}
	if n := r.notes.Load(); n != nil {
		s.Costs, s.Warnings, s.Uncontained, s.Constrains = n.costs, n.warnings, n.uncontained, n.constrains
	}
	return &s
}

// Report makes the next state known: to Reload, which waits for it, to the log, and to the
// nodes' agents, if a set has become good with it.
func (r *Reloader) Report(ctx context.Context, next lifecycle.State, status *Status) {
	v := &view{status, next, make(chan struct{})}
	former := r.seen.Swap(v)
	if former == nil {
		return
	}
	defer close(former.replaced)
	old := former.state
	r.remember(old, next, time.Now())
	r.reportRefusal(old.Conf, next.Conf)
	if next.Conf.Canary != "" && next.Conf.Canary != old.Conf.Canary {
		r.Log(slog.LevelWarn, "most nodes have not taken the configuration: the agent has slurmd of one restarted into it", slog.String("node", next.Conf.Canary), slog.Int("nodes", len(next.Conf.Missed)))
	}
	if next.Conf.RestartAll && !old.Conf.RestartAll {
		r.Log(slog.LevelInfo, "that slurmd came up with the configuration: the others are restarted, too", slog.String("nodes", few(next.Conf.Missed)))
	}
	if next.Conf.NotRestored != "" && next.Conf.NotRestored != old.Conf.NotRestored {
		r.Log(slog.LevelError, "cannot put the last good configuration back", slog.String("error", next.Conf.NotRestored))
	}
	switch next.ConfNews(old) {
	case conf.IsLive:
		r.announce(ctx, next.Conf.Good)
		r.Log(slog.LevelInfo, "the configuration is live", slog.String("hash", next.Conf.Good.Hash), slog.Int("nodes", next.Conf.Took))
		if missed := status.Missed; len(missed) > 0 {
			r.Log(slog.LevelWarn, "nodes have not taken the configuration", slog.String("nodes", few(missed)))
		}
	case conf.IsBack:
		r.announce(ctx, next.Conf.Good)
		r.Log(slog.LevelInfo, "the last good configuration is back", slog.String("hash", next.Conf.Good.Hash))
	case conf.NoNews:
	}
}

// reportRefusal logs why a set was refused, once as long as the same jobs need what it takes away.
func (r *Reloader) reportRefusal(old, next conf.State) {
	again := old.Refused != nil && next.Refused != nil && old.Refused.InUse && next.Refused.InUse && old.Refused.At.Equal(next.Refused.At)
	if next.Why == "" || again {
		return
	}
	if old.Why != next.Why || old.Refused == nil || next.Refused != old.Refused && !next.Refused.At.Equal(old.Refused.At) {
		for why := range strings.SplitSeq(next.Why, "\n") {
			r.Log(slog.LevelError, "the configuration is refused; the last good one stays", slog.String("error", why))
		}
	}
}

// announce tells the nodes' agents of a configuration that is live and stays, and logs what
// there is to say about it. It does not wait for that.
func (r *Reloader) announce(ctx context.Context, set *confset.Set) {
	dir, err := filepath.EvalSymlinks(r.live.Current())
	if err != nil {
		return // place has reported it
	}
	go func() {
		r.announcing.Lock()
		defer r.announcing.Unlock()
		if r.announceIfLive(dir) {
			r.note(ctx, set, dir)
		}
	}()
}

// announceIfLive does not announce a set in whose place another one is tried by now.
func (r *Reloader) announceIfLive(dir string) bool {
	r.feeding.Lock()
	defer r.feeding.Unlock()
	if now, err := filepath.EvalSymlinks(r.live.Current()); err != nil || now != dir {
		return false
	}
	r.Feed.Announce(dir)
	return true
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
	if s.ConfigMap != nil {
		row("ConfigMap", "%s", s.ConfigMap)
	}
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
