package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/procfs"
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
		return Set{}, fmt.Errorf("%s: cannot use %q: %w", name, text, err)
	}
	return set, nil
}

// MemTotal is the machine's memory in bytes (/proc/meminfo): what slurmd
// reports, whatever the container's limit is.
func (f FS) MemTotal() (int64, error) {
	proc, err := procfs.NewFS(filepath.Join(f.root, "proc"))
	if err != nil {
		return 0, fmt.Errorf("cannot open /proc: %w", err)
	}
	info, err := proc.Meminfo()
	if err != nil {
		return 0, fmt.Errorf("cannot read /proc/meminfo: %w", err)
	}
	if info.MemTotalBytes == nil || *info.MemTotalBytes == 0 {
		return 0, errors.New("/proc/meminfo: cannot find MemTotal")
	}
	return int64(*info.MemTotalBytes), nil
}
