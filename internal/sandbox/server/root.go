package server

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// hostRoot is where a native server keeps the host's files in sight.
const hostRoot = "/host"

// mountHost brings a directory of the host's to at, read-only.
func (s Settings) mountHost(dir, at string) error {
	if s.Guest {
		return mount("none", at, "hostfs", unix.MS_RDONLY, dir)
	}
	return bindReadOnly(filepath.Join(hostRoot, dir), at)
}

// enterRoot makes a fresh, writable Debian out of the cached one, which stays as
// it is, and makes it this mount namespace's root. scratch is an empty directory.
func (s Settings) enterRoot(scratch string) error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := mount("scratch", scratch, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	if err := s.mountRoot(scratch); err != nil {
		return err
	}
	root := filepath.Join(scratch, "root")
	if err := s.mountSystem(root); err != nil {
		return err
	}
	return pivot(root)
}

func (s Settings) mountRoot(scratch string) error {
	dir := func(name string) string { return filepath.Join(scratch, name) }
	for _, name := range []string{"lower", "upper", "work", "root"} {
		if err := os.Mkdir(dir(name), 0o755); err != nil {
			return fmt.Errorf("cannot make root: %v", err)
		}
	}
	lower := mount("none", dir("lower"), "hostfs", unix.MS_RDONLY, s.Root)
	if !s.Guest {
		lower = bindReadOnly(s.Root, dir("lower"))
	}
	if lower != nil {
		return lower
	}
	return mount("overlay", dir("root"), "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dir("lower"), dir("upper"), dir("work")))
}

type mountPoint struct {
	source, at, kind string
	flags            uintptr
	data             string
}

func (s Settings) mountSystem(root string) error {
	points := []mountPoint{
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"sysfs", "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"run", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
		{"tmp", "/tmp", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
	}
	if s.Guest {
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
		if err := mount(p.source, at, p.kind, p.flags, p.data); err != nil {
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

func mount(source, at, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, at, kind, flags, data); err != nil {
		return fmt.Errorf("cannot mount %s%s at %s: %v", kind, source, at, err)
	}
	return nil
}

func bindReadOnly(dir, at string) error {
	if err := mount(dir, at, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}
