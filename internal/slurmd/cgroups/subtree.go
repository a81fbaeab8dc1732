package cgroups

import (
	"log/slog"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/slurmd/jobs"
)

// Options say what is done in the container's cgroup.
type Options struct {
	Mode     cgroup.Mode
	OOMGroup OOMGroup
	// OOMHeadroom and Reserve are in bytes; a headroom of 0 is none.
	OOMHeadroom, Reserve int64
	DeadSteps            jobs.DeadSteps
	// Node is the node's name in Slurm.
	Node string
	// Orphaned takes a step that has lost its slurmstepd, in a goroutine of its own.
	Orphaned func(cgroup.StepOrphaned)
	// Daemons are the processes that the agent runs for Slurm, Helpers the services beside them.
	Daemons, Helpers func() []int
	Log              func(level slog.Level, text string, attrs ...slog.Attr)
}

// Subtree is the container's cgroup, of which Slurm has a part.
type Subtree struct {
	Options
	// Delegation describes the part that Slurm has.
	Delegation
	// Machine reads limits in the container's cgroup namespace.
	Machine cgroup.FS

	watched *cgroup.Steps
	errors  []string
	// removed is how many cgroups Slurm has left behind, fault the last one.
	removed atomic.Int64
	fault   atomic.Pointer[string]
	strays  strays
}

// Open hands Slurm the container's cgroup. The error is a Fault: in this mode slurmd must not start.
func Open(machine cgroup.FS, o Options) (*Subtree, error) {
	d, err := delegate(machine, o.Mode, o.Node)
	if err != nil {
		return nil, err
	}
	return &Subtree{Options: o, Delegation: d, Machine: machine.Within(d.Delegation)}, nil
}

// LogDelegation logs what Slurm has.
func (s *Subtree) LogDelegation() { s.Log(s.level(), s.String()) }

// Watch looks after steps and strays until the program's end.
func (s *Subtree) Watch() {
	s.watchSteps()
	s.watchStrays()
}

// Reclaim puts the cgroups right before slurmd starts.
func (s *Subtree) Reclaim() {
	if err := s.Machine.Reclaim(s.Delegation.Delegation); err != nil {
		s.Log(slog.LevelWarn, "cannot put the container's cgroups right before slurmd starts", slog.Any("error", err))
	}
}

// EndSteps asks what still runs here to end, or kills it.
func (s *Subtree) EndSteps(kill bool) {
	signal := unix.SIGTERM
	if kill {
		signal = unix.SIGKILL
	}
	if err := s.EndTasks(signal, func(string) bool { return true }); err != nil {
		s.Log(slog.LevelWarn, "cannot end the steps", slog.Any("error", err))
	}
}

// EndTasks signals the tasks of the jobs that are picked by their numbers, and of no job: "".
func (s *Subtree) EndTasks(signal unix.Signal, which func(job string) bool) error {
	if s.Steps == "" {
		return nil // they end with the container
	}
	return s.Machine.EndTasks(s.Steps, signal, which)
}

// HoldSteps keeps slurmstepd from reporting to slurmctld how its tasks have ended.
func (s *Subtree) HoldSteps() {
	if s.Steps != "" {
		s.Machine.HoldSteps(s.Steps)
	}
}

// KillSteps leaves no slurmstepd behind: nobody would report its end to slurmctld.
func (s *Subtree) KillSteps() {
	if s.Steps == "" {
		return
	}
	if err := s.Machine.KillSteps(s.Steps); err != nil {
		s.Log(slog.LevelWarn, "cannot end the steps", slog.Any("error", err))
	}
}

// Without are the controllers by which the container can hold no job.
func (s *Subtree) Without() (all []string) {
	if s.Steps == "" {
		return []string{"cpuset", "devices", "memory"}
	}
	for _, m := range s.Missing {
		all = append(all, m.Controller)
	}
	return all
}
