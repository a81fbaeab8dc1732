package main

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// container is started in a pid and a mount namespace of its own and becomes what it is told. It shows a /proc of the container,
// and no cgroups but the files in the stage's directory cgroup, if there is one: an agent that runs slurmd moves every process of
// its cgroup, which would be the tests' own here. The stage's file hosts, if there is one, is /etc/hosts.
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
