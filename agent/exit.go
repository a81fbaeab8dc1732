package agent

// Exit statuses of cmd/slurmlet, from sysexits.h where it has one; the package
// comment explains them.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 64
	ExitUnavailable = 69
	ExitMissing     = 72
	ExitNotReady    = 75
	ExitLeft        = ExitNotReady
	ExitCgroup      = 77
	ExitConfig      = 78
)
