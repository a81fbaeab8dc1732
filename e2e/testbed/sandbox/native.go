package sandbox

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/pod"
	"golang.org/x/sys/unix"
)

// hostCgroup is where a host with nothing but cgroup v2 mounts it, unifiedCgroup where one mounts it that has
// controllers on cgroup v1 (systemd's hybrid layout).
const (
	hostCgroup    = "/sys/fs/cgroup"
	unifiedCgroup = hostCgroup + "/unified"
)

// pureV2 tells whether pods can have limits on this host without a guest.
func pureV2() bool { return isV2(hostCgroup) }

func isV2(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
}

func (s *Sandbox) cgroup() string { return "/slurmlet-sandbox-" + s.options.Name }

// cgroupDir is the sandbox's place in the host's hierarchy.
func (s *Sandbox) cgroupDir() string {
	if pureV2() {
		return filepath.Join(hostCgroup, s.cgroup())
	}
	return filepath.Join(unifiedCgroup, s.cgroup())
}

func (s *Sandbox) makeCgroup() error {
	if !s.settings.NoLimits {
		if err := pod.EnableControllers(hostCgroup, []string{"cpu", "cpuset", "memory", "pids"}); err != nil {
			return err
		}
	}
	if err := os.Mkdir(s.cgroupDir(), 0o755); err != nil {
		return fmt.Errorf("cannot make cgroup: %v", err)
	}
	return nil
}
