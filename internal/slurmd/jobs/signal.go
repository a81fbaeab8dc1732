package jobs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Signal is SLURMLET_JOB_SIGNAL, in the form of sbatch --signal.
type Signal struct {
	// Name is the signal as scancel(1) takes it; empty for none.
	Name string
	// Batch: the batch shell alone gets it, instead of all steps but that.
	Batch bool
	// Lead is how long before the requeue jobs get the signal.
	Lead time.Duration
}

// defaultLead is Lead where the setting names none, as for sbatch --signal.
const defaultLead = 60 * time.Second

// jobSignals are those that scancel knows by name (scancel(1)).
var jobSignals = []string{
	"HUP", "INT", "QUIT", "ABRT", "KILL", "ALRM", "TERM", "USR1", "USR2", "URG", "CONT", "STOP",
	"TSTP", "TTIN", "TTOU",
}

// ParseSignal reads [B:]<signal>[@<seconds>].
func ParseSignal(text string) (Signal, error) {
	if text == "" {
		return Signal{}, nil
	}
	rest, batch := strings.CutPrefix(text, "B:")
	name, seconds, timed := strings.Cut(rest, "@")
	s := Signal{Name: strings.TrimPrefix(strings.ToUpper(name), "SIG"), Batch: batch, Lead: defaultLead}
	if n, err := strconv.Atoi(name); err == nil && n >= 1 && n <= 64 {
		s.Name = strconv.Itoa(n)
	} else if !slices.Contains(jobSignals, s.Name) {
		return Signal{}, fmt.Errorf("want [B:]signal[@seconds] as of sbatch --signal, with a number or one of %s",
			strings.Join(jobSignals, ", "))
	}
	if timed {
		n, err := strconv.ParseUint(seconds, 10, 16)
		if err != nil {
			return Signal{}, errors.New("want a whole number of seconds, 0 to 65535, after the @")
		}
		s.Lead = time.Duration(n) * time.Second
	}
	return s, nil
}
