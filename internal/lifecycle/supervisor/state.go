// Package supervisor is the life of a container's main process, whatever its role: it is started as
// soon as what it needs can be reached, restarted after a pause, replaced, and ended. It is pure.
//
// A State waits for one thing at a time: the answer to one question, or one timer. The machines of
// the roles use its methods, and it knows none of them. `go test ./internal/lifecycle/...` tests it,
// by transcripts and the fuzzer's stories.
package supervisor

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
)

// Plan says how the supervisor treats the daemon; the role decides it.
type Plan struct {
	// Restarts, Announces: see part in agent/daemon.go. Reaches: something must be reached before the
	// daemon is started.
	Restarts, Announces, Reaches bool
}

// TimeLeft is the time that the container has for its end.
type TimeLeft = deadlines.State

// State is that of a container and its main process, and what is waited for.
type State struct {
	Plan
	TimeLeft
	Phase    Phase
	Activity Activity
	// Reason says what it waits for or what went wrong last.
	Reason string
	// Unstartable is why nothing can be started yet.
	Unstartable string
	// Main is the living main process, 0 for none. StartAsked: one was asked for, and has not been
	// reported yet.
	Main       int
	StartAsked bool
	// MainSince is when Main began: a record must name a slurmd as young.
	MainSince time.Time
	// FilesSince is when the files changed that Main must have read.
	FilesSince time.Time
	// Tries counts questions without the hoped-for answer, Failures the ends of
	// the daemon in a row, Starts its starts.
	Tries, Failures, Starts int
	// Timer is the number of the one that is armed; others that fire are stale.
	Timer int
	// Question is the number of the one that is open; other answers are stale.
	Question int
	// Killed: SIGKILL was sent to the main process.
	Killed bool
	// WasReady: it has been Ready once.
	WasReady bool
	// Left is what could not be done before the end.
	Left string
	Code int
}
