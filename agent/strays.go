package agent

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// strays is what the agent knows of processes that Slurm did not start, such as those of "kubectl exec".
type strays struct {
	mu     sync.Mutex
	status *StraysStatus // nil where they are not looked after
}

// StraysStatus is what became of processes that are neither daemons nor tasks of jobs: the kernel kills them first
// when the container is out of memory.
type StraysStatus struct {
	// Killed is how many the kernel has killed since the container's start, Last and LastAt tell of the last one.
	Killed int64     `json:"killed"`
	Last   string    `json:"last,omitempty"`
	LastAt time.Time `json:"last_at,omitzero"`
	// Fault is why they are not looked after any more.
	Fault string `json:"fault,omitempty"`
}

func (s *StraysStatus) String() string {
	text := fmt.Sprintf("%d out of memory", s.Killed)
	if s.Last != "" {
		text += fmt.Sprintf(", the last one %s at %s", s.Last, s.LastAt.Format(time.RFC3339))
	}
	if s.Fault != "" {
		text += "; " + s.Fault
	}
	return text
}

// watchStrays has the kernel kill strays first when the container is out of memory. With memory.oom.group it would
// kill everything at once.
func (a *Agent) watchStrays() {
	if a.delegated.Steps == "" || a.Config.OOMGroup == OOMGroupKeep || !slices.Contains(a.delegated.Controllers, "memory") {
		return
	}
	a.strays.status = &StraysStatus{}
	_, err := a.machine.WatchStrays(a.delegated.Delegation, cgroup.StrayOptions{
		Reserve: a.Config.Reserve, Daemons: a.daemonPIDs, Helpers: a.helperPIDs, Observe: a.strayEvent,
	})
	if err != nil {
		a.strayEvent(cgroup.StrayFault{Err: err})
	}
}

// daemonPIDs are those of the daemons that the agent runs. During a hand-over there are two.
func (a *Agent) daemonPIDs() (pids []int) {
	a.mainLock.Lock()
	defer a.mainLock.Unlock()
	for _, p := range []*process.Process{a.process, a.former, a.sackd.Load()} {
		if p != nil {
			pids = append(pids, p.PID())
		}
	}
	return pids
}

// helperPIDs are the services beside slurmd.
func (a *Agent) helperPIDs() (pids []int) {
	for _, one := range a.loginServices.Services() {
		if one.PID != 0 {
			pids = append(pids, one.PID)
		}
	}
	return pids
}

func (a *Agent) strayEvent(e cgroup.StrayEvent) {
	switch e := e.(type) {
	case cgroup.StraysMarked:
		a.log(slog.LevelInfo, "the daemons and processes that Slurm did not start have used up SLURMLET_RESERVE_MEMORY; "+
			"if the container is out of memory, the kernel kills these processes first: "+listStrays(e.All))
	case cgroup.StrayKilled:
		who := "a process that Slurm did not start, of an unknown name"
		if e.PID != 0 {
			who = e.String()
		}
		a.strays.killed(who, time.Now())
		a.log(slog.LevelError, "the container was out of memory: the kernel has killed "+who+", which Slurm did not start")
	case cgroup.StrayFault:
		a.strays.fail(e.Err)
		a.log(slog.LevelWarn, e.Err.Error())
	}
}

// listed is how many processes a line of the log names.
const listed = 5

func listStrays(all []cgroup.Stray) string {
	var names []string
	for _, one := range all[:min(len(all), listed)] {
		names = append(names, one.String())
	}
	if more := len(all) - listed; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

func (s *strays) killed(who string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Killed++
	s.status.Last, s.status.LastAt = who, at
}

func (s *strays) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Fault = err.Error()
}

// describe copies the status.
func (s *strays) describe() *StraysStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status == nil {
		return nil
	}
	now := *s.status
	return &now
}
