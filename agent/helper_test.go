package agent

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// help feeds events to a helper; a number of 0 stands for what is awaited.
func help(h helper, events ...helperEvent) (helper, []helperAction) {
	var last []helperAction
	for _, e := range events {
		switch typed := e.(type) {
		case helperAnswered:
			typed.number = h.question
			e = typed
		case helperTimer:
			e = helperTimer{h.timer}
		}
		h, last = h.step(e)
	}
	return h, last
}

var helperUp = []helperEvent{helperWanted{}, helperStarted{7}, helperAnswered{}}

func TestHelper(t *testing.T) {
	no := errors.New("connection refused")
	for name, c := range map[string]struct {
		events []helperEvent
		state  HelperState
		reason string
		last   []helperAction
	}{
		"waits":                {nil, HelperWaiting, "", nil},
		"is started":           {helperUp[:1], HelperStarting, "", []helperAction{startHelper{}}},
		"is asked":             {helperUp[:2], HelperStarting, "", []helperAction{askHelper{1}}},
		"does not answer yet":  {append(helperUp[:2:2], helperAnswered{err: no}), HelperStarting, "connection refused", []helperAction{armHelper{1, firstTry}}},
		"is asked again":       {append(helperUp[:2:2], helperAnswered{err: no}, helperTimer{}), HelperStarting, "connection refused", []helperAction{askHelper{2}}},
		"runs":                 {helperUp, HelperRunning, "", nil},
		"dies":                 {append(helperUp[:3:3], helperExited{7, "killed", 0}), HelperBackoff, "killed", []helperAction{armHelper{1, firstPause}}},
		"is started again":     {append(helperUp[:3:3], helperExited{7, "killed", 0}, helperTimer{}), HelperStarting, "killed", []helperAction{startHelper{}}},
		"cannot be started":    {[]helperEvent{helperWanted{}, helperFailed{no}}, HelperBackoff, "connection refused", []helperAction{armHelper{1, firstPause}}},
		"is stopped":           {append(helperUp[:3:3], helperUnwanted{}), HelperStopping, "", []helperAction{armHelper{1, helperStop}, signalHelper{unix.SIGTERM}}},
		"does not stop":        {append(helperUp[:3:3], helperUnwanted{}, helperTimer{}), HelperStopping, "", []helperAction{signalHelper{unix.SIGKILL}}},
		"has stopped":          {append(helperUp[:3:3], helperUnwanted{}, helperExited{7, "exit code 0", 0}), HelperStopped, "exit code 0", nil},
		"is stopped too early": {append(helperUp[:1:1], helperUnwanted{}, helperStarted{7}), HelperStopping, "", []helperAction{armHelper{1, helperStop}, signalHelper{unix.SIGTERM}}},
		"is never wanted":      {[]helperEvent{helperUnwanted{}, helperWanted{}}, HelperStopped, "", nil},
		"a stranger dies":      {append(helperUp[:3:3], helperExited{8, "killed", 0}), HelperRunning, "", nil},
	} {
		h, last := help(newHelper(), c.events...)
		require.Equal(t, c.state, h.state, name)
		require.Equal(t, c.reason, h.reason, name)
		require.Equal(t, c.last, last, name)
	}
}

// TestHelperBackoff: the pause doubles with each death in a row, and begins anew after a steady life.
func TestHelperBackoff(t *testing.T) {
	h, _ := help(newHelper(), helperUp...)
	var actions []helperAction
	for _, pause := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000} {
		h, actions = help(h, helperExited{pid: 7, uptime: steady - 1})
		require.Equal(t, []helperAction{armHelper{h.timer, pause * time.Millisecond}}, actions)
		h, _ = help(h, helperTimer{}, helperStarted{7}, helperAnswered{})
	}
	_, actions = help(h, helperExited{pid: 7, uptime: steady})
	require.Equal(t, []helperAction{armHelper{h.timer + 1, firstPause}}, actions)
}

// helperWorld plays with a helper and holds it to its invariants.
type helperWorld struct {
	*testing.T
	h             helper
	alive, pids   int
	starts        int
	asked, timers []int
	unwanted      bool
}

func FuzzHelper(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 1, 2, 5, 3})
	f.Add([]byte{0, 5, 1, 3})
	f.Fuzz(func(t *testing.T, script []byte) {
		w := &helperWorld{T: t, h: newHelper()}
		for _, b := range script {
			w.happen(b&7, b>>4)
		}
		w.end()
	})
}

func (w *helperWorld) happen(what, how byte) {
	switch what {
	case 0:
		w.feed(helperWanted{})
	case 1:
		w.startEnds(how == 15)
	case 2:
		if len(w.asked) > 0 {
			e := helperAnswered{number: w.asked[0]}
			if how&1 == 1 {
				e.err = errors.New("no")
			}
			w.asked = w.asked[1:]
			w.feed(e)
		}
	case 3:
		w.die()
	case 4, 6:
		if len(w.timers) > 0 {
			n := w.timers[0]
			w.timers = w.timers[1:]
			w.feed(helperTimer{n})
		}
	case 5:
		if how == 0 {
			w.unwanted = true
			w.feed(helperUnwanted{})
		}
	case 7:
		w.feed(helperExited{pid: w.pids + 1})
	}
}

func (w *helperWorld) startEnds(badly bool) {
	switch {
	case w.starts == 0:
		return
	case badly:
		w.starts--
		w.feed(helperFailed{errors.New("no")})
		return
	}
	w.starts--
	w.pids++
	w.alive = w.pids
	w.feed(helperStarted{w.pids})
}

func (w *helperWorld) die() {
	if w.alive != 0 {
		pid := w.alive
		w.alive = 0
		w.feed(helperExited{pid: pid})
	}
}

func (w *helperWorld) feed(e helperEvent) {
	var actions []helperAction
	w.h, actions = w.h.step(e)
	for _, a := range actions {
		switch a := a.(type) {
		case startHelper:
			require.Zero(w, w.alive+w.starts, "a second process")
			require.False(w, w.unwanted, "a start of what nobody wants")
			w.starts++
		case askHelper:
			w.asked = append(w.asked, a.number)
		case armHelper:
			require.True(w, a.after > 0 && a.after <= lastPause)
			w.timers = append(w.timers, a.number)
		case signalHelper:
			require.NotZero(w, w.alive, "%v to a process that was reaped", a.signal)
		}
	}
	require.Equal(w, w.alive, w.h.pid)
	switch w.h.state {
	case HelperRunning:
		require.NotZero(w, w.alive)
	case HelperBackoff:
		require.NotEmpty(w, w.timers, "nothing will ever start it")
	case HelperStarting:
		require.NotZero(w, w.starts+len(w.asked)+len(w.timers), "nothing will ever happen again")
	case HelperStopped:
		require.Zero(w, w.alive+w.starts)
	}
}

// end: whatever has happened, one that nobody wants stops.
func (w *helperWorld) end() {
	w.unwanted = true
	w.feed(helperUnwanted{})
	w.startEnds(false)
	w.die()
	require.Equal(w, HelperStopped, w.h.state)
}
