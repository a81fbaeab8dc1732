package supervisor

import "time"

// These events are about the main process, and about what every container is asked to do.
type (
	Begun       struct{}
	MainStarted struct {
		PID int
		At  time.Time
	}
	// MainFailed: the daemon could not be started at all.
	MainFailed struct{ Err error }
	// MainReady: the main process sent READY=1.
	MainReady struct{}
	// MainChanged: MAINPID named another process, which was adopted.
	MainChanged struct {
		PID int
		At  time.Time
	}
	MainExited struct {
		PID    int
		Code   int
		What   string // "exited with status 1", and the daemon's last words
		Uptime time.Duration
	}
	// MainHung: the main process takes connections on its socket and does not answer
	// them, though slurmctld can be reached.
	MainHung   struct{ PID int }
	TimerFired struct{ Number int }
	Terminated struct {
		At     time.Time
		Signal string
		Again  bool // a second SIGINT: hurry
		Idle   bool // no step runs here, and none has ended lately
	}
	HungUp struct{}
	// FilesChanged: the daemon's files have changed, and some only count for a new
	// process. With Since, it is known that a process which began before has not read them.
	FilesChanged struct {
		Restart bool
		Since   time.Time
	}
	// Troubled: the daemon complains of what it needs.
	Troubled struct{}
	// Outdated: the daemon's configuration is not that of slurmctld, and stays so.
	Outdated struct{}
	// SlurmctldMoved: the peers' table has another address of slurmctld's.
	SlurmctldMoved struct{}
)

// These actions are about the main process.
type (
	StartMain  struct{}
	SignalMain struct{ Signal MainSignal }
	// Reach asks whether what the daemon needs can be reached.
	Reach struct{ Number int }
	// Confirm asks whether the service answers.
	Confirm struct{ Number int }
	Arm     struct {
		Number int
		After  time.Duration
	}
	// Exit ends what still runs here, and the agent.
	Exit struct{ Code int }
)

// MainSignal is what the main process may be sent.
type MainSignal string

const (
	SigTerm MainSignal = "SIGTERM"
	SigHup  MainSignal = "SIGHUP"
	SigKill MainSignal = "SIGKILL"
)
