package pod

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// container is one run of a pod's command, with a root file system of its own.
type container struct {
	id, dir string
	// mu keeps PID 1 from being reaped while it is signalled.
	mu      sync.Mutex
	pid     int
	started time.Time
	// exited is closed when PID 1 was reaped, gone when nothing is left.
	exited, gone chan struct{}
	finished     time.Time
	status       unix.WaitStatus
	// oomKills are those of the container's cgroup and all below it.
	oomKills int
}

func (c *container) root() string { return filepath.Join(c.dir, "root") }

// signal reaches PID 1 of the container, or nobody if it was reaped.
func (c *container) signal(sig unix.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended() {
		return nil
	}
	if err := unix.Kill(c.pid, sig); err != nil && err != unix.ESRCH {
		return fmt.Errorf("cannot send %v to %s: %v", sig, c.id, err)
	}
	return nil
}

// path leads through the mounts of the container's PID 1 (proc_pid_root(5)).
func (c *container) path(path string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended() {
		return "", fmt.Errorf("cannot look into %s: its container has ended", c.id)
	}
	return filepath.Join("/proc", strconv.Itoa(c.pid), "root", path), nil
}

func (c *container) ended() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// end is called while PID 1 is still a zombie.
func (c *container) end(status unix.WaitStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status, c.finished = status, time.Now()
	close(c.exited)
}

// stop ends the container as the kubelet does, and waits until it is gone.
func (c *container) stop(grace time.Duration) error {
	if err := c.signal(unix.SIGTERM); err != nil {
		return err
	}
	select {
	case <-c.exited:
	case <-time.After(grace):
		if err := c.signal(unix.SIGKILL); err != nil {
			return err
		}
	}
	<-c.gone
	return nil
}

// mountRoot lays a fresh, empty layer over the image.
func (c *container) mountRoot(image string) error {
	for _, dir := range []string{"upper", "work", "root"} {
		if err := os.MkdirAll(filepath.Join(c.dir, dir), 0o755); err != nil {
			return fmt.Errorf("cannot make root: %v", err)
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", image, c.dir, c.dir)
	if err := unix.Mount("overlay", c.root(), "overlay", 0, options); err != nil {
		return fmt.Errorf("cannot mount root: %v", err)
	}
	return nil
}

// removeRoot unmounts what was mounted below the container's directory, the
// last first, and removes it.
func (c *container) removeRoot() error {
	points, err := mountsBelow(c.dir)
	if err != nil {
		return err
	}
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("cannot unmount %s: %v", point, err)
		}
	}
	return os.RemoveAll(c.dir)
}

func mountsBelow(dir string) ([]string, error) {
	mounts, err := procfs.GetMounts()
	if err != nil {
		return nil, fmt.Errorf("cannot list mounts: %v", err)
	}
	var out []string
	for _, m := range mounts {
		if strings.HasPrefix(m.MountPoint, dir+"/") {
			out = append(out, m.MountPoint)
		}
	}
	return out, nil
}

// oomKills counts the OOM kills in a cgroup and all below it.
func oomKills(cgroup string) int {
	data, _ := os.ReadFile(filepath.Join(cgroupMount, cgroup, "memory.events"))
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "oom_kill" {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
}
