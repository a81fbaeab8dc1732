package agent

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// wayDown divides a grace period: when, from SIGTERM on, the agent stops
// waiting for what it waits for. Each is at least the one before; what is done
// earlier is not waited for.
type wayDown struct {
	// Signal is when jobs get SLURMLET_JOB_SIGNAL.
	Signal time.Duration
	// Requeue is when the jobs that still run are requeued; those that may not
	// be are told that they will fail.
	Requeue time.Duration
	// Kill is when the processes of the requeued are killed: half the time that
	// they have. Slurm itself waits for KillWait (slurm.conf(5)), 30 s.
	Kill time.Duration
	// Fail is when the node is set DOWN, which ends all that is left on it as NODE_FAIL.
	Fail time.Duration
	// Leave is when the steps that are still here are not waited for any more:
	// their processes are asked to end.
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

// newWayDown divides grace, with the jobs' signal lead ahead of their requeue.
func newWayDown(grace, lead time.Duration) wayDown {
	grace = max(grace, 0)
	part := func(divisor int64, most time.Duration) time.Duration { return min(grace/time.Duration(divisor), most) }
	reserve := part(8, mostReserve)
	w := wayDown{Exit: grace - reserve/2, End: grace - reserve}
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
func (w wayDown) within(elapsed, left, lead time.Duration) wayDown {
	n := newWayDown(left, lead)
	return wayDown{
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

// jobSignal is SLURMLET_JOB_SIGNAL, in the form of sbatch --signal.
type jobSignal struct {
	// Name is the signal as scancel(1) takes it; empty for none.
	Name string
	// Batch: the batch shell alone gets it, instead of all steps but that.
	Batch bool
	// Lead is how long before the requeue.
	Lead time.Duration
}

// defaultLead is that of sbatch --signal.
const defaultLead = 60 * time.Second

// jobSignals are those that scancel knows by name (scancel(1)).
var jobSignals = []string{"HUP", "INT", "QUIT", "ABRT", "KILL", "ALRM", "TERM", "USR1", "USR2", "URG", "CONT", "STOP", "TSTP", "TTIN", "TTOU"}

// parseJobSignal reads [B:]<signal>[@<seconds>].
func parseJobSignal(text string) (jobSignal, error) {
	if text == "" {
		return jobSignal{}, nil
	}
	rest, batch := strings.CutPrefix(text, "B:")
	name, seconds, timed := strings.Cut(rest, "@")
	s := jobSignal{Name: strings.TrimPrefix(strings.ToUpper(name), "SIG"), Batch: batch, Lead: defaultLead}
	if n, err := strconv.Atoi(name); err == nil && n >= 1 && n <= 64 {
		s.Name = strconv.Itoa(n)
	} else if !slices.Contains(jobSignals, s.Name) {
		return jobSignal{}, fmt.Errorf("want [B:]signal[@seconds] as of sbatch --signal, with a number or one of %s", strings.Join(jobSignals, ", "))
	}
	if timed {
		n, err := strconv.ParseUint(seconds, 10, 16)
		if err != nil {
			return jobSignal{}, errors.New("want a whole number of seconds, 0 to 65535, after the @")
		}
		s.Lead = time.Duration(n) * time.Second
	}
	return s, nil
}
