// Package machine makes a fresh Debian the root of a mount namespace: of a
// guest's, or of a namespace on this host.
package machine

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Root says what to make the root of.
type Root struct {
	// Debian is a directory of the host's, which stays as it is.
	Debian string
	// Guest: this is a machine of its own, and the host's files come by hostfs.
	Guest bool
}

// hostRoot is where a namespace keeps the host's files in sight.
const hostRoot = "/host"

// MountHost brings a directory of the host's to at, read-only.
func (r Root) MountHost(dir, at string) error {
	return r.bring(dir, at, unix.MS_RDONLY)
}

// ShareHost brings a directory of the host's to at, writable.
func (r Root) ShareHost(dir, at string) error {
	return r.bring(dir, at, 0)
}

func (r Root) bring(dir, at string, flags uintptr) error {
	if r.Guest {
		return Mount("none", at, "hostfs", flags, dir)
	}
	return bind(filepath.Join(hostRoot, dir), at, flags)
}

// OwnMounts keeps this mount namespace's mounts to itself, and gives it a /proc
// that knows its processes.
func OwnMounts() error {
	if err := Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return Mount("proc", "/proc", "proc", 0, "")
}

// Enter makes a fresh, writable Debian out of the one there is, and makes it
// this mount namespace's root. scratch is an empty directory.
func (r Root) Enter(scratch string) error {
	if err := Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := Mount("scratch", scratch, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	if err := r.mountRoot(scratch); err != nil {
		return err
	}
	root := filepath.Join(scratch, "root")
	if err := r.mountSystem(root); err != nil {
		return err
	}
	return pivot(root)
}

func (r Root) mountRoot(scratch string) error {
	dir := func(name string) string { return filepath.Join(scratch, name) }
	for _, name := range []string{"lower", "upper", "work", "root"} {
		if err := os.Mkdir(dir(name), 0o755); err != nil {
			return fmt.Errorf("cannot make root: %v", err)
		}
	}
	lower := Mount("none", dir("lower"), "hostfs", unix.MS_RDONLY, r.Debian)
	if !r.Guest {
		lower = bind(r.Debian, dir("lower"), unix.MS_RDONLY)
	}
	if lower != nil {
		return lower
	}
	return Mount("overlay", dir("root"), "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dir("lower"), dir("upper"), dir("work")))
}

type mountPoint struct {
	source, at, kind string
	flags            uintptr
	data             string
}

func (r Root) mountSystem(root string) error {
	points := []mountPoint{
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"sysfs", "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"run", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
		{"tmp", "/tmp", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
	}
	if r.Guest {
		points = append(points, mountPoint{"dev", "/dev", "devtmpfs", 0, ""},
			mountPoint{"devpts", "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=0620,gid=5"}, mountPoint{"shm", "/dev/shm", "tmpfs", 0, "mode=1777"})
	} else {
		points = append(points, mountPoint{"/dev", "/dev", "", unix.MS_BIND | unix.MS_REC, ""}, mountPoint{"/", hostRoot, "", unix.MS_BIND | unix.MS_REC, ""})
	}
	for _, p := range points {
		at := filepath.Join(root, p.at)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return fmt.Errorf("cannot make mount point: %v", err)
		}
		if err := Mount(p.source, at, p.kind, p.flags, p.data); err != nil {
			return err
		}
	}
	return nil
}

// pivot makes root the root, and lets the old one go (pivot_root(2), the "." trick).
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("cannot change root: %v", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("cannot change root: %v", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("cannot leave the old root: %v", err)
	}
	return os.Chdir("/")
}

// Mount is mount(2), with an error that says what and where.
func Mount(source, at, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, at, kind, flags, data); err != nil {
		return fmt.Errorf("cannot mount %s%s at %s: %v", kind, source, at, err)
	}
	return nil
}

// bind takes its flags in a second step, as the kernel does.
func bind(dir, at string, flags uintptr) error {
	if err := Mount(dir, at, "", unix.MS_BIND, ""); err != nil || flags == 0 {
		return err
	}
	return Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|flags, "")
}
