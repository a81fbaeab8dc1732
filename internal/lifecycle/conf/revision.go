package conf

import (
	"errors"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// Revision is the content of the sources at one time: a set, or why it cannot be
// used.
type Revision struct {
	Set *confset.Set
	Err error
	At  time.Time
	// Forced: it is tried though nothing has changed, or it was refused before.
	Forced bool
	// Request is the number of the command that waits for the result, 0 for none.
	Request int
	// staged is where the set lies ready, once it was checked, changes what it
	// changes.
	staged  string
	changes []string
	// InUse: it was refused because of jobs that need what it takes away, and is tried
	// again.
	InUse bool
}

// over puts a revision in the place of one that was not tried yet: whoever
// waited for that one learns what becomes of this. The same set, read once more, is put
// off as before.
func (e Revision) over(former *Revision) *Revision {
	if former != nil {
		e.Forced, e.Request = e.Forced || former.Forced, max(e.Request, former.Request)
		e.InUse = e.InUse || former.InUse && e.Set.Same(former.Set)
	}
	return &e
}

// InUse is why a set cannot be used as long as there are jobs that need what it takes
// away, or nobody knows whether there are.
type InUse struct{ Why string }

func (e InUse) Error() string { return e.Why }

func IsInUse(err error) bool { return errors.As(err, &InUse{}) }

// HeldUp is why slurmctld does not answer a reconfigure, and never will: before 25.05 it waits without a limit for
// connections on which nobody says anything.
type HeldUp struct{ Why string }

func (e HeldUp) Error() string { return e.Why }

func (e HeldUp) Unwrap() error { return slurm.ErrUnreachable }
