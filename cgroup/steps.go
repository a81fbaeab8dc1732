package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Steps watches the cgroups of Slurm's jobs and steps. It keeps a step's
// memory limit below its job's (StepOptions.Headroom), reports steps whose
// slurmstepd has gone, and removes what Slurm has left behind:
//
//	<dir>/system                    slurmstepd that has no step yet, or none any more
//	<dir>/job_N/step_M/slurm        the step's slurmstepd
//	<dir>/job_N/step_M/user/task_K  its processes
//
// Nothing is polled: inotify reports what is made, removed, written and
// emptied (inotify(7), cgroup-v2.rst). A timer runs only for a step that may
// have lost its slurmstepd, and where inotify's limits are reached. Whatever is
// changed is changed under the lock that slurmstepd itself takes while it makes
// or removes a step.
type Steps struct {
	StepOptions
	fs      FS
	dir     string
	kernel  *inotify // nil where max_user_instances is reached
	watches map[int]func(happening)
	// itself are the watches of dir.
	itself  held
	jobs    map[string]*job
	batches chan []happening
	due     chan func()
	over    chan struct{}
	// rescan looks again at everything where a watch was refused, which rescanning says.
	rescan     *time.Timer
	rescanning bool

	// Tests have neither seconds nor cgroups.
	settle, again time.Duration
	rmdir         func(string) error
}

// StepOptions say what Steps does.
type StepOptions struct {
	// Headroom is how many bytes a job's memory.max and memory.high are raised
	// above what Slurm has written; 0 leaves them alone.
	Headroom int64
	// Kill ends the processes of a step whose slurmstepd has gone (cgroup.kill).
	Kill bool
	// Observe is called with what happens, in order. It must not block for long.
	Observe func(StepEvent)
}

// StepID names a step as its cgroup does.
type StepID struct {
	// Job is the job's number or, from 26.05 on, its SLUID (cgroup.conf(5),
	// CgroupJobIdPaths), which scontrol(1) takes for a job too.
	Job string
	// Step is batch, extern, interactive or a number.
	Step string
}

func (s StepID) String() string { return s.Job + "." + s.Step }

// StepEvent is one of StepOrphaned, StepRemoved and StepFault.
type StepEvent interface{ isStepEvent() }

type (
	// StepOrphaned is a step whose slurmstepd has gone and whose cgroup is still
	// there. Nobody reports its end to slurmctld any more.
	StepOrphaned struct {
		StepID
		// Populated says whether processes were left in it; with StepOptions.Kill
		// they have been killed.
		Populated bool
	}
	// StepRemoved is an empty cgroup of a job or a step that Slurm has left and
	// that was removed.
	StepRemoved struct{ Dir string }
	// StepFault is something that could not be done.
	StepFault struct{ Err error }
)

func (StepOrphaned) isStepEvent() {}
func (StepRemoved) isStepEvent()  {}
func (StepFault) isStepEvent()    {}

const (
	// settleTime is how long a step may be without its slurmstepd: as slurmstepd
	// comes and goes, it is so for milliseconds.
	settleTime = 500 * time.Millisecond
	// againTime is between two looks at everything where inotify's limits are reached.
	againTime = 5 * time.Second
)

// WatchSteps watches dir (Delegation.Steps) until Close. Steps that are there
// already are taken in.
func (f FS) WatchSteps(dir string, o StepOptions) (*Steps, error) {
	return f.newSteps(dir, o).begin()
}

func (f FS) newSteps(dir string, o StepOptions) *Steps {
	return &Steps{
		StepOptions: o, fs: f, dir: filepath.Join(f.root, dir),
		watches: map[int]func(happening){}, itself: held{}, jobs: map[string]*job{},
		batches: make(chan []happening), due: make(chan func()), over: make(chan struct{}),
		settle: settleTime, again: againTime, rmdir: func(path string) error { return unix.Rmdir(path) },
	}
}

func (s *Steps) begin() (*Steps, error) {
	_, err := os.Stat(s.dir)
	if err != nil {
		return nil, fmt.Errorf("cannot watch the cgroups of steps: %w", err)
	}
	if s.kernel, err = newInotify(); err != nil {
		s.rescanLater(err)
	}
	s.scan(true)
	if s.kernel != nil {
		go s.read()
	}
	go s.run()
	return s, nil
}

// Close ends the watch. What is under way may still be reported.
func (s *Steps) Close() error {
	if s.kernel == nil {
		close(s.batches)
		return nil
	}
	return s.kernel.close()
}

func (s *Steps) read() {
	defer close(s.batches)
	for buffer := make([]byte, 16<<10); ; {
		batch, err := s.kernel.read(buffer)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			s.Observe(StepFault{fmt.Errorf("cannot watch the cgroups of steps any more: %w", err)})
			return
		}
		s.batches <- batch
	}
}

// run is the owner of all that Steps knows.
func (s *Steps) run() {
	defer close(s.over)
	for {
		select {
		case batch, open := <-s.batches:
			if !open {
				return
			}
			for _, h := range batch {
				s.handle(h)
			}
		case f := <-s.due:
			f()
		}
	}
}

func (s *Steps) handle(h happening) {
	switch {
	case h.is(unix.IN_Q_OVERFLOW):
		s.scan(false)
	case h.is(unix.IN_IGNORED):
		delete(s.watches, h.watch)
	default:
		if react := s.watches[h.watch]; react != nil {
			react(h)
		}
	}
}

// after has the owner call f.
func (s *Steps) after(wait time.Duration, f func()) *time.Timer {
	return time.AfterFunc(wait, func() {
		select {
		case s.due <- f:
		case <-s.over:
		}
	})
}
