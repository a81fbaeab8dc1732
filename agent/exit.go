package agent

import "github.com/slurmlet/slurmlet/internal/kit/exitcode"

// Exit statuses of cmd/slurmlet; docs/reference/status.md explains them.
const (
	ExitOK          = exitcode.OK
	ExitFailure     = exitcode.Failure
	ExitUsage       = exitcode.Usage
	ExitUnavailable = exitcode.Unavailable
	ExitMissing     = exitcode.Missing
	ExitNotReady    = exitcode.NotReady
	ExitLeft        = exitcode.Left
	ExitCgroup      = exitcode.Cgroup
	ExitConfig      = exitcode.Config
)

// Fault is an error that says with which status the program should exit.
type Fault = exitcode.Fault
