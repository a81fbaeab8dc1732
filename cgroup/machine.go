package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Online is the set of the machine's CPUs that are online: the CPUs that
// slurmd counts (/sys/devices/system/cpu/online).
func (f FS) Online() (Set, error) {
	const name = "/sys/devices/system/cpu/online"
	text, err := os.ReadFile(filepath.Join(f.root, name))
	if err != nil {
		return Set{}, fmt.Errorf("cannot read %s: %w", name, err)
	}
	set, err := ParseSet(strings.TrimSpace(string(text)))
	if err != nil {
		return Set{}, fmt.Errorf("%s: cannot use %q: %w", name, strings.TrimSpace(string(text)), err)
	}
	return set, nil
}

// MemTotal is the machine's memory in bytes (/proc/meminfo): what slurmd
// reports, whatever the container's limit is.
func (f FS) MemTotal() (int64, error) {
	text, err := os.ReadFile(filepath.Join(f.root, "proc/meminfo"))
	if err != nil {
		return 0, fmt.Errorf("cannot read /proc/meminfo: %w", err)
	}
	var kib int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err != nil || kib <= 0 {
		return 0, errors.New("/proc/meminfo: cannot find MemTotal in its first line")
	}
	return kib << 10, nil
}

// DiskSize is the whole size in bytes of the file system that path is in, as
// slurmd takes it for TmpDisk (statvfs(3)).
func (f FS) DiskSize(path string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(filepath.Join(f.root, path), &s); err != nil {
		return 0, fmt.Errorf("cannot read the size of the file system of %s: %w", path, err)
	}
	return int64(s.Blocks) * s.Frsize, nil //nolint:gosec // no disk has 2^63 bytes
}
