package reconfig

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
)

// The outcomes of an edit.
const (
	// OutcomeStarted: slurmctld has started with it.
	OutcomeStarted Outcome = "started"
	// OutcomeLive: slurmctld and its nodes have taken it.
	OutcomeLive Outcome = "live"
	// OutcomeRefused: it never reached slurmctld.
	OutcomeRefused Outcome = "refused"
	// OutcomeRolledBack: the last good set has taken its place.
	OutcomeRolledBack Outcome = "rolled back"
)

const (
	// mostEdits are remembered, each with so many files and lines.
	mostEdits, mostFiles, mostReasons = 50, 100, 10
	// mostReason is the length of a line in bytes.
	mostReason = 1000
)

// remember notes what the step from one state to the next has made of an edit.
func (r *Reloader) remember(old, next lifecycle.State, now time.Time) {
	edit := Edit{At: now}
	switch {
	case next.Conf.Outcomes.Taken > old.Conf.Outcomes.Taken:
		edit.Outcome, edit.Nodes, edit.Seconds = OutcomeLive, next.Conf.Took, now.Sub(next.Conf.Outcomes.ReadAt).Seconds()
		edit.of(next.Conf.Good, old.Conf.Good)
	case next.Conf.Outcomes.Refused > old.Conf.Outcomes.Refused:
		edit.Outcome = OutcomeRefused
		edit.failed(next.Conf)
	case next.Conf.Outcomes.RolledBack > old.Conf.Outcomes.RolledBack:
		edit.Outcome = OutcomeRolledBack
		edit.failed(next.Conf)
	case !old.WasReady && next.WasReady && next.Conf.Good != nil:
		edit.Outcome = OutcomeStarted
		edit.of(next.Conf.Good, nil)
		edit.Files = nil
	default:
		return
	}
	var all []Edit
	if h := r.history.Load(); h != nil {
		all = *h
	}
	all = append(slices.Clip(all), edit) // readers have the former one
	all = all[max(0, len(all)-mostEdits):]
	r.history.Store(&all)
}

// of names the set and its differences from the former one.
func (e *Edit) of(set, former *confset.Set) {
	if set != nil {
		e.Hash, e.Files = set.Hash, changedFiles(former, set)
		e.Files = slices.Clone(e.Files[:min(len(e.Files), mostFiles)])
	}
}

// failed says why.
func (e *Edit) failed(next conf.State) {
	if next.Refused != nil {
		e.of(next.Refused.Set, next.Good)
	}
	for line := range strings.Lines(next.Why) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) > mostReason {
			line = strings.Clone(strings.ToValidUTF8(line[:mostReason], "")) + "…"
		}
		if e.Why = append(e.Why, line); len(e.Why) == mostReasons {
			break
		}
	}
}

// changedFiles are the names of files and keys that are new, gone or different.
func changedFiles(former, set *confset.Set) []string {
	if former == nil {
		former = &confset.Set{}
	}
	var all []string
	was := map[string]confset.File{}
	for _, f := range former.Files {
		was[f.Name] = f
	}
	for _, f := range set.Files {
		if old, found := was[f.Name]; !found || old.Mode != f.Mode || !bytes.Equal(old.Data, f.Data) {
			all = append(all, f.Name)
		}
		delete(was, f.Name)
	}
	for name := range was {
		all = append(all, name)
	}
	all = append(all, changedKeys(former.Keys, set.Keys)...)
	slices.Sort(all)
	return all
}

func changedKeys(former, keys []confset.Key) []string {
	var all []string
	was := map[string]confset.Key{}
	for _, k := range former {
		was[k.Name] = k
	}
	for _, k := range keys {
		if was[k.Name] != k {
			all = append(all, k.Name)
		}
		delete(was, k.Name)
	}
	for name := range was {
		all = append(all, name)
	}
	return all
}
