package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrForeign says that the cgroup which stands for "/" here, in /proc or at
// /sys/fs/cgroup, is not the container's own: slurmd would build its tree
// beside the container and run jobs outside its limits.
var ErrForeign = errors.New("what is seen of the cgroup hierarchy is not the container's own part")

// membership is which cgroup the calling process is in, and what
// /sys/fs/cgroup shows of it.
type membership struct {
	// initial: the cgroup namespace is the machine's own.
	initial bool
	// hostPIDs: so is the pid namespace.
	hostPIDs bool
	// path is the process's cgroup as its namespace names it, init PID 1's.
	path, init string
	at         mounted
}

// mounted is a line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type mounted struct {
	// root is the cgroup that is shown, as the reader's namespace names it.
	root     string
	readOnly bool
	// shared: mounting and unmounting there would be seen by others.
	shared bool
	// flags are those that a remount must repeat in order to keep them.
	flags uintptr
}

// The machine's own namespaces on every Linux (include/linux/proc_ns.h,
// PROC_CGROUP_INIT_INO and PROC_PID_INIT_INO).
const (
	initialCgroup = "cgroup:[4026531835]"
	initialPID    = "pid:[4026531836]"
)

func (f FS) membership() (membership, error) {
	own, err := f.path("self")
	if err != nil {
		return membership{}, err
	}
	first, err := f.path("1")
	if err != nil {
		return membership{}, err
	}
	space, err := os.Readlink(filepath.Join(f.root, "proc/self/ns/cgroup"))
	if err != nil {
		return membership{}, fmt.Errorf("cannot read the cgroup namespace: %w", err)
	}
	pids, err := os.Readlink(filepath.Join(f.root, "proc/self/ns/pid"))
	if err != nil {
		return membership{}, fmt.Errorf("cannot read the pid namespace: %w", err)
	}
	table, err := os.ReadFile(filepath.Join(f.root, "proc/self/mountinfo"))
	if err != nil {
		return membership{}, fmt.Errorf("cannot find what is mounted at /sys/fs/cgroup: %w", err)
	}
	at, err := parseMountinfo(string(table), path.Join("/", mount))
	return membership{space == initialCgroup, pids == initialPID, own, first, at}, err
}

// whyForeign says why the container has no cgroup of its own that Slurm would use:
// its base is beside PID 1's cgroup, whoever that is.
func (s membership) whyForeign() error {
	switch {
	case s.hostPIDs:
		return fmt.Errorf(
			"%w: the agent is in the host's pid namespace (hostPID, or no container at all), and Slurm would make "+
				"its cgroups beside those of the host's init", ErrForeign)
	case s.init != s.path:
		return fmt.Errorf(
			"%w: PID 1 is in the cgroup %s and the agent in %s (shareProcessNamespace), and Slurm would make its "+
				"cgroups beside PID 1's", ErrForeign, s.init, s.path)
	}
	return nil
}

// isOwn: the namespace's root is the container's cgroup, and it is what is seen.
// Nobody but an agent makes Leaf.
func (s membership) isOwn() bool {
	return !s.initial && (s.path == "/" || s.path == "/"+Leaf) && s.at.root == "/"
}

// String says where that is, for whoever set up the container.
func (s membership) String() string {
	space := "a cgroup namespace whose root is above its own cgroup"
	switch {
	case s.initial:
		space = "the host's cgroup namespace"
	case s.path == "/" || s.path == "/"+Leaf:
		space = "its own cgroup namespace"
	}
	return fmt.Sprintf("the container is in %s, its cgroup there is %s, and /sys/fs/cgroup shows %s", space, s.path, s.at.root)
}

// parseMountinfo finds what is mounted at a directory: the last mount there
// covers the others.
func parseMountinfo(table, at string) (mounted, error) {
	lines := strings.Split(table, "\n")
	for _, line := range slices.Backward(lines) {
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[4] != at {
			continue
		}
		_, after, found := strings.Cut(line, " - ")
		if !found || !strings.HasPrefix(after, "cgroup2 ") {
			return mounted{}, fmt.Errorf("%w: /proc/self/mountinfo: %q", ErrNotUnified, line)
		}
		m := mounted{root: fields[3], shared: shared(lines, fields[1])}
		for option := range strings.SplitSeq(fields[5], ",") {
			m.readOnly = m.readOnly || option == "ro"
			m.flags |= mountFlags[option]
		}
		return m, nil
	}
	return mounted{}, fmt.Errorf("%w: /proc/self/mountinfo names no mount at %s", ErrNotUnified, at)
}

// shared says whether the mount of that number passes on to others what is
// mounted and unmounted in it (mount_namespaces(7), "Shared subtrees").
func shared(lines []string, id string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		before, _, _ := strings.Cut(line, " - ")
		return strings.HasPrefix(line, id+" ") && strings.Contains(before, " shared:")
	})
}

// mountFlags are those of mount(2) that belong to one mount, not to the file system.
var mountFlags = map[string]uintptr{
	"nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC, "noatime": unix.MS_NOATIME,
	"nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME, "nosymfollow": unix.MS_NOSYMFOLLOW,
}
