package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// makeCgroup makes one in the machine's cgroup v2 hierarchy: /sys/fs/cgroup, or
// beside the controllers of cgroup v1.
func makeCgroup() (string, error) {
	for _, hierarchy := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var fs unix.Statfs_t
		if err := unix.Statfs(hierarchy, &fs); err != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		dir, err := os.MkdirTemp(hierarchy, "slurmlet-steps-")
		if err != nil {
			return "", fmt.Errorf("cannot make a cgroup: %w", err)
		}
		return dir, nil
	}
	return "", errors.New("cannot make a cgroup: there is no cgroup2 at /sys/fs/cgroup or /sys/fs/cgroup/unified")
}

// removeAll removes a cgroup and those below, once their processes have gone.
func removeAll(dir string) error {
	return native.Within(native.Limit, "cannot remove the cgroup "+dir, func() bool {
		return remove(dir) == nil
	})
}

func remove(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, remove(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(err, unix.Rmdir(dir))
}

// stepsOfJob are those of each job.
var stepsOfJob = []string{"step_extern", "step_batch", "step_0", "step_1"}

// comeAndGo makes the cgroups of n steps and removes them, under the lock that
// slurmstepd takes, and has told called now and then.
func comeAndGo(scope string, n int, told func(done int) error) error {
	dir, err := os.Open(scope)
	if err != nil {
		return fmt.Errorf("cannot open the cgroup of the steps: %w", err)
	}
	defer dir.Close()
	for i := 0; i < n; i += len(stepsOfJob) {
		job := filepath.Join(scope, fmt.Sprintf("job_%d", 1_000_000+i))
		if err := liveJob(dir, job); err != nil {
			return fmt.Errorf("cannot make and remove the cgroups of a job: %w", err)
		}
		if i%max(n/10, 1) < len(stepsOfJob) {
			if err := told(i); err != nil {
				return err
			}
		}
	}
	return nil
}

func liveJob(scope *os.File, job string) error {
	for _, step := range stepsOfJob {
		if err := locked(scope, func() error { return makeStep(filepath.Join(job, step)) }); err != nil {
			return err
		}
	}
	for _, step := range stepsOfJob {
		if err := locked(scope, func() error { return remove(filepath.Join(job, step)) }); err != nil {
			return err
		}
	}
	return locked(scope, func() error { return remove(job) })
}

func makeStep(dir string) error {
	return errors.Join(os.MkdirAll(filepath.Join(dir, "slurm"), 0o755), os.MkdirAll(filepath.Join(dir, "user", "task_0"), 0o755))
}

func locked(dir *os.File, do func() error) error {
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	return errors.Join(do(), unix.Flock(int(dir.Fd()), unix.LOCK_UN))
}

// settled is how long figures must not change before they are taken.
const settled = time.Second
