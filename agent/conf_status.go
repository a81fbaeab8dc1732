package agent

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

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

func (a *Agent) confStatus(next life) *ConfStatus {
	s := &ConfStatus{
		Sources: a.conf.Sources, Doing: string(next.reloading), Took: next.took, Missed: slices.Concat(next.missed, next.unheard), Reloads: a.reloads(next),
		judged: next.judged, verdict: next.verdict,
	}
	if next.reloading == spreading || next.reloading == restarting {
		s.Doing = next.awaits()
	}
	if next.live != nil {
		s.Live = next.live.Hash
	}
	if next.good != nil {
		s.Good = next.good.Hash
	}
	if next.refused != nil {
		s.Refused = &Refusal{Since: next.refused.at, Why: strings.Split(next.why, "\n")}
		if next.refused.set != nil {
			s.Refused.Hash = next.refused.set.Hash
		}
	}
	if next.brooded != "" {
		s.Faults = append(s.Faults, "cannot put the last good configuration back: "+next.brooded)
	}
	return s
}

// reloads is called once for each change of a life, which has no clock.
func (a *Agent) reloads(next life) ReloadsStatus {
	o := next.outcomes
	if now := time.Now(); o.taken != a.life.outcomes.taken {
		a.conf.last = &ReloadStatus{At: now, Seconds: now.Sub(o.edited).Seconds()}
	}
	return ReloadsStatus{Taken: o.taken, Refused: o.refused, RolledBack: o.rolledBack, Last: a.conf.last}
}

// tellReload logs what became of an edit.
func (a *Agent) tellReload(old, next life) {
	again := old.refused != nil && next.refused != nil && old.refused.inUse && next.refused.inUse && old.refused.at.Equal(next.refused.at)
	if next.why != "" && !again && (old.why != next.why || old.refused == nil || next.refused != old.refused && !next.refused.at.Equal(old.refused.at)) {
		for why := range strings.SplitSeq(next.why, "\n") {
			a.tell(slog.LevelError, "the configuration is refused; the last good one stays", slog.String("error", why))
		}
	}
	if next.canary != "" && next.canary != old.canary {
		a.tell(slog.LevelWarn, "most nodes have not taken the configuration: slurmd of one is restarted into it", slog.String("node", next.canary), slog.Int("nodes", len(next.missed)))
	}
	if next.urged && !old.urged {
		a.tell(slog.LevelInfo, "it came up with it: so are the others", slog.String("nodes", few(next.missed)))
	}
	if next.brooded != "" && next.brooded != old.brooded {
		a.tell(slog.LevelError, "cannot put the last good configuration back", slog.String("error", next.brooded))
	}
	if next.wasReady && next.good != nil && !next.unsettled && (!next.good.Same(old.good) || !old.wasReady) {
		a.conf.Announce(a.alive, next.good)
		a.tell(slog.LevelInfo, "the configuration is live", slog.String("hash", next.good.Hash), slog.Int("nodes", next.took))
		if missed := slices.Concat(next.missed, next.unheard); len(missed) > 0 {
			a.tell(slog.LevelWarn, "nodes have not taken the configuration", slog.String("nodes", few(missed)))
		}
	}
	if next.judged != old.judged {
		a.conf.judged.ring()
	}
	if old.unsettled && !next.unsettled && next.good.Same(old.good) {
		a.conf.Announce(a.alive, next.good)
		a.tell(slog.LevelInfo, "the last good configuration is back", slog.String("hash", next.good.Hash))
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
