package agent

import (
	"errors"
	"fmt"

	"github.com/slurmlet/slurmlet/cgroup"
)

// Resources is what the pod was given, every source considered, and the
// machine that it stands on.
type Resources struct {
	cgroup.Limits
	// Online is the machine's CPUs, MemTotal its memory in bytes.
	Online   cgroup.Set `json:"online"`
	MemTotal int64      `json:"mem_total"`
	// Disagreements tells where the sources contradict each other.
	Disagreements []string `json:"disagreements,omitempty"`
}

// readResources asks the kernel and adds what the downward API has told. On a
// machine without cgroup v2 the downward API alone counts.
func readResources(machine cgroup.FS, c Config) (Resources, error) {
	limits, err := machine.Limits()
	var notes []string
	if errors.Is(err, cgroup.ErrNotUnified) {
		notes = append(notes, err.Error()+": only the downward API's limits are known")
		err = nil
	}
	online, onlineErr := machine.Online()
	total, totalErr := machine.MemTotal()
	if err := errors.Join(err, onlineErr, totalErr); err != nil {
		return Resources{}, err
	}
	r := Resources{Limits: limits, Online: online, MemTotal: total, Disagreements: notes}
	r.add(c.CPULimit, c.MemoryLimit)
	return r, nil
}

// add takes the downward API's limits in: the tightest wins. Where a container
// has no limit, the downward API gives the node's allocatable amount, so only
// a limit below the cgroup's is worth a word.
func (r *Resources) add(millicores, memory int64) {
	if cpus := float64(millicores) / 1000; cpus > 0 && (!r.Quota.Bounded() || cpus < r.Quota.Value) {
		r.disagree(r.Quota.Bounded(), "SLURMLET_CPU_LIMIT gives %v CPUs, %s %v", cpus, r.Quota.Source, r.Quota.Value)
		r.Quota = cgroup.Bound[float64]{Value: cpus, Source: "SLURMLET_CPU_LIMIT"}
	}
	if memory > 0 && (!r.Memory.Bounded() || memory < r.Memory.Value) {
		r.disagree(r.Memory.Bounded(), "SLURMLET_MEMORY_LIMIT gives %d bytes, %s %d", memory, r.Memory.Source, r.Memory.Value)
		r.Memory = cgroup.Bound[int64]{Value: memory, Source: "SLURMLET_MEMORY_LIMIT"}
	}
}

func (r *Resources) disagree(really bool, format string, args ...any) {
	if really {
		r.Disagreements = append(r.Disagreements, fmt.Sprintf(format, args...))
	}
}
