package lifecycle

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// TestConversionIsLeftAlone: SIGTERM and SIGHUP end a slurmdbd that does not listen yet at once, and with it the conversion
// of its database (24.11.5 and 26.05.5). It gets them when it listens.
func TestConversionIsLeftAlone(t *testing.T) {
	sigterm := supervisor.Terminated{At: epoch, Signal: "SIGTERM"}
	refused := []Event{supervisor.TimerFired{}, node.Answered{Err: errors.New("connection refused")}}
	for name, c := range map[string]struct {
		events []Event
		then   supervisor.MainSignal
	}{
		"an edit":                         {[]Event{supervisor.FilesChanged{}}, supervisor.SigHup},
		"an edit for which it must start": {[]Event{supervisor.FilesChanged{Restart: true}}, supervisor.SigTerm},
		"new keys":                        {[]Event{supervisor.FilesChanged{Restart: true, Since: epoch.Add(time.Second)}}, supervisor.SigTerm},
		"two edits":                       {[]Event{supervisor.FilesChanged{Restart: true}, supervisor.FilesChanged{}}, supervisor.SigTerm},
		"SIGHUP":                          {[]Event{supervisor.HungUp{}}, supervisor.SigHup},
		"SIGTERM":                         {[]Event{sigterm}, supervisor.SigTerm},
		"an edit, and then SIGTERM":       {[]Event{supervisor.FilesChanged{}, sigterm}, supervisor.SigTerm},
		"SIGTERM, and then an edit":       {[]Event{sigterm, supervisor.FilesChanged{Restart: true}, supervisor.HungUp{}}, supervisor.SigTerm},
	} {
		t.Run(name, func(t *testing.T) {
			for _, tries := range []int{0, 1, 2, 100} {
				l, err := readLife("slurmdbd grace=30s")
				require.NoError(t, err)
				l, _ = play(l, up...)
				var events []Event
				for range tries {
					events = append(events, refused...)
				}
				events = slices.Concat(events, c.events, refused, refused)
				for _, e := range events {
					var actions []Action
					l, actions = play(l, e)
					assert.False(t, slices.ContainsFunc(actions, func(a Action) bool { _, is := a.(supervisor.SignalMain); return is }), "at %T", e)
				}
				l, actions := play(l, supervisor.TimerFired{}, node.Answered{})
				l, more := play(l, supervisor.TimerFired{})
				assert.True(t, slices.Contains(append(actions, more...), Action(supervisor.SignalMain{Signal: c.then})), "it listens now: %v, %v, %v", actions, more, l.Phase)
			}
		})
	}
}

// TestSlurmdbdWakesItsThreads: a slurmdbd that gets SIGTERM just after it has begun to listen ends by its own SIGUSR1
// (26.05.5).
func TestSlurmdbdWakesItsThreads(t *testing.T) {
	for code, want := range map[int]int{endedByTerm: 0, endedByUSR1: 0, 139: 139} {
		l, err := readLife("slurmdbd grace=30s")
		require.NoError(t, err)
		l, _ = play(l, up...)
		l, _ = play(l, supervisor.TimerFired{}, node.Answered{}, supervisor.Terminated{At: epoch, Signal: "SIGTERM"}, supervisor.TimerFired{})
		_, actions := play(l, supervisor.MainExited{PID: l.Main, Code: code})
		assert.Contains(t, actions, Action(supervisor.Exit{Code: want}))
	}
}
