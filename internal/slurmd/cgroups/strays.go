package cgroups

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/cgroup"
)

// strays is what the agent knows of processes that Slurm did not start, such as those of "kubectl exec".
type strays struct {
	mu     sync.Mutex
	status *StraysStatus // nil where they are not looked after
}

// StraysStatus is what became of processes that are neither daemons nor tasks of jobs: the kernel kills them first
// when the container is out of memory.
type StraysStatus struct {
	// Killed is how many the kernel has killed since the container's start, Last and LastAt are about the last one.
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
func (s *Subtree) watchStrays() {
	if s.Steps == "" || s.OOMGroup == OOMGroupKeep || !slices.Contains(s.Controllers, "memory") {
		return
	}
	s.strays.status = &StraysStatus{}
	_, err := s.Machine.WatchStrays(s.Delegation.Delegation, cgroup.StrayOptions{
		Reserve: s.Reserve, Daemons: s.Daemons, Helpers: s.Helpers, Observe: s.strayEvent,
	})
	if err != nil {
		s.strayEvent(cgroup.StrayFault{Err: err})
	}
}

func (s *Subtree) strayEvent(e cgroup.StrayEvent) {
	switch e := e.(type) {
	case cgroup.StraysMarked:
		s.Log(slog.LevelInfo, "the daemons and processes that Slurm did not start have used up SLURMLET_RESERVE_MEMORY; "+
			"if the container is out of memory, the kernel kills these processes first: "+listStrays(e.All))
	case cgroup.StrayKilled:
		who := "a process that Slurm did not start, of an unknown name"
		if e.PID != 0 {
			who = e.String()
		}
		s.strays.killed(who, time.Now())
		s.Log(slog.LevelError, "the container was out of memory: the kernel has killed "+who+", which Slurm did not start")
	case cgroup.StrayFault:
		s.strays.fail(e.Err)
		s.Log(slog.LevelWarn, e.Err.Error())
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

// DescribeStrays is nil where they are not looked after.
func (s *Subtree) DescribeStrays() *StraysStatus { return s.strays.describe() }
