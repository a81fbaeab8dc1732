package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Reclaim undoes what a slurmd with cgroup.conf's IgnoreSystemd=yes has done to a
// delegation, once it has ended: 24.11 moves PID 1, and whatever stands beside it, into a
// cgroup "system" below, one deeper at each start and reconfigure, and takes the parent for
// its base. Without the setting, the next one would ask systemd for the cgroup that it does
// not find there. Steps stay where they are.
func (f FS) Reclaim(d Delegation) error {
	if d.Steps == "" {
		return nil
	}
	base, steps := filepath.Join(f.root, d.Base), filepath.Join(f.root, d.Steps)
	first, err := f.path("1")
	if err != nil {
		return err
	}
	former := path.Join("/", strings.SplitN(strings.TrimPrefix(first, "/"), "/", 2)[0])
	if first != former || subtree(filepath.Join(base, former)) != "" {
		err = f.regather(base, first)
		prune(filepath.Join(base, former))
	}
	prune(filepath.Join(steps, "slurmd")) // with controllers for a cgroup below, it takes no process
	if system := filepath.Join(steps, "system"); subtree(system) != "" {
		prune(system)
		_ = os.Mkdir(system, 0o755) // slurmstepd goes there when its step ends, and does not make it
	}
	return err
}

// regather moves PID 1, and what stands beside it and above, into a leaf right below base
// that takes processes.
func (f FS) regather(base, first string) error {
	leaf, err := freshLeaf(base)
	if err != nil {
		return err
	}
	for dir := first; dir != "/" && dir != "."; dir = path.Dir(dir) {
		for range quickRounds {
			pids, err := processes(filepath.Join(base, dir))
			if err != nil || len(pids) == 0 {
				break
			}
			if left := move(pids, leaf); len(left) > 0 {
				return fmt.Errorf("cannot move process %s out of the cgroup %s: %w", left[0].pid, dir, left[0].err)
			}
		}
	}
	return nil
}

// freshLeaf is a cgroup that has no controllers for others below it, and so takes processes.
func freshLeaf(base string) (string, error) {
	for n := 1; ; n++ {
		leaf := filepath.Join(base, Leaf)
		if n > 1 {
			leaf = fmt.Sprintf("%s-%d", leaf, n)
		}
		err := os.Mkdir(leaf, 0o755)
		if err != nil && !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("cannot make a cgroup for the agent: %w", err)
		}
		if subtree(leaf) == "" {
			return leaf, nil
		}
	}
}

func subtree(dir string) string {
	// what cannot be read takes no process either, and move reports that
	text, _ := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	return strings.TrimSpace(string(text))
}

// prune removes a cgroup and those below it, as far as nothing stands in them.
func prune(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			prune(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir)
}
