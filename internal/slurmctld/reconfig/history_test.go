package reconfig

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
)

// set is a set of files by their names and contents.
func setOf(hash string, files ...string) *confset.Set {
	s := &confset.Set{Hash: hash}
	for i := 0; i < len(files); i += 2 {
		s.Files = append(s.Files, confset.File{Name: files[i], Data: []byte(files[i+1])})
	}
	return s
}

func TestHistory(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	one := setOf("1", "slurm.conf", "a", "gres.conf", "a")
	two := setOf("2", "slurm.conf", "b", "cgroup.conf", "a")
	two.Keys = []confset.Key{{Name: "slurm.key", Target: "elsewhere"}}
	at := func(change func(*lifecycle.State)) lifecycle.State {
		s := lifecycle.State{}
		s.WasReady, s.Conf.Good = true, one
		change(&s)
		return s
	}
	ready := at(func(*lifecycle.State) {})
	for _, c := range []struct {
		name      string
		old, next lifecycle.State
		want      *Edit
	}{
		{"nothing", ready, ready, nil},
		{"the first start", lifecycle.State{}, ready, &Edit{At: now, Outcome: OutcomeStarted, Hash: "1"}},
		{
			"an edit that is taken", ready, at(func(s *lifecycle.State) {
				s.Conf.Good, s.Conf.Outcomes.Taken, s.Conf.Outcomes.ReadAt, s.Conf.Took = two, 1, now.Add(-2*time.Second), 7
			}),
			&Edit{At: now, Outcome: OutcomeLive, Hash: "2", Files: []string{"cgroup.conf", "gres.conf", "slurm.conf", "slurm.key"}, Nodes: 7, Seconds: 2},
		},
		{
			"one that is refused", ready, at(func(s *lifecycle.State) {
				s.Conf.Outcomes.Refused, s.Conf.Refused, s.Conf.Why = 1, &conf.Revision{Set: setOf("3", "slurm.conf", "x", "gres.conf", "a")}, "slurm.conf:1: wrong\nand this"
			}),
			&Edit{At: now, Outcome: OutcomeRefused, Hash: "3", Files: []string{"slurm.conf"}, Why: []string{"slurm.conf:1: wrong", "and this"}},
		},
		{
			"one that cannot be read", ready, at(func(s *lifecycle.State) {
				s.Conf.Outcomes.Refused, s.Conf.Refused, s.Conf.Why = 1, &conf.Revision{Err: errors.New("gone")}, "gone"
			}),
			&Edit{At: now, Outcome: OutcomeRefused, Why: []string{"gone"}},
		},
		{
			"one that is rolled back", ready, at(func(s *lifecycle.State) {
				s.Conf.Outcomes.RolledBack, s.Conf.Refused, s.Conf.Why = 1, &conf.Revision{Set: two}, "slurmctld says no"
			}),
			&Edit{At: now, Outcome: OutcomeRolledBack, Hash: "2", Files: []string{"cgroup.conf", "gres.conf", "slurm.conf", "slurm.key"}, Why: []string{"slurmctld says no"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Reloader{}
			r.remember(c.old, c.next, now)
			history := r.Complete(Status{}).History
			if c.want == nil {
				require.Empty(t, history)
				return
			}
			require.Equal(t, []Edit{*c.want}, history)
		})
	}
}

// TestHistoryIsBounded: the newest edits stay.
func TestHistoryIsBounded(t *testing.T) {
	r := &Reloader{}
	state := lifecycle.State{}
	for range 3 * mostEdits {
		next := state
		next.Conf.Outcomes.Taken++
		next.Conf.Took = next.Conf.Outcomes.Taken
		r.remember(state, next, time.Time{})
		state = next
	}
	history := r.Complete(Status{}).History
	require.Len(t, history, mostEdits)
	require.Equal(t, 3*mostEdits, history[mostEdits-1].Nodes)
}

// TestEditIsBounded: an edit with endless files and reasons takes little memory.
func TestEditIsBounded(t *testing.T) {
	many := &confset.Set{}
	for i := range 10 * mostFiles {
		many.Files = append(many.Files, confset.File{Name: fmt.Sprintf("%04d", i)})
	}
	r := &Reloader{}
	why := "a" + strings.Repeat("é", mostReason) + strings.Repeat("\nx", 10*mostReasons)
	for _, text := range []string{"", why} {
		old, next := lifecycle.State{}, lifecycle.State{}
		next.Conf.Outcomes.Refused, next.Conf.Refused, next.Conf.Why = 1, &conf.Revision{Set: many}, text
		r.remember(old, next, time.Now())
	}
	all := *r.history.Load()
	require.Empty(t, all[0].Why)
	require.Len(t, all[0].Files, mostFiles)
	require.Len(t, all[1].Why, mostReasons)
	require.True(t, utf8.ValidString(all[1].Why[0]))
	require.Len(t, all[1].Why[0], mostReason-1+len("…"))
}
