// Package exitcode has the exit statuses of cmd/slurmlet, from sysexits.h where it has one. The
// documentation of package agent explains them.
package exitcode

// The exit statuses.
const (
	OK          = 0
	Failure     = 1
	Usage       = 64
	Unavailable = 69
	Missing     = 72
	NotReady    = 75
	Left        = NotReady
	Cgroup      = 77
	Config      = 78
)

// Fault is an error that says with which status the program should exit.
type Fault struct {
	Code int
	Err  error
}

func (f *Fault) Error() string { return f.Err.Error() }
func (f *Fault) Unwrap() error { return f.Err }
