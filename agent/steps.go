package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/cgroup"
)

// DeadSteps is SLURMLET_DEAD_STEPS: what becomes of a job that has lost a slurmstepd.
type DeadSteps string

// What becomes of it.
const (
	DeadStepsEnd     DeadSteps = "end"     // it is cancelled
	DeadStepsRequeue DeadSteps = "requeue" // a batch job that may be is requeued, as after a node's failure
	DeadStepsKeep    DeadSteps = "keep"    // it is left alone
)

func parseDeadSteps(text string) (DeadSteps, error) {
	switch d := DeadSteps(text); d {
	case DeadStepsEnd, DeadStepsRequeue, DeadStepsKeep:
		return d, nil
	}
	return "", errors.New("want end, requeue or keep")
}

// OOMGroup is SLURMLET_OOM_GROUP: what becomes of the container's memory.oom.group.
type OOMGroup string

// What becomes of it.
const (
	OOMGroupClear OOMGroup = "clear"
	OOMGroupKeep  OOMGroup = "keep"
)

func parseOOMGroup(text string) (OOMGroup, error) {
	switch g := OOMGroup(text); g {
	case OOMGroupClear, OOMGroupKeep:
		return g, nil
	}
	return "", errors.New("want clear or keep")
}

// steps is what the agent does in the cgroups of jobs.
type steps struct {
	watched *cgroup.Steps
	errors  []string
	dead    atomic.Int64
	taken   atomic.Int64
	fault   atomic.Pointer[string] // the last one
}

// StepsStatus is what the agent does in the cgroups of jobs, and how often.
type StepsStatus struct {
	// OOMGroup is SLURMLET_OOM_GROUP, OOMHeadroom SLURMLET_OOM_HEADROOM in bytes,
	// DeadSteps SLURMLET_DEAD_STEPS.
	OOMGroup    OOMGroup  `json:"oom_group"`
	OOMHeadroom int64     `json:"oom_headroom"`
	DeadSteps   DeadSteps `json:"dead_steps"`
	Watching    bool      `json:"watching"`
	// Errors tells what of that could not be had.
	Errors []string `json:"errors,omitempty"`
	// OOMKills is how many processes of jobs the kernel has killed for want of
	// memory, Dead how many steps were without slurmstepd, Leftovers how many
	// cgroups Slurm has left behind; all since the container's start.
	OOMKills  int64 `json:"oom_kills"`
	Dead      int64 `json:"dead"`
	Leftovers int64 `json:"leftovers"`
}

// watchSteps keeps what happens to one job from the others. What cannot be had
// is told, and the agent goes on without it.
func (a *Agent) watchSteps() {
	if a.delegated.Steps == "" {
		return
	}
	if a.Config.OOMGroup == OOMGroupClear {
		a.stepsFault(a.machine.ClearOOMGroup(a.delegated.Base))
	}
	var err error
	a.steps.watched, err = a.machine.WatchSteps(a.delegated.Steps, cgroup.StepOptions{
		Headroom: a.Config.OOMHeadroom, Kill: a.Config.DeadSteps != DeadStepsKeep, Observe: a.stepEvent,
	})
	a.stepsFault(err)
}

func (a *Agent) stepsFault(err error) {
	if err != nil {
		a.steps.errors = append(a.steps.errors, err.Error())
		a.log(slog.LevelWarn, err.Error())
	}
}

func (a *Agent) stepEvent(e cgroup.StepEvent) {
	switch e := e.(type) {
	case cgroup.StepOrphaned:
		go a.orphaned(e)
	case cgroup.StepRemoved:
		a.steps.taken.Add(1)
		a.log(slog.LevelInfo, "removed an empty cgroup that Slurm had left", slog.String("cgroup", e.Dir))
	case cgroup.StepFault:
		text := e.Err.Error()
		a.steps.fault.Store(&text)
		a.log(slog.LevelWarn, text)
	}
}

// endingPatience is how long slurmctld may be away when a job is to be ended.
const endingPatience = time.Hour

// orphaned has slurmctld end the job of a step that has lost its slurmstepd:
// nobody else tells it, and the job would be RUNNING until its time is over.
// The whole job, because cancelling a step asks its slurmstepd, and srun, which
// is told in the end, exits with 0 (24.11.5).
func (a *Agent) orphaned(step cgroup.StepOrphaned) {
	ctx, cancel := context.WithTimeout(context.Background(), endingPatience)
	defer cancel()
	a.client.UntilOver(ctx, "cannot end the job of step "+step.String()+", which is without slurmstepd, yet", func(ctx context.Context) error {
		said, err := a.endJob(ctx, step)
		if err == nil {
			a.logOrphaned(step, said)
			a.stepEnded() // its socket stays, and tells nobody
		}
		return err
	})
}

func (a *Agent) logOrphaned(step cgroup.StepOrphaned, said string) {
	if said == "" {
		return // it has ended in order; only its cgroup was left
	}
	a.steps.dead.Add(1)
	a.log(slog.LevelError, "the slurmstepd of a step has died: "+said, slog.String("step", step.String()))
}

// endJob returns what was done, nothing if slurmctld knows already that the
// step is over.
func (a *Agent) endJob(ctx context.Context, step cgroup.StepOrphaned) (string, error) {
	job, err := a.client.Job(ctx, step.Job)
	if err != nil || job == nil || !job.Running() {
		return "", err
	}
	if !step.Populated {
		if said, ends, err := a.judgeEmpty(ctx, step.StepID); !ends {
			return said, err
		}
	}
	if a.Config.DeadSteps == DeadStepsKeep {
		return "its job is left alone (SLURMLET_DEAD_STEPS=keep)", nil
	}
	comment := fmt.Sprintf("slurmlet: slurmstepd of step %s.%s died on %s", job.Name(), step.Step, a.Config.NodeName)
	if err := a.client.Comment(ctx, job, comment); err != nil {
		return "", err
	}
	if a.Config.DeadSteps == DeadStepsRequeue && job.Batch && job.Requeue {
		return "its job is requeued", a.client.RequeueJob(ctx, job)
	}
	return "its job is cancelled", a.client.CancelJob(ctx, job)
}

// judgeEmpty tells a slurmstepd that died with all its processes from one that
// has ended in order, and could not remove its cgroup.
func (a *Agent) judgeEmpty(ctx context.Context, id cgroup.StepID) (said string, ends bool, err error) {
	step, err := a.client.Step(ctx, id.String())
	switch {
	case err != nil || step == nil || !step.Running:
		return "", false, err
	case step.Nodes > 1:
		// It may have ended in order here, and go on elsewhere.
		return fmt.Sprintf("it runs on %d nodes and had no processes left here, so its job is left alone", step.Nodes), false, nil
	}
	return "", true, nil
}

func (a *Agent) describeSteps() *StepsStatus {
	s := &StepsStatus{
		OOMGroup: a.Config.OOMGroup, OOMHeadroom: a.Config.OOMHeadroom, DeadSteps: a.Config.DeadSteps,
		Watching: a.steps.watched != nil, Errors: a.steps.errors, Dead: a.steps.dead.Load(), Leftovers: a.steps.taken.Load(),
	}
	if fault := a.steps.fault.Load(); fault != nil {
		s.Errors = append(slices.Clip(s.Errors), *fault)
	}
	if a.delegated.Steps != "" {
		s.OOMKills, _ = a.machine.OOMKills(a.delegated.Steps) // a number for people; 0 without the memory controller
	}
	return s
}

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
