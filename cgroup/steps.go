package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Steps watches the cgroups of Slurm's jobs and steps. It keeps a step's
// memory limit below its job's (StepOptions.Headroom), tells of steps whose
// slurmstepd has gone, and removes what Slurm has left behind:
//
//	<dir>/system                    slurmstepd that has no step yet, or none any more
//	<dir>/job_N/step_M/slurm        the step's slurmstepd
//	<dir>/job_N/step_M/user/task_K  its processes
//
// Nothing is polled: the kernel tells what is made, removed, written and
// emptied (inotify(7), cgroup-v2.rst). A timer runs only for a step that may
// have lost its slurmstepd. Whatever is changed is changed under the lock that
// slurmstepd itself takes while it makes or removes a step.
type Steps struct {
	StepOptions
	fs      FS
	dir     string
	kernel  *inotify
	watches map[int]func(happening)
	jobs    map[string]*job
	due     chan func()
	over    chan struct{}
	full    bool // a watch was refused, and that was told

	// Tests have neither seconds nor cgroups.
	settle time.Duration
	rmdir  func(string) error
}

// StepOptions say what Steps does.
type StepOptions struct {
	// Headroom is how many bytes a job's memory.max and memory.high are raised
	// above what Slurm has written; 0 leaves them alone.
	Headroom int64
	// Kill ends the processes of a step whose slurmstepd has gone (cgroup.kill).
	Kill bool
	// Observe is told what happens, in order. It must not block for long.
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

// StepEvent is one of StepAbandoned, StepRemoved and StepFault.
type StepEvent interface{ stepEvent() }

type (
	// StepAbandoned is a step whose slurmstepd has gone and whose cgroup is still
	// there. Nobody tells slurmctld any more how it ends.
	StepAbandoned struct {
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

func (StepAbandoned) stepEvent() {}
func (StepRemoved) stepEvent()   {}
func (StepFault) stepEvent()     {}

// settleTime is how long a step may be without its slurmstepd: as slurmstepd
// comes and goes, it is so for milliseconds.
const settleTime = 500 * time.Millisecond

// WatchSteps watches dir (Delegation.Steps) until Close. Steps that are there
// already are taken in.
func (f FS) WatchSteps(dir string, o StepOptions) (*Steps, error) {
	return f.watchSteps(dir, o, settleTime, func(path string) error { return unix.Rmdir(path) })
}

func (f FS) watchSteps(dir string, o StepOptions, settle time.Duration, rmdir func(string) error) (*Steps, error) {
	kernel, err := newInotify()
	if err != nil {
		return nil, err
	}
	s := &Steps{
		StepOptions: o, fs: f, dir: filepath.Join(f.root, dir), kernel: kernel,
		watches: map[int]func(happening){}, jobs: map[string]*job{},
		due: make(chan func()), over: make(chan struct{}), settle: settle, rmdir: rmdir,
	}
	if err := s.watch(s.dir, watchDir, s.inScope); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot watch the cgroups of steps: %w", err), kernel.close())
	}
	s.scan(true)
	batches := make(chan []happening)
	go s.read(batches)
	go s.run(batches)
	return s, nil
}

// Close ends the watch. What is under way may still be told.
func (s *Steps) Close() error { return s.kernel.close() }

func (s *Steps) read(batches chan<- []happening) {
	defer close(batches)
	for buffer := make([]byte, 16<<10); ; {
		batch, err := s.kernel.read(buffer)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			s.Observe(StepFault{fmt.Errorf("cannot watch the cgroups of steps any more: %w", err)})
			return
		}
		batches <- batch
	}
}

// run is the owner of all that Steps knows.
func (s *Steps) run(batches <-chan []happening) {
	defer close(s.over)
	for {
		select {
		case batch, open := <-batches:
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

// watch calls react for every event. What has gone meanwhile is no fault for
// the caller: its parent tells of that.
func (s *Steps) watch(path string, mask uint32, react func(happening)) error {
	watch, err := s.kernel.add(path, mask)
	if err != nil {
		return err
	}
	s.watches[watch] = react
	return nil
}

// fault tells of an error, unless it only says that something has gone.
func (s *Steps) fault(err error) {
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV):
	case !errors.Is(err, unix.ENOSPC):
		s.Observe(StepFault{err})
	case !s.full:
		s.full = true
		s.Observe(StepFault{fmt.Errorf("cannot watch every step: %w (sysctl fs.inotify.max_user_watches)", err)})
	}
}
