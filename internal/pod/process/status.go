package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// unknown is the Code of a process whose status another parent collected.
const unknown = -1

// Status is how a process ended: with a code from 0 to 255, or by a signal. Code is -1 when nobody will ever know.
type Status struct {
	Code       int
	TermSignal unix.Signal
	Core       bool
}

func statusOf(ws unix.WaitStatus) Status {
	if ws.Signaled() {
		return Status{TermSignal: ws.Signal(), Core: ws.CoreDump()}
	}
	return Status{Code: ws.ExitStatus()}
}

// ExitCode follows the shell: the code, or 128 and the number of the signal; 255 when the status is unknown.
func (s Status) ExitCode() int {
	switch {
	case s.TermSignal != 0:
		return 128 + int(s.TermSignal)
	case s.Code == unknown:
		return 255
	default:
		return s.Code
	}
}

func (s Status) String() string {
	switch {
	case s.Core:
		return fmt.Sprintf("killed by %s, core dumped", signalName(s.TermSignal))
	case s.TermSignal != 0:
		return "killed by " + signalName(s.TermSignal)
	case s.Code == unknown:
		return "ended, status unknown"
	default:
		return fmt.Sprintf("exit code %d", s.Code)
	}
}

// signalName also has a word for real-time signals.
func signalName(s unix.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}
