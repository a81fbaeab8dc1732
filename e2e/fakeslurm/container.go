package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// container is started in a pid and a mount namespace of its own and becomes what its arguments say. It shows a /proc of the container,
// and no cgroups but the files in the stage's directory cgroup, if there is one: an agent that runs slurmd moves every process of
// its cgroup, which would be the tests' own here. The stage's file hosts, if there is one, is /etc/hosts. The
// directories in which all users write are the container's own, because an agent counts the files there, and those
// of the machine are none of its jobs'.
func container(command []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("mount /", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return os.NewSyscallError("mount /proc", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return os.NewSyscallError("mount /run", err)
	}
	if err := unix.Mount("tmpfs", "/sys/fs/cgroup", "tmpfs", 0, ""); err != nil {
		return os.NewSyscallError("mount /sys/fs/cgroup", err)
	}
	if err := ownTemporaries(command[0]); err != nil {
		return err
	}
	if chosen("cgroup") {
		must(os.CopyFS("/sys/fs/cgroup", os.DirFS(filepath.Join(stage, "cgroup"))))
	}
	if chosen("hosts") {
		if err := unix.Mount(filepath.Join(stage, "hosts"), "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
			return os.NewSyscallError("mount /etc/hosts", err)
		}
	}
	if chosen("hosts.readonly") {
		if err := unix.Mount("", "/etc/hosts", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return os.NewSyscallError("mount /etc/hosts", err)
		}
	}
	return os.NewSyscallError("exec", unix.Exec(command[0], command, os.Environ()))
}

// ownTemporaries covers /tmp, /var/tmp and /dev/shm. Of what was there, that stays of which the environment and the
// programs' paths have.
func ownTemporaries(program string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	environ, stay := append(os.Environ(), program, self, stage), map[string]*os.File{}
	for _, one := range strings.FieldsFunc(strings.Join(environ, ":"), func(r rune) bool { return r == ':' || r == '=' }) {
		rest, below := strings.CutPrefix(one, "/tmp/")
		first, _, _ := strings.Cut(rest, "/")
		path := filepath.Join("/tmp", first)
		if is, err := os.Stat(path); !below || first == "" || stay[path] != nil || err != nil || !is.IsDir() {
			continue
		}
		dir, err := os.Open(path)
		if err != nil {
			return err
		}
		defer dir.Close()
		stay[path] = dir
	}
	for _, path := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		if err := unix.Mount("tmpfs", path, "tmpfs", 0, "mode=1777,size=100m"); err != nil {
			return os.NewSyscallError("mount "+path, err)
		}
	}
	for path, dir := range stay {
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), path, "", unix.MS_BIND, ""); err != nil {
			return os.NewSyscallError("mount "+path, err)
		}
	}
	return nil
}
