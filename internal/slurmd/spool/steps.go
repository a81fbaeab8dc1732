package spool

import (
	"fmt"
	"slices"
	"strings"
)

// The ends of the sockets of steps with a name: their numbers are above all others (slurm/slurm.h, SLURM_BATCH_SCRIPT,
// SLURM_EXTERN_CONT and SLURM_INTERACTIVE_STEP).
const (
	// Batch is a job's script.
	Batch = ".4294967291"
	// Extern has a task that lives as long as slurmctld knows the job (PrologFlags=Contain).
	Extern = ".4294967292"
	// Interactive is salloc's (LaunchParameters=use_interactive_step).
	Interactive = ".4294967290"
)

// Jobs are those of steps, without that of an unknown one.
func Jobs(steps []string) []string {
	var ids []string
	for _, s := range steps {
		if id, _, known := strings.Cut(s, "."); known {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// HasScript says whether the job's script is among the steps that run.
func HasScript(living []string, job int64) bool {
	return slices.Contains(living, fmt.Sprint(job)+Batch) || slices.Contains(living, Unknown)
}

// HasStep says whether a step of the job is among those that run.
func HasStep(living []string, job int64) bool {
	return slices.ContainsFunc(living, func(step string) bool {
		return step == Unknown || strings.HasPrefix(step, fmt.Sprint(job)+".")
	})
}
