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

// Status is that of the next state, which Report has not been given yet.
func (r *Reloader) Status(next lifecycle.State) *Status {
	s := &Status{
		Sources: r.Sources, Doing: next.Conf.Activity.String(), Took: next.Conf.Took,
		Missed:  slices.Concat(next.Conf.Missed, next.Conf.Unheard),
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
	if n := r.notes.Load(); n != nil {
		s.Costs, s.Warnings, s.Uncontained, s.Constrains = n.costs, n.warnings, n.uncontained, n.constrains
	}
	return &s
}

// Report makes the next state known: to TryNow, which waits for it, to the log, and to the
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
		r.Log(slog.LevelWarn,
			"most nodes have not taken the configuration: the agent has slurmd of one restarted into it",
			slog.String("node", next.Conf.Canary), slog.Int("nodes", len(next.Conf.Missed)))
	}
	if next.Conf.RestartAll && !old.Conf.RestartAll {
		r.Log(slog.LevelInfo, "that slurmd came up with the configuration: the others are restarted, too",
			slog.String("nodes", few(next.Conf.Missed)))
	}
	if next.Conf.NotRestored != "" && next.Conf.NotRestored != old.Conf.NotRestored {
		r.Log(slog.LevelError, "cannot put the last good configuration back", slog.String("error", next.Conf.NotRestored))
	}
	switch next.ConfAnnouncement(old) {
	case conf.IsLive:
		r.announce(ctx, next.Conf.Good)
		r.Log(slog.LevelInfo, "the configuration is live", slog.String("hash", next.Conf.Good.Hash), slog.Int("nodes", next.Conf.Took))
		if missed := status.Missed; len(missed) > 0 {
			r.Log(slog.LevelWarn, "nodes have not taken the configuration", slog.String("nodes", few(missed)))
		}
	case conf.IsBack:
		r.announce(ctx, next.Conf.Good)
		r.Log(slog.LevelInfo, "the last good configuration is back", slog.String("hash", next.Conf.Good.Hash))
	case conf.NoAnnouncement:
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
	dir, err := filepath.EvalSymlinks(r.liveSet.Current())
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
	if now, err := filepath.EvalSymlinks(r.liveSet.Current()); err != nil || now != dir {
		return false
	}
	r.Feed.Announce(dir)
	return true
}
