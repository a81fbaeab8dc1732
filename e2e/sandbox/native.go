package sandbox

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/slurmlet/slurmlet/e2e/sandbox/pod"
	"golang.org/x/sys/unix"
)

// hostCgroup is where a host with nothing but cgroup v2 mounts it.
const hostCgroup = "/sys/fs/cgroup"

// pureV2 tells whether pods can have limits on this host without a guest.
func pureV2() bool {
	var fs unix.Statfs_t
	return unix.Statfs(hostCgroup, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
}

func (s *Sandbox) cgroup() string { return "/slurmlet-sandbox-" + s.options.Name }

// makeCgroup makes the sandbox's place in the host's hierarchy.
func (s *Sandbox) makeCgroup() error {
	if err := pod.EnableControllers(hostCgroup, []string{"cpu", "cpuset", "memory", "pids"}); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(hostCgroup, s.cgroup()), 0o755); err != nil {
		return fmt.Errorf("cannot make cgroup: %v", err)
	}
	return nil
}
