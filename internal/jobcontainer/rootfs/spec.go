// Package rootfs makes a job's container in user and mount namespaces of its own, without a privilege: the root file
// system, what is mounted into it, and its environment. All of it runs as the job's user in the step's cgroup.
package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/options"
)

// Spec has all that a container is made of.
type Spec struct {
	options.Options
	// Store is the node's directory for containers. Below it are mnt, an empty directory, and one directory a user.
	Store string
	// Script is the path of a batch script, which is in the container, too; empty: the step has none.
	Script string
	// Home and User are the user's, and UID and GID outside of the container.
	Home, User string
	UID, GID   int
	// Dir is the job's working directory on the node.
	Dir string
	// MPI is a directory of PMIx' server, which is in the container, too; empty: there is none.
	MPI string
	// Lower is the image as an absolute path, and Squashfs says that it is a file.
	Lower    string
	Squashfs bool
	// Cached is the image's digest where it is one of the user's cache, which holders keep in use.
	Cached string

	// hasSlurm says that the container has the node's Slurm.
	hasSlurm bool
	// held keeps a registry's image in the cache, for this process, and pinned is its name with its digest.
	held   *os.File
	pinned string
}

// mountpoint is where the container grows in its own mount namespace.
func (s Spec) mountpoint() string { return filepath.Join(s.Store, "mnt") }

// root is the container's root until it is moved to "/".
func (s Spec) root() string { return filepath.Join(s.mountpoint(), "root") }

// plain is the root without what is mounted into it.
func (s Spec) plain() string { return filepath.Join(s.mountpoint(), "plain") }

// home is where the home directory is in the container.
func (s Spec) home() string {
	if s.RemapRoot {
		return "/root"
	}
	return s.Home
}

// findImage finds a path of the node, or a registry's image, which it pulls if it must.
func (s *Spec) findImage(image string) error {
	if options.IsPath(image) {
		return s.findPath(image)
	}
	return s.findPulled(image, pull)
}

// findPath makes the image an absolute path and looks whether it is a directory or a squashfs file.
func (s *Spec) findPath(image string) error {
	path, err := filepath.Abs(image)
	if err != nil {
		return fmt.Errorf("cannot find --container-image=%s: %w", image, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot read --container-image: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return fmt.Errorf("cannot read --container-image: %w", err)
	case info.IsDir():
		s.Lower = path
		return nil
	case !info.Mode().IsRegular():
		return fmt.Errorf("--container-image=%s is neither a directory nor a file", image)
	}
	magic := make([]byte, 4)
	if _, err := f.ReadAt(magic, 0); err != nil || string(magic) != "hsqs" {
		return fmt.Errorf("--container-image=%s is no squashfs file", image)
	}
	s.Lower, s.Squashfs = path, true
	return nil
}

// explain names what forbids a container on this node.
func explain(what string, err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("%s: the machine allows no more user namespaces (sysctl user.max_user_namespaces): %w", what, err)
	case errors.Is(err, unix.EPERM):
		if os.Getuid() == 0 && !capable(unix.CAP_SETFCAP) {
			return fmt.Errorf("%s of root's: Linux maps root only for who has CAP_SETFCAP; run the step as another user, or give slurmd "+
				"SETFCAP (securityContext.capabilities.add of the nodes): %w", what, err)
		}
		return fmt.Errorf("%s: this node may not make user namespaces; its pod needs CAP_SYS_ADMIN (the chart's "+
			"cgroup.access=capability) or another seccomp profile (jobContainers.seccompProfile): %w", what, err)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%s: AppArmor or another security module forbids it: the runtime's profile, or on Ubuntu "+
			"sysctl kernel.apparmor_restrict_unprivileged_userns: %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// capable says whether this process has a capability.
func capable(capability int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	return unix.Capget(&header, &sets[0]) == nil && sets[capability/32].Effective&(1<<(capability%32)) != 0
}

// escaped is a path as overlay's options take it.
func escaped(path string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace(path)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
