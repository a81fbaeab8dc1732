package cgroups

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/slurmd/jobs"
)

// OOMGroup is SLURMLET_OOM_GROUP: what becomes of the container's memory.oom.group.
type OOMGroup string

// What becomes of it.
const (
	OOMGroupClear OOMGroup = "clear"
	OOMGroupKeep  OOMGroup = "keep"
)

// ParseOOMGroup reads it.
func ParseOOMGroup(text string) (OOMGroup, error) {
	switch g := OOMGroup(text); g {
	case OOMGroupClear, OOMGroupKeep:
		return g, nil
	}
	return "", errors.New("want clear or keep")
}

// StepsStatus is what the agent does in the cgroups of jobs, and how often.
type StepsStatus struct {
	// OOMGroup is SLURMLET_OOM_GROUP, OOMHeadroom SLURMLET_OOM_HEADROOM in bytes,
	// DeadSteps SLURMLET_DEAD_STEPS.
	OOMGroup    OOMGroup       `json:"oom_group"`
	OOMHeadroom int64          `json:"oom_headroom"`
	DeadSteps   jobs.DeadSteps `json:"dead_steps"`
	Watching    bool           `json:"watching"`
	// Errors are what of that does not work, and why.
	Errors []string `json:"errors,omitempty"`
	// OOMKills is how many processes of jobs the kernel has killed for want of
	// memory, Dead how many steps were without slurmstepd, Leftovers how many
	// cgroups Slurm has left behind; all since the container's start.
	OOMKills  int64 `json:"oom_kills"`
	Dead      int64 `json:"dead"`
	Leftovers int64 `json:"leftovers"`
}

// watchSteps keeps what happens to one job from the others. What cannot be had
// is logged, and the agent goes on without it.
func (s *Subtree) watchSteps() {
	if s.Steps == "" {
		return
	}
	if s.OOMGroup == OOMGroupClear {
		s.stepsFault(s.Machine.ClearOOMGroup(s.Base))
	}
	var err error
	s.watched, err = s.Machine.WatchSteps(s.Steps, cgroup.StepOptions{
		Headroom: s.OOMHeadroom, Kill: s.DeadSteps != jobs.DeadStepsKeep, Observe: s.stepEvent,
	})
	s.stepsFault(err)
}

func (s *Subtree) stepsFault(err error) {
	if err != nil {
		s.errors = append(s.errors, err.Error())
		s.Log(slog.LevelWarn, err.Error())
	}
}

func (s *Subtree) stepEvent(e cgroup.StepEvent) {
	switch e := e.(type) {
	case cgroup.StepOrphaned:
		go s.Orphaned(e)
	case cgroup.StepRemoved:
		s.removed.Add(1)
		s.Log(slog.LevelInfo, "removed an empty cgroup that Slurm had left", slog.String("cgroup", e.Dir))
	case cgroup.StepFault:
		text := e.Err.Error()
		s.fault.Store(&text)
		s.Log(slog.LevelWarn, text)
	}
}

// DescribeSteps leaves Dead out, which package jobs counts.
func (s *Subtree) DescribeSteps() *StepsStatus {
	d := &StepsStatus{
		OOMGroup: s.OOMGroup, OOMHeadroom: s.OOMHeadroom, DeadSteps: s.DeadSteps,
		Watching: s.watched != nil, Errors: s.errors, Leftovers: s.removed.Load(),
	}
	if fault := s.fault.Load(); fault != nil {
		d.Errors = append(slices.Clip(d.Errors), *fault)
	}
	if s.Steps != "" {
		d.OOMKills, _ = s.Machine.ReadOOMKills(s.Steps) // a number for people; 0 without the memory controller
	}
	return d
}

// mib is bytes of a MiB.
const mib = 1 << 20

func (s *StepsStatus) String() string {
	faults := strings.Join(s.Errors, "; ")
	if !s.Watching {
		return strings.TrimSuffix("not watched: "+faults, ": ")
	}
	headroom := "no headroom"
	if s.OOMHeadroom > 0 {
		headroom = fmt.Sprintf("%d MiB of headroom", s.OOMHeadroom/mib)
	}
	text := fmt.Sprintf("watched; jobs have %s; %d processes out of memory, %d slurmstepd died, %d cgroups left behind; %s",
		headroom, s.OOMKills, s.Dead, s.Leftovers, faults)
	return strings.TrimSuffix(text, "; ")
}
