package pod

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupMount is where cgroup v2 is mounted wherever pods run.
const cgroupMount = "/sys/fs/cgroup"

// PrepareCgroup makes base (a path below the cgroup2 mount point, "/" for all of
// it) a place where pods can have limits: this process moves to base/server and
// with limits, every controller is enabled for base/pods/*.
func PrepareCgroup(base string, limits bool) error {
	root := filepath.Join(cgroupMount, base)
	for _, dir := range []string{"server", "pods"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return fmt.Errorf("cannot make cgroup: %v", err)
		}
	}
	self := strconv.Itoa(os.Getpid())
	if err := os.WriteFile(filepath.Join(root, "server/cgroup.procs"), []byte(self), 0); err != nil {
		return fmt.Errorf("cannot move to own cgroup: %v", err)
	}
	if !limits {
		return nil
	}
	for _, dir := range []string{root, filepath.Join(root, "pods")} {
		if err := EnableControllers(dir, nil); err != nil {
			return err
		}
	}
	return nil
}

// EnableControllers turns on what the children of a cgroup may limit: those
// named, or all there are.
func EnableControllers(dir string, only []string) error {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("cannot read controllers: %v", err)
	}
	have := strings.Fields(string(data))
	for _, want := range []string{"cpu", "cpuset", "memory", "pids"} {
		if !slices.Contains(have, want) {
			return fmt.Errorf("cannot limit pods: no %s controller in %s, which has %s", want, dir, have)
		}
	}
	if only == nil {
		only = have
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+strings.Join(only, " +")), 0); err != nil {
		return fmt.Errorf("cannot enable controllers: %v", err)
	}
	return nil
}

// RemoveCgroup removes a cgroup with everything below it, killing what is in it.
func RemoveCgroup(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// Not there in a root cgroup, and nothing to kill then.
	_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	var err error
	for range 200 {
		if err = removeTree(dir); err == nil {
			return nil
		}
		<-time.After(10 * time.Millisecond) // EBUSY until the last process is reaped
	}
	return fmt.Errorf("cannot remove cgroup: %v", err)
}

func removeTree(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	slices.Reverse(dirs)
	for _, d := range dirs {
		if err := unix.Rmdir(d); err != nil && err != unix.ENOENT {
			return fmt.Errorf("%s: %v", d, err)
		}
	}
	return nil
}
