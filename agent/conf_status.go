package agent

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/reconfig"
)

// ConfStatus is what slurmctld runs with, and what is to come.
type ConfStatus struct {
	Sources []string `json:"sources"`
	// Live and Good are hashes: of the set in place, and of the last that slurmctld
	// and its nodes took. They differ while a set is tried.
	Live  string `json:"live"`
	Good  string `json:"good,omitempty"`
	Doing string `json:"doing,omitempty"`
	// Refused is the last content of the sources that could not be used.
	Refused *Refusal `json:"refused,omitempty"`
	// Took counts the nodes that have taken the live set, Missed names those that
	// have not.
	Took   int      `json:"took"`
	Missed []string `json:"missed,omitempty"`
	// Reloads is what has become of edits.
	Reloads ReloadsStatus `json:"reloads"`
	// Faults are why the last good set is not back in place, or was not kept.
	Faults []string `json:"faults,omitempty"`
	// Costs are what the user's own values lead to.
	Costs []string `json:"costs,omitempty"`
	// Warnings are what Slurm reads otherwise than it is probably meant.
	Warnings []string `json:"warnings,omitempty"`

	judged  int
	verdict string
}

// Refusal says what is wrong with a content of the sources.
type Refusal = reconfig.Refusal

// Difference is how the content of the sources differs from what slurmctld runs with.
type Difference = reconfig.Difference

// ReloadsStatus counts edits since the container's start.
type ReloadsStatus struct {
	// Taken are those that stayed, Refused those that slurmctld never had, RolledBack
	// those in whose place the last good configuration was put back.
	Taken      int `json:"taken"`
	Refused    int `json:"refused"`
	RolledBack int `json:"rolled_back"`
	// Last is the last that was taken, nil for none.
	Last *ReloadStatus `json:"last,omitempty"`
}

// ReloadStatus is an edit that slurmctld and its nodes have taken.
type ReloadStatus struct {
	At time.Time `json:"at"`
	// Seconds is how long it took, from the agent's reading the edit to At.
	Seconds float64 `json:"seconds"`
}

func (a *Agent) confStatus(next lifecycle.State) *ConfStatus {
	s := &ConfStatus{
		Sources: a.conf.Sources, Doing: string(next.ConfActivity), Took: next.Took, Missed: slices.Concat(next.Missed, next.Unheard), Reloads: a.reloads(next),
		judged: next.Resolved, verdict: next.Result,
	}
	if next.ConfActivity == lifecycle.Spreading || next.ConfActivity == lifecycle.RestartingOne {
		s.Doing = next.Awaits()
	}
	if next.Live != nil {
		s.Live = next.Live.Hash
	}
	if next.Good != nil {
		s.Good = next.Good.Hash
	}
	if next.Refused != nil {
		s.Refused = &Refusal{Since: next.Refused.At, Why: strings.Split(next.Why, "\n")}
		if next.Refused.Set != nil {
			s.Refused.Hash = next.Refused.Set.Hash
		}
	}
	if next.NotRestored != "" {
		s.Faults = append(s.Faults, "cannot put the last good configuration back: "+next.NotRestored)
	}
	return s
}

// reloads is called once for each change of a life, which has no clock.
func (a *Agent) reloads(next lifecycle.State) ReloadsStatus {
	o := next.Outcomes
	if now := time.Now(); o.Taken != a.life.Outcomes.Taken {
		a.conf.last = &ReloadStatus{At: now, Seconds: now.Sub(o.ReadAt).Seconds()}
	}
	return ReloadsStatus{Taken: o.Taken, Refused: o.Refused, RolledBack: o.RolledBack, Last: a.conf.last}
}

// logReload logs what became of an edit.
func (a *Agent) logReload(old, next lifecycle.State) {
	again := old.Refused != nil && next.Refused != nil && old.Refused.InUse && next.Refused.InUse && old.Refused.At.Equal(next.Refused.At)
	if next.Why != "" && !again && (old.Why != next.Why || old.Refused == nil || next.Refused != old.Refused && !next.Refused.At.Equal(old.Refused.At)) {
		for why := range strings.SplitSeq(next.Why, "\n") {
			a.log(slog.LevelError, "the configuration is refused; the last good one stays", slog.String("error", why))
		}
	}
	if next.Canary != "" && next.Canary != old.Canary {
		a.log(slog.LevelWarn, "most nodes have not taken the configuration: slurmd of one is restarted into it", slog.String("node", next.Canary), slog.Int("nodes", len(next.Missed)))
	}
	if next.RestartAll && !old.RestartAll {
		a.log(slog.LevelInfo, "it came up with it: so are the others", slog.String("nodes", few(next.Missed)))
	}
	if next.NotRestored != "" && next.NotRestored != old.NotRestored {
		a.log(slog.LevelError, "cannot put the last good configuration back", slog.String("error", next.NotRestored))
	}
	if next.WasReady && next.Good != nil && !next.Unsettled && (!next.Good.Same(old.Good) || !old.WasReady) {
		a.conf.Announce(a.alive, next.Good)
		a.log(slog.LevelInfo, "the configuration is live", slog.String("hash", next.Good.Hash), slog.Int("nodes", next.Took))
		if missed := slices.Concat(next.Missed, next.Unheard); len(missed) > 0 {
			a.log(slog.LevelWarn, "nodes have not taken the configuration", slog.String("nodes", few(missed)))
		}
	}
	if next.Resolved != old.Resolved {
		a.conf.judged.ring()
	}
	if old.Unsettled && !next.Unsettled && next.Good.Same(old.Good) {
		a.conf.Announce(a.alive, next.Good)
		a.log(slog.LevelInfo, "the last good configuration is back", slog.String("hash", next.Good.Hash))
	}
}

func (s *ConfStatus) err() error {
	if s.verdict != "" {
		return errors.New(s.verdict)
	}
	return nil
}

// few are enough to know where to look.
func few(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ",")
	}
	return strings.Join(names[:most], ",") + ",…"
}

func (s *ConfStatus) rows(row func(name, format string, args ...any)) {
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
	for _, w := range s.Warnings {
		row("Warning", "%s", w)
	}
}
