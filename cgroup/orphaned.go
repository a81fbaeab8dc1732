package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// look sees whether the step has its slurmstepd. One that is being set up or
// taken down has none for a moment, so a second look decides.
func (s *Steps) look(st *step) {
	dir := filepath.Join(st.path, "slurm")
	if !populated(dir) {
		s.arm(st, s.settle)
		return
	}
	stop(&st.timer)
	st.reported = false
	for _, pid := range pids(dir) {
		if owner := s.fs.stepd(pid); strings.HasSuffix(owner, "."+st.name) {
			st.owner = owner
		}
	}
}

// longestWait bounds the pauses between looks at a step that cannot be judged.
const longestWait = 30 * time.Second

func (s *Steps) arm(st *step, wait time.Duration) {
	if st.timer == nil {
		st.wait = wait
		st.timer = s.after(wait, func() { s.judge(st) })
	}
}

func (s *Steps) judge(st *step) {
	if s.jobs[st.job.name] != st.job || st.job.steps[st.name] != st || st.timer == nil {
		return
	}
	st.timer = nil
	event, done := s.settleStep(st)
	if event != nil {
		s.Observe(event)
	}
	if !done {
		s.arm(st, min(2*st.wait, longestWait))
	}
}

// settleStep does what is to be done with a step without slurmstepd, and says
// whether it is done with: an event will report any change.
func (s *Steps) settleStep(st *step) (StepEvent, bool) {
	unlock, err := s.lock()
	if err != nil {
		return nil, false
	}
	defer unlock()
	switch {
	case populated(filepath.Join(st.path, "slurm")) || gone(st.path):
		return nil, true
	case s.mayBeOutside(st):
		return nil, false
	case !st.reported:
		st.reported = true
		tasks := populated(st.path)
		if tasks && s.Kill {
			s.fault(kill(st.path))
		}
		return StepOrphaned{st.id(), tasks}, tasks
	case populated(st.path):
		return nil, true
	}
	return s.remove(st.path, st.job.path)
}

// remove removes a step's cgroup, and the job's with the last one.
func (s *Steps) remove(path, jobPath string) (StepEvent, bool) {
	if err := s.rmtree(path); err != nil {
		return nil, false // busy after all
	}
	_ = s.rmdir(jobPath) // refused as long as there are other steps
	return StepRemoved{path}, true
}

func (s *Steps) rmtree(dir string) error {
	for _, name := range children(dir) {
		if err := s.rmtree(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return s.rmdir(dir)
}

func kill(dir string) error {
	if err := write(filepath.Join(dir, "cgroup.kill"), "1"); err != nil {
		// Not %w: that it is not there is a fault here.
		return fmt.Errorf("cannot kill a step whose slurmstepd is gone: %v (cgroup.kill is in Linux 5.14 and newer)", err)
	}
	return nil
}

// armJob has a look later at a job without steps: its last slurmstepd removes
// it at once, and the next one makes it just before its step.
func (s *Steps) armJob(j *job) {
	if j.timer == nil {
		j.wait = max(s.settle, min(2*j.wait, longestWait))
		j.timer = s.after(j.wait, func() { s.judgeJob(j) })
	}
}

func (s *Steps) judgeJob(j *job) {
	if s.jobs[j.name] != j || j.timer == nil {
		return
	}
	j.timer = nil
	unlock, err := s.lock()
	if err != nil {
		s.armJob(j)
		return
	}
	defer unlock()
	if len(children(j.path)) > 0 || gone(j.path) {
		return
	}
	if err := s.rmdir(j.path); err != nil {
		s.armJob(j)
		return
	}
	s.Observe(StepRemoved{j.path})
}

// lock takes the lock that slurmstepd holds from the making of job_N to the
// making of step_M in it, and while it removes them; it does not wait.
func (s *Steps) lock() (unlock func(), err error) {
	dir, err := os.Open(s.dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return func() { dir.Close() }, nil
}

// mayBeOutside says whether the step's slurmstepd may be alive outside the step:
// before it is set up and after it is taken down slurmstepd stands in
// <dir>/system. Whoever looks like it is taken for it.
func (s *Steps) mayBeOutside(st *step) bool {
	return slices.ContainsFunc(pids(filepath.Join(s.dir, "system")), func(pid string) bool {
		switch owner := s.fs.stepd(pid); {
		case owner == nobody:
			return false
		case owner == "" || st.owner == "" && !strings.HasPrefix(st.job.name, jobPrefix):
			return owner == "" || strings.HasSuffix(owner, "."+st.name)
		default:
			return owner == st.id().String()
		}
	})
}

// nobody is the owner of a process that is no step's slurmstepd.
const nobody = "nobody"

// stepd returns the step that a process of Slurm's is for, from its title
// ("slurmstepd: [3.batch]", "slurmstepd: [3.0 stepmgr]"), nobody if it is for
// none, and "" when that is not known (yet).
func (f FS) stepd(pid string) string {
	command, err := os.ReadFile(filepath.Join(f.root, "proc", pid, "cmdline"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nobody
	}
	title := strings.TrimRight(string(command), "\x00 ")
	if inside, found := strings.CutPrefix(title, "slurmstepd: ["); found {
		owner, _, _ := strings.Cut(inside, "]")
		owner, _, _ = strings.Cut(owner, " ")
		if strings.Contains(owner, ":") { // "[3:namespace]" keeps a job's namespace
			return nobody
		}
		return owner
	}
	args := strings.Split(title, "\x00")
	if title != "" && (filepath.Base(args[0]) != "slurmstepd" || slices.Contains(args[1:], "infinity")) {
		return nobody
	}
	return ""
}

func pids(dir string) []string {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}
