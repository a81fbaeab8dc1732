package agent

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// HelperState is where a helper service stands.
type HelperState string

// The states of a helper.
const (
	HelperWaiting  HelperState = "Waiting"  // for the helper that comes before it
	HelperStarting HelperState = "Starting" // it does not answer yet
	HelperRunning  HelperState = "Running"
	HelperBackoff  HelperState = "Backoff" // it has ended and is started again after a pause
	HelperStopping HelperState = "Stopping"
	HelperStopped  HelperState = "Stopped"
)

// helper is a service beside the main process, such as a login pod's sshd: a
// value without clock or I/O, as life is. Its death touches nobody else.
type helper struct {
	state HelperState
	// reason is why it does not answer, or how it ended last.
	reason string
	// pid is its living process, 0 for none; launched: a start was asked for and
	// has not been reported yet.
	pid      int
	launched bool
	// starts counts those after the first, failures the ends in a row, tries the
	// questions without an answer.
	starts, failures, tries int
	// timer and question are the numbers of what is awaited; others are stale.
	timer, question int
}

func newHelper() helper { return helper{state: HelperWaiting} }

// helperEvent is something that happened to a helper, or to who wants it.
type helperEvent interface{ helperEvent() }

type (
	// helperWanted: what comes before it is there.
	helperWanted struct{}
	// helperUnwanted: it is to stop, for good.
	helperUnwanted struct{}
	helperStarted  struct{ pid int }
	// helperFailed: it could not be started at all.
	helperFailed struct{ err error }
	// helperAnswered: it serves, or err says why not yet.
	helperAnswered struct {
		number int
		err    error
	}
	helperExited struct {
		pid    int
		what   string
		uptime time.Duration
	}
	helperTimer struct{ number int }
)

func (helperWanted) helperEvent()   {}
func (helperUnwanted) helperEvent() {}
func (helperStarted) helperEvent()  {}
func (helperFailed) helperEvent()   {}
func (helperAnswered) helperEvent() {}
func (helperExited) helperEvent()   {}
func (helperTimer) helperEvent()    {}

// helperAction is something to do for a helper.
type helperAction interface{ helperAction() }

type (
	startHelper struct{}
	askHelper   struct{ number int }
	armHelper   struct {
		number int
		after  time.Duration
	}
	signalHelper struct{ signal unix.Signal }
)

func (startHelper) helperAction()  {}
func (askHelper) helperAction()    {}
func (armHelper) helperAction()    {}
func (signalHelper) helperAction() {}

// helperStop is how long a helper gets from SIGTERM to SIGKILL.
const helperStop = 5 * time.Second

// step is a helper's whole judgement, pure as that of a life.
func (h helper) step(e helperEvent) (helper, []helperAction) {
	switch e := e.(type) {
	case helperWanted:
		if h.state != HelperWaiting {
			return h, nil
		}
		return h.launch()
	case helperUnwanted:
		return h.stop()
	case helperStarted:
		return h.started(e.pid)
	case helperFailed:
		h.launched = false
		return h.pause(e.err.Error())
	case helperAnswered:
		return h.answered(e)
	case helperExited:
		return h.exited(e)
	case helperTimer:
		return h.fired(e.number)
	}
	panic(fmt.Sprintf("step: no such event of a helper: %T", e))
}

func (h helper) launch() (helper, []helperAction) {
	h.state, h.launched, h.tries = HelperStarting, true, 0
	return h, []helperAction{startHelper{}}
}

func (h helper) started(pid int) (helper, []helperAction) {
	h.launched, h.pid = false, pid
	if h.state == HelperStopping {
		return h.term()
	}
	return h.ask()
}

func (h helper) ask() (helper, []helperAction) {
	h.question++
	return h, []helperAction{askHelper{h.question}}
}

func (h helper) wait(d time.Duration) (helper, []helperAction) {
	h.timer++
	return h, []helperAction{armHelper{h.timer, d}}
}

func (h helper) answered(e helperAnswered) (helper, []helperAction) {
	switch {
	case e.number != h.question || h.state != HelperStarting:
		return h, nil
	case e.err == nil:
		h.state, h.reason, h.tries = HelperRunning, "", 0
		return h, nil
	}
	h.reason = e.err.Error()
	h.tries++
	return h.wait(grow(firstTry, h.tries-1, lastTry))
}

func (h helper) fired(number int) (helper, []helperAction) {
	switch {
	case number != h.timer:
		return h, nil
	case h.state == HelperStarting:
		return h.ask()
	case h.state == HelperBackoff:
		h.starts++
		return h.launch()
	case h.state == HelperStopping && h.pid != 0:
		return h, []helperAction{signalHelper{unix.SIGKILL}}
	}
	return h, nil
}

// exited: one that has lived for a while fails for the first time again.
func (h helper) exited(e helperExited) (helper, []helperAction) {
	if e.pid != h.pid || h.pid == 0 {
		return h, nil
	}
	h.pid = 0
	if e.uptime >= steady {
		h.failures = 0
	}
	return h.pause(e.what)
}

// pause waits before the next start, longer from failure to failure.
func (h helper) pause(reason string) (helper, []helperAction) {
	h.question++ // what was asked about this process is stale
	h.reason = reason
	if h.state == HelperStopping {
		h.state = HelperStopped
		return h, nil
	}
	h.state = HelperBackoff
	h.failures++
	return h.wait(grow(firstPause, h.failures-1, lastPause))
}

func (h helper) stop() (helper, []helperAction) {
	switch {
	case h.state == HelperStopping || h.state == HelperStopped:
		return h, nil
	case h.pid == 0 && !h.launched:
		h.state = HelperStopped
		return h, nil
	}
	h.state = HelperStopping
	if h.pid == 0 {
		return h, nil // as soon as it has started
	}
	return h.term()
}

func (h helper) term() (helper, []helperAction) {
	h, actions := h.wait(helperStop)
	return h, append(actions, signalHelper{unix.SIGTERM})
}
