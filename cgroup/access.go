package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// AccessMode is how the container's cgroup became writable.
type AccessMode string

// The access modes, in the order in which they are tried.
const (
	// Writable: it was so already (containerd's cgroup_writable, CRI-O's
	// annotation io.kubernetes.cri-o.cgroup2-mount-hierarchy-rw).
	Writable AccessMode = "writable"
	// Remounted: it was read-only; CAP_SYS_ADMIN allowed to change that mount.
	Remounted AccessMode = "remounted"
	// OwnNamespace: the container was in the host's cgroup namespace, or saw
	// another part of the hierarchy; CAP_SYS_ADMIN allowed a namespace whose root
	// is the container's cgroup, for the agent and all that it starts.
	OwnNamespace AccessMode = "own namespace"
)

// access is the mode in which this process gets a writable tree.
func (s membership) access() AccessMode {
	switch {
	case !s.isOwn():
		return OwnNamespace
	case s.at.readOnly:
		return Remounted
	}
	return Writable
}

func (f FS) open(s membership) (AccessMode, *outside, error) {
	mode := s.access()
	switch err := s.whyForeign(); {
	case err != nil:
		return "", nil, err
	case mode == Writable:
		return mode, nil, nil
	case f.root != "/":
		return "", nil, fmt.Errorf("cannot change the mounts of %s", f.root)
	case mode == Remounted:
		return mode, nil, remount(s.at)
	}
	out, err := f.enter(s)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %v; %w", ErrForeign, s, err)
	}
	return mode, out, nil
}

// remount changes this one mount: MS_BIND leaves the file system, which the
// whole host shares, as it is (mount(2)).
func remount(at mounted) error {
	err := unix.Mount("", "/"+mount, "", unix.MS_REMOUNT|unix.MS_BIND|at.flags, "")
	if err != nil {
		return fmt.Errorf("/sys/fs/cgroup is mounted read-only, and cannot be remounted (%s): %w", needs(err), err)
	}
	return nil
}

// needs says what a refused system call asks for.
func needs(err error) string {
	if errors.Is(err, unix.EACCES) {
		return "a security module refuses it: AppArmor's default profile for containers denies mount"
	}
	return "it needs CAP_SYS_ADMIN"
}

// enter makes the cgroup of the calling process the root of a new cgroup
// namespace, shows it at /sys/fs/cgroup, and takes every thread there, so that
// whatever is started from now on is in it (cgroup_namespaces(7)). After an
// error the former mount may be gone.
//
// A namespace belongs to a thread. Executing the agent once more would do, too,
// but a SIGTERM that comes between the two is lost: PID 1 ignores what it does
// not handle yet.
func (f FS) enter(s membership) (*outside, error) {
	if s.at.shared {
		return nil,
			errors.New(
				"what is mounted at /sys is shared with other mount namespaces, where the mount of /sys/fs/cgroup would be changed, too")
	}
	out, err := lookOutside(s)
	if err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return nil, fmt.Errorf("a cgroup namespace of its own is refused (%s): %w", needs(err), err)
	}
	if err := mountOwn(); err != nil {
		return nil, fmt.Errorf("mounting its own cgroup at /sys/fs/cgroup is refused (%s): %w", needs(err), err)
	}
	if err := followAll(); err != nil {
		return nil, err
	}
	now, err := f.membership()
	if err == nil && !now.isOwn() {
		err = fmt.Errorf("in the new namespace, %v", now)
	}
	return out, err
}

// mountOwn puts the calling thread's part of the hierarchy in the place of the
// former one, which must go: the kernel mounts no file system over itself, and
// slurmd looks at the first mount there. The file system's options stay as they
// are, they count from the host's namespace only (kernel/cgroup/cgroup.c,
// apply_cgroup_root_flags).
func mountOwn() error {
	if err := unix.Unmount("/"+mount, unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Mount("cgroup", "/"+mount, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RELATIME, "")
}

// followAll takes all threads to the calling one's cgroup namespace.
func followAll() error {
	here, err := namespace()
	if err != nil {
		return err
	}
	defer here.Close()
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_SETNS, here.Fd(), unix.CLONE_NEWCGROUP, 0); errno != 0 {
		return fmt.Errorf("cannot take every thread to the new cgroup namespace: %w", errno)
	}
	return nil
}

func namespace() (*os.File, error) {
	file, err := os.Open("/proc/thread-self/ns/cgroup")
	if err != nil {
		return nil, fmt.Errorf("cannot open the cgroup namespace: %w", err)
	}
	return file, nil
}

// outside is the hierarchy above the container, where the mount that shows it
// is about to be covered.
type outside struct {
	tree *os.Root
	// parent is the cgroup above the container's.
	parent string
}

// lookOutside returns nil where there is nothing above to be seen, or where the
// name that the container has there is not known.
func lookOutside(s membership) (*outside, error) {
	if s.at.root != "/" || s.path == "/" || strings.HasPrefix(s.path, "/..") {
		return nil, nil
	}
	tree, err := os.OpenRoot("/" + mount)
	if err != nil {
		return nil, fmt.Errorf("cannot keep sight of the limits above the container: %w", err)
	}
	return &outside{tree, path.Dir(s.path)}, nil
}
