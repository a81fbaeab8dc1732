package native

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Node is a small pod: slurmlet as PID 1 of its own PID, mount, network and UTS
// namespaces, with its own /run, which holds slurmd's spool directory. The rest of
// the root file system is the cluster's.
type Node struct {
	Name string
	IP   net.IP
	// Role is the agent's; empty: slurmd.
	Role string
	// Ready is closed when the agent says so, Waiting when it waits for the node's
	// jobs after SIGTERM, Exited when it has ended.
	Ready, Waiting, Exited chan struct{}
	// Cgroup is a cgroup v2 of the machine's that is the node's own; empty: none is
	// seen.
	Cgroup string
	// OwnRoot has the node's root be that of its mount namespace, as a pod's is: no user can make a namespace of users
	// below chroot(2).
	OwnRoot bool
	// Capabilities bound those of the node, as setpriv(1) has them; empty: it has all.
	Capabilities string
	// Status is the exit status and End the time, once it has exited.
	Status int
	End    time.Time

	cmd  *exec.Cmd
	lock sync.Mutex
	log  []string
}

func newNode(names string, i int) *Node {
	return &Node{
		Name: fmt.Sprintf("%s%d", names, i+1), IP: net.IPv4(10, 88, byte(1+i/250), byte(1+i%250)),
		Ready: make(chan struct{}), Waiting: make(chan struct{}), Exited: make(chan struct{}),
	}
}

// furnish is the first process of a node. It waits for its cable. Where we have
// a real-time priority, which slurmctld shares, a node has none. With /etc/hosts.pod in the
// cluster's root, a node has a hosts file of its own, which begins like that.
const furnish = `set -e
read -r plugged
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
echo "$0" > /proc/sys/kernel/hostname
if [ -e /etc/hosts.pod ]; then
	cp /etc/hosts.pod /run/hosts
	mount --bind /run/hosts /etc/hosts
fi
if [ -n "$1" ]; then
	exec unshare --cgroup sh -ec 'mount -t cgroup2 cgroup2 /sys/fs/cgroup; exec chrt --other 0 slurmlet "$0"' "$2"
fi
exec chrt --other 0 ${3:+setpriv --bounding-set="$3"} slurmlet "$2"`

// ownRoot makes $0 the root of a mount namespace, and runs the rest in it.
const ownRoot = `set -e
cd "$0"
pivot_root . mnt
umount -l /mnt
exec /bin/sh -c "$@"`

// Start starts a node of one CPU and 300 MiB for jobs; the kernel does not hold
// it to them.
func (c *Cluster) Start(n *Node, environ ...string) error {
	n.cmd = c.Command("/bin/sh", "-c", furnish, n.Name, n.Cgroup, cmp.Or(n.Role, "slurmd"), n.Capabilities)
	n.cmd.Env = append(n.cmd.Env, append([]string{
		"SLURMLET_SLURMCTLD=" + Host, "SLURMLET_CPU_LIMIT=1000", "SLURMLET_MEMORY_LIMIT=364Mi", "SLURMLET_SPOOL_DIR=/run/spool",
		"SLURMLET_LOG_LEVEL=debug", // Waiting is told on debug only
		"SLURMLET_CGROUP=off",      // the cgroups here are the machine's
	}, environ...)...)
	if n.OwnRoot {
		n.cmd.Args = append([]string{"/bin/sh", "-c", ownRoot, c.Root}, n.cmd.Args[2:]...)
		n.cmd.SysProcAttr.Chroot = ""
	}
	n.cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS
	plugged, err := n.cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", n.Name, err)
	}
	said, err := n.cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", n.Name, err)
	}
	n.cmd.Stderr = n.cmd.Stdout
	if err := n.cmd.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", n.Name, err)
	}
	go n.follow(func() { lines(said, n.hear) })
	if err := connect(n.Name, n.cmd.Process.Pid, n.IP); err != nil {
		return fmt.Errorf("cannot connect %s: %w", n.Name, err)
	}
	if err := n.enterCgroup(); err != nil {
		return fmt.Errorf("cannot start %s: %w", n.Name, err)
	}
	if _, err := plugged.Write([]byte("\n")); err != nil {
		return fmt.Errorf("cannot start %s: %w", n.Name, err)
	}
	return nil
}

func (n *Node) enterCgroup() error {
	if n.Cgroup == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(n.Cgroup, "cgroup.procs"), []byte(strconv.Itoa(n.PID())), 0)
}

// PID is the agent's, as it is seen beside slurmctld.
func (n *Node) PID() int { return n.cmd.Process.Pid }

// Started says whether it was started.
func (n *Node) Started() bool { return n.cmd != nil && n.cmd.Process != nil }

// AwaitReady waits until the node is Ready. A node that exits before is an error.
func (n *Node) AwaitReady(limit time.Duration) error {
	select {
	case <-n.Ready:
		return nil
	case <-n.Exited:
		return fmt.Errorf("%s exited with %d at its start", n.Name, n.Status)
	case <-time.After(limit):
		return fmt.Errorf("%s is not Ready within %v", n.Name, limit)
	}
}

// Ended says whether it has exited.
func (n *Node) Ended() bool {
	select {
	case <-n.Exited:
		return true
	default:
		return false
	}
}

func (n *Node) follow(hear func()) {
	hear() // until all that can write has ended
	n.End = time.Now()
	_ = n.cmd.Wait() // its status says the same
	n.Status = n.cmd.ProcessState.Sys().(syscall.WaitStatus).ExitStatus()
	close(n.Exited)
}

func (n *Node) hear(line string) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.log = append(n.log, line)
	closeOn(n.Ready, strings.Contains(line, `"state":"Ready"`))
	closeOn(n.Waiting, strings.Contains(line, `"reason":"jobs run on it"`))
}

// closeOn closes a channel once.
func closeOn(c chan struct{}, is bool) {
	select {
	case <-c:
	default:
		if is {
			close(c)
		}
	}
}

// EndedWell: its agent ended with status 0. slurmd 24.11 says "Shutting down" at times, and hangs: an agent that does not find
// that on slurmd's socket kills it when half of the grace period is over, says so, and ends with 137.
func (n *Node) EndedWell() bool {
	if n.Status == 0 {
		return true
	}
	said := strings.Join(n.Log(), "\n")
	return n.Status == 128+int(unix.SIGKILL) && strings.Contains(said, "slurmd version 24.11") &&
		strings.Contains(said, "the daemon did not stop in time and was killed")
}

// Log is what the agent and slurmd have said.
func (n *Node) Log() []string {
	n.lock.Lock()
	defer n.lock.Unlock()
	return append([]string(nil), n.log...)
}

// Terminate sends SIGTERM, as the kubelet does when a pod is deleted.
func (n *Node) Terminate() error {
	if err := n.cmd.Process.Signal(unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("cannot terminate %s: %w", n.Name, err)
	}
	return nil
}
