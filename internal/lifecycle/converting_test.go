package lifecycle

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestConversionIsLeftAlone: SIGTERM and SIGHUP end a slurmdbd that does not listen yet at once, and with it the conversion
// of its database (24.11.5 and 26.05.5). It gets them when it listens.
func TestConversionIsLeftAlone(t *testing.T) {
	sigterm := Terminated{At: epoch, Signal: "SIGTERM"}
	refused := []Event{TimerFired{}, Answered{Err: errors.New("connection refused")}}
	for name, c := range map[string]struct {
		events []Event
		then   MainSignal
	}{
		"an edit":                         {[]Event{FilesChanged{}}, SigHup},
		"an edit for which it must start": {[]Event{FilesChanged{Restart: true}}, SigTerm},
		"new keys":                        {[]Event{FilesChanged{Restart: true, Since: epoch.Add(time.Second)}}, SigTerm},
		"two edits":                       {[]Event{FilesChanged{Restart: true}, FilesChanged{}}, SigTerm},
		"SIGHUP":                          {[]Event{HungUp{}}, SigHup},
		"SIGTERM":                         {[]Event{sigterm}, SigTerm},
		"an edit, and then SIGTERM":       {[]Event{FilesChanged{}, sigterm}, SigTerm},
		"SIGTERM, and then an edit":       {[]Event{sigterm, FilesChanged{Restart: true}, HungUp{}}, SigTerm},
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
					assert.False(t, slices.ContainsFunc(actions, func(a Action) bool { _, is := a.(SignalMain); return is }), "at %T", e)
				}
				l, actions := play(l, TimerFired{}, Answered{})
				l, more := play(l, TimerFired{})
				assert.True(t, slices.Contains(append(actions, more...), Action(SignalMain{c.then})), "it listens now: %v, %v, %v", actions, more, l.Phase)
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
		l, _ = play(l, TimerFired{}, Answered{}, Terminated{At: epoch, Signal: "SIGTERM"}, TimerFired{})
		_, actions := play(l, MainExited{PID: l.Main, Code: code})
		assert.Contains(t, actions, Action(Exit{want}))
	}
}
