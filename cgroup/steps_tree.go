package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// job is a job's cgroup.
type job struct {
	name, path string
	steps      map[string]*step
	timer      *time.Timer
	wait       time.Duration
	held       held
	// wrote is what Steps itself has written, by interface file.
	wrote map[string]int64
	// found: it was there before Steps was.
	found bool
}

// step is a step's cgroup.
type step struct {
	job        *job
	name, path string
	// owner is the step in slurmstepd's words: the job's number even where the
	// cgroup has its SLUID. Empty until slurmstepd was seen.
	owner    string
	timer    *time.Timer
	wait     time.Duration
	reported bool
	held     held
}

func (st *step) id() StepID {
	if number, name, found := strings.Cut(st.owner, "."); found {
		return StepID{number, name}
	}
	return StepID{strings.TrimPrefix(st.job.name, jobPrefix), st.name}
}

const (
	jobPrefix  = "job_"
	stepPrefix = "step_"
	// sluid is the length of "s" and 13 characters in Crockford's base 32.
	sluid = 14
)

func isJob(name string) bool {
	if number, found := strings.CutPrefix(name, jobPrefix); found {
		return number != "" && strings.Trim(number, "0123456789") == ""
	}
	return len(name) == sluid && name[0] == 's' && strings.Trim(name[1:], "0123456789ABCDEFGHJKMNPQRSTVWXYZ") == ""
}

// scan takes in what is there: at the start, when events were lost, and where
// there are no watches.
func (s *Steps) scan(first bool) {
	s.fault(s.hold(s.itself, s.dir, whole, watchDir, s.inScope))
	for name, j := range s.jobs {
		if !s.isWatched(j.held, j.path) {
			s.forget(name)
		}
	}
	for _, name := range children(s.dir) {
		s.takeJob(name, first)
	}
}

func (s *Steps) inScope(h happening) {
	if h.is(unix.IN_DELETE) {
		s.forget(h.name)
	} else if h.is(unix.IN_ISDIR) {
		s.takeJob(h.name, false)
	}
}

func (s *Steps) forget(name string) {
	if j := s.jobs[name]; j != nil {
		stop(&j.timer)
		for _, st := range j.steps {
			s.forgetStep(st)
		}
		s.releaseAll(j.held)
		delete(s.jobs, name)
	}
}

func (s *Steps) forgetStep(st *step) {
	stop(&st.timer)
	s.releaseAll(st.held)
	delete(st.job.steps, st.name)
}

// takeJob watches first and lists afterwards: what is made in between is seen
// twice, never missed.
func (s *Steps) takeJob(name string, found bool) {
	if !isJob(name) {
		return
	}
	j := s.jobs[name]
	if j == nil {
		j = &job{
			name: name, path: filepath.Join(s.dir, name), steps: map[string]*step{}, wrote: map[string]int64{},
			held: held{}, found: found,
		}
		s.jobs[name] = j
	}
	if err := s.hold(j.held, j.path, whole, watchDir, func(h happening) { s.inJob(j, h) }); err != nil {
		s.fault(err)
		s.forget(name)
		return
	}
	s.guard(j)
	for _, st := range j.steps {
		if !s.isWatched(st.held, st.path) {
			s.forgetStep(st)
		}
	}
	for _, entry := range children(j.path) {
		s.takeStep(j, entry)
	}
	if len(j.steps) == 0 {
		s.armJob(j)
	}
}

func (s *Steps) inJob(j *job, h happening) {
	if h.is(unix.IN_CREATE) {
		s.takeStep(j, h.name)
		return
	}
	if st := j.steps[strings.TrimPrefix(h.name, stepPrefix)]; st != nil {
		s.forgetStep(st)
	}
	if len(j.steps) == 0 {
		s.armJob(j)
	}
}

func (s *Steps) takeStep(j *job, entry string) {
	name, found := strings.CutPrefix(entry, stepPrefix)
	if !found {
		return
	}
	st := j.steps[name]
	if st == nil {
		st = &step{job: j, name: name, path: filepath.Join(j.path, entry), held: held{}}
	}
	if err := s.hold(st.held, st.path, whole, watchDir, func(happening) { s.follow(st) }); err != nil {
		s.fault(err)
		return
	}
	j.steps[name] = st
	stop(&j.timer)
	s.fault(s.hold(st.held, st.path, "cgroup.events", watchFile, func(happening) { s.look(st) }))
	s.follow(st)
}

// follow watches the cgroup of the step's slurmstepd, once there is one.
func (s *Steps) follow(st *step) {
	const events = "slurm/cgroup.events"
	if err := s.hold(st.held, st.path, events, watchFile, func(happening) { s.look(st) }); err != nil {
		s.fault(err)
		s.release(st.held, events)
	}
	s.look(st)
}

// children are the cgroups in a cgroup.
func children(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // it has gone, and its parent will report that
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names
}

// populated says whether there are processes in a cgroup or below it. One that
// has gone, or is not made yet, has none.
func populated(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	return err == nil && strings.Contains("\n"+string(text), "\npopulated 1")
}

func gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func stop(timer **time.Timer) {
	if *timer != nil {
		(*timer).Stop()
		*timer = nil
	}
}
