// Package privatedirs gives a job directories of its own on a node, such as /tmp and /dev/shm, and perhaps process
// numbers of its own. A holder keeps the job's mount namespace from the job's first step, the extern one, to its last.
// The directories are tmpfs of that namespace, so they count as the job's memory and go with the namespace. All of it
// runs as root, in slurmstepd's place; the job's tasks enter while they are root still.
package privatedirs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Spec says what a job has of its own.
type Spec struct {
	// Dirs are absolute paths of directories.
	Dirs []string
	// Processes has the job see and signal its own processes alone.
	Processes bool
	// State is the job's directory below the node's store. The plugin reads there who holds the namespaces.
	State string
	// Size limits each directory, in MiB; 0: the kernel's own limit, half of the machine's memory.
	Size uint64
}

// The files of State.
const (
	lockFile    = "lock"    // the holder has it locked while it lives
	holderFile  = "holder"  // the holder's pid and the kinds of its namespaces, as in "42 user mnt"
	problemFile = "problem" // why there is no holder
)

// Parse reads a list of directories, as in /tmp,/dev/shm.
func Parse(list string) ([]string, error) {
	var dirs []string
	for dir := range strings.SplitSeq(list, ",") {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || strings.Count(dir, "/") == 1 && slices.Contains(tooMuch, dir) {
			return nil, fmt.Errorf("private_dirs=%s: want absolute paths of directories, as in /tmp,/dev/shm, and none of %s; got %q",
				list, strings.Join(tooMuch, ", "), dir)
		}
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs) // a directory comes before those in it
	return dirs, nil
}

// tooMuch are directories that jobs need as they are.
var tooMuch = []string{"/", "/bin", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr", "/var"}

// Make starts the holder of a job, which lives until lifeline is closed at its other end. What fails stays in State, where
// the plugin finds it for the job's steps. Make must be called on the main thread: the holder dies with it until all is
// made.
func Make(s Spec, lifeline *os.File) error {
	if err := s.make(lifeline); err != nil {
		return Refuse(s, err)
	}
	return nil
}

// Refuse keeps why a job has no directories of its own, and returns that.
func Refuse(s Spec, why error) error {
	_ = os.MkdirAll(s.State, 0o700)
	return errors.Join(why, s.write(problemFile, why.Error()))
}

func (s Spec) make(lifeline *os.File) error {
	if err := s.check(); err != nil {
		return err
	}
	all := filepath.Dir(s.State)
	if err := os.MkdirAll(all, 0o700); err != nil {
		return fmt.Errorf("cannot keep the job's namespaces: %w", err)
	}
	one, err := lockOf(filepath.Join(all, ".lock"), unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer one.Close()
	sweep(all)
	if err := os.MkdirAll(s.State, 0o700); err != nil {
		return fmt.Errorf("cannot keep the job's namespaces: %w", err)
	}
	lock, err := s.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	leaveStep()
	return s.start(lifeline, lock)
}

// check finds what no mount can replace.
func (s Spec) check() error {
	for _, dir := range s.Dirs {
		info, err := os.Lstat(dir)
		if err != nil {
			return fmt.Errorf("private_dirs: %w", err)
		}
		if !info.IsDir() {
			return fmt.Errorf("private_dirs: %s is no directory", dir)
		}
		if dir == s.State || strings.HasPrefix(s.State, dir+"/") {
			return fmt.Errorf("private_dirs: %s has the node's store of containers in it (%s)", dir, s.State)
		}
	}
	return nil
}

// mostEnding bounds how long a job that was requeued waits for the holder that it had before.
const mostEnding = 10 * time.Second

func (s Spec) lock() (*os.File, error) {
	for limit := time.Now().Add(mostEnding); ; {
		lock, err := lockOf(filepath.Join(s.State, lockFile), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(limit) {
			return lock, err
		}
		<-time.After(5 * time.Millisecond)
		_ = os.MkdirAll(s.State, 0o700) // that holder has removed it
	}
}

func lockOf(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		if err = unix.Flock(int(f.Fd()), how); err == nil {
			return f, nil
		}
		_ = f.Close()
	}
	return nil, fmt.Errorf("cannot lock %s: %w", path, err)
}

// longestAsked is how long steps of a job are told why it has no directories of its own.
const longestAsked = time.Hour

// sweep removes what holders that were killed have left, and what was told.
func sweep(all string) {
	entries, _ := os.ReadDir(all)
	for _, e := range entries {
		problem, err := os.Stat(filepath.Join(all, e.Name(), problemFile))
		if !e.IsDir() || err == nil && time.Since(problem.ModTime()) < longestAsked {
			continue
		}
		if lock, err := lockOf(filepath.Join(all, e.Name(), lockFile), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			_ = os.RemoveAll(filepath.Join(all, e.Name()))
			_ = lock.Close()
		}
	}
}

// leaveStep moves this process, and so the holder, beside the cgroups of jobs: into the leaf of cgroup v2 where Slurm
// keeps slurmstepds that have left theirs. Slurm could not remove the extern step's cgroup otherwise.
func leaveStep() {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		path, is := strings.CutPrefix(strings.TrimSpace(line), "0::")
		job, _, below := strings.Cut(path, "/step_") // the job's is job_1, or in Slurm 26.05 its SLUID
		if is && below {
			beside := filepath.Join("/sys/fs/cgroup", filepath.Dir(job), "system/cgroup.procs")
			_ = os.WriteFile(beside, []byte(strconv.Itoa(os.Getpid())), 0)
		}
	}
}

func (s Spec) write(file, text string) error {
	path := filepath.Join(s.State, file)
	err := os.WriteFile(path+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("cannot keep the job's namespaces: %w", err)
	}
	return nil
}
