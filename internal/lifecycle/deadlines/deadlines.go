// Package deadlines divides the time that a pod has to end, and brings it forward where less is granted.
// It is pure. `go test ./internal/lifecycle/...` tests it.
package deadlines

import (
	"time"
)

// Deadlines divides a grace period: when, from SIGTERM on, the agent stops
// waiting for what it waits for. Each is at least the one before; what is done
// earlier is not waited for.
type Deadlines struct {
	// Signal is when jobs get SLURMLET_JOB_SIGNAL.
	Signal time.Duration
	// Requeue is when the jobs that still run are requeued; those that may not
	// be get a comment that they will fail.
	Requeue time.Duration
	// Kill is when the processes of the requeued are killed: half the time that
	// they have. Slurm itself waits for KillWait (slurm.conf(5)), 30 s.
	Kill time.Duration
	// Fail is when the node is set DOWN, which ends all that is left on it as NODE_FAIL.
	Fail time.Duration
	// Leave is when the steps that are still here are not waited for any more:
	// their processes, which were asked to end at Fail, are killed.
	Leave time.Duration
	// Stop is when slurmd is sent SIGTERM, whatever has become of the record.
	Stop time.Duration
	// End is when slurmd is sent SIGKILL, and Exit when the agent does not wait
	// even for that: before the kubelet's SIGKILL, which is at the grace period's end.
	End, Exit time.Duration
}

const (
	mostRequeue = 60 * time.Second // twice KillWait's default
	mostDelete  = 10 * time.Second
	mostStop    = 5 * time.Second
	mostReserve = time.Second
)

// New divides grace, with the jobs' signal lead ahead of their requeue.
func New(grace, lead time.Duration) Deadlines {
	grace = max(grace, 0)
	part := func(divisor int64, most time.Duration) time.Duration { return min(grace/time.Duration(divisor), most) }
	reserve := part(8, mostReserve)
	w := Deadlines{Exit: grace - reserve/2, End: grace - reserve}
	w.Stop = w.End - part(8, mostStop)
	w.Fail = w.Stop - part(8, mostDelete)
	w.Requeue = w.Fail - part(4, mostRequeue)
	w.Leave = w.Fail + (w.Stop-w.Fail)/2
	w.Kill = w.Requeue + (w.Fail-w.Requeue)/2
	w.Signal = max(w.Requeue-lead, 0)
	return w
}

// within is the way down when, elapsed after SIGTERM, no more than left remains:
// that is divided as a grace period is, and nothing comes later than before.
func (w Deadlines) within(elapsed, left, lead time.Duration) Deadlines {
	n := New(left, lead)
	return Deadlines{
		Signal:  min(w.Signal, elapsed+n.Signal),
		Requeue: min(w.Requeue, elapsed+n.Requeue),
		Kill:    min(w.Kill, elapsed+n.Kill),
		Fail:    min(w.Fail, elapsed+n.Fail),
		Leave:   min(w.Leave, elapsed+n.Leave),
		Stop:    min(w.Stop, elapsed+n.Stop),
		End:     min(w.End, elapsed+n.End),
		Exit:    min(w.Exit, elapsed+n.Exit),
	}
}

// replaceTime is how long slurmd may hang at most. With a reconfigure it waits for prologs and epilogs, as it does
// when it is restarted.
const replaceTime = 30 * time.Second

// HangLimit is how long slurmd may hang before it is killed.
func (w Deadlines) HangLimit() time.Duration { return min(w.Requeue/3, replaceTime) }
