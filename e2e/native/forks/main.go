// Forks is the first process of a container. It hands the container's cgroup to
// Slurm again and again, in the midst of processes that fork without a pause,
// and takes it back each time; a second reader, containerd's, must agree with
// what came of it. Then it becomes the program that its further arguments name.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/cgroups/v3/cgroup2"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/cgroup"
)

const (
	base    = "/sys/fs/cgroup"
	slice   = base + "/system.slice"
	node    = "node-2"
	steps   = slice + "/" + node + "_slurmstepd.scope"
	forkers = 2
)

func main() {
	rounds, err := strconv.Atoi(os.Args[1])
	if err == nil {
		err = rehearse(rounds)
	}
	if err == nil && len(os.Args) > 2 {
		err = unix.Exec(os.Args[2], os.Args[2:], os.Environ())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func rehearse(rounds int) error {
	for range forkers {
		cmd := exec.Command("sh", "-c", "while :; do (:); done")
		if err := cmd.Start(); err != nil {
			return err
		}
		defer func() { _ = errors.Join(cmd.Process.Kill(), cmd.Wait()) }()
	}
	var worst time.Duration
	start := time.Now()
	for round := range rounds {
		began := time.Now()
		d, err := cgroup.NewFS("/").Delegate(node)
		worst = max(worst, time.Since(began))
		if err == nil {
			err = check(d)
		}
		if err == nil && round < rounds-1 {
			err = takeBack()
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	fmt.Printf("%d delegations in %v, the longest took %v\n", rounds, time.Since(start), worst)
	return nil
}

func check(d cgroup.Delegation) error {
	whole, err := cgroup2.Load("/")
	if err != nil {
		return err
	}
	left, err := whole.Procs(false)
	if err != nil || len(left) > 0 {
		return fmt.Errorf("%d processes are left: %v", len(left), err)
	}
	on, err := os.ReadFile(base + "/cgroup.subtree_control")
	if err != nil || !d.Complete() || !slices.Contains(strings.Fields(string(on)), "memory") {
		return fmt.Errorf("incomplete: %v, %s: %v", d.Missing, on, err)
	}
	return nil
}

// takeBack makes the container's cgroup what it was when the container began.
func takeBack() error {
	if err := errors.Join(os.Remove(steps), os.Remove(slice)); err != nil {
		return err
	}
	// All at once: the kernel takes its time after each.
	const control = base + "/cgroup.subtree_control"
	on, err := os.ReadFile(control)
	if err != nil {
		return err
	}
	off := "-" + strings.Join(strings.Fields(string(on)), " -")
	if err := os.WriteFile(control, []byte(off), 0); err != nil {
		return err
	}
	leaf := filepath.Join(base, cgroup.Leaf)
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		pids, err := os.ReadFile(filepath.Join(leaf, "cgroup.procs"))
		if err != nil {
			return err
		}
		for pid := range strings.FieldsSeq(string(pids)) {
			_ = os.WriteFile(filepath.Join(base, "cgroup.procs"), []byte(pid), 0) // it may have ended
		}
		if len(pids) == 0 {
			return os.Remove(leaf)
		}
	}
	return errors.New("the leaf is never empty")
}
