package main

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// registrations are how long a node takes from its start to its registration.
type registrations struct {
	plain, systemd, slurmlet samples // milliseconds: slurmd -D, slurmd --systemd, slurmlet slurmd
}

// pause lets slurmctld come to rest between two runs.
const pause = 50 * time.Millisecond

func (c *cluster) measureRegistrations() (registrations, error) {
	var r registrations
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(c.Root, "run/notify.sock"), Net: "unixgram"})
	if err != nil {
		return r, fmt.Errorf("cannot listen for notifications: %w", err)
	}
	defer notify.Close()
	go discard(notify)
	for round := range todo.slurm + 1 {
		if round%5 == 0 {
			native.Progress("Slurm %s, start to IDLE: round %d of %d", c.version, round, todo.slurm)
		}
		for _, kind := range []struct {
			samples *samples
			command *exec.Cmd
		}{{&r.plain, c.slurmd("-D")}, {&r.systemd, c.slurmd("--systemd")}, {&r.slurmlet, c.slurmlet()}} {
			took, err := c.register(kind.command)
			if err != nil {
				return r, fmt.Errorf("%v: %w", kind.command.Args, err)
			}
			if round > 0 { // the first warms the caches
				kind.samples.add(took)
			}
		}
	}
	return r, nil
}

// discard takes notifications; the kernel closes the files in them, which is
// what a barrier's sender waits for.
func discard(notify *net.UnixConn) {
	for {
		if _, err := notify.Read(make([]byte, 4096)); err != nil {
			return
		}
	}
}

func (c *cluster) slurmd(mode string) *exec.Cmd {
	cmd := c.Command("/usr/sbin/slurmd", mode, "-Z", "-N", node, "-b", "--conf-server", native.Host+":6817", "--conf", "CPUs=1 RealMemory=300")
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET=/run/notify.sock")
	return cmd
}

// slurmlet has the limits that make it give slurmd the same --conf.
func (c *cluster) slurmlet() *exec.Cmd {
	cmd := c.Command("/usr/bin/slurmlet", "slurmd")
	cmd.Env = append(cmd.Env, "SLURMLET_SLURMCTLD="+native.Host, "SLURMLET_NODE_NAME="+node,
		"SLURMLET_CPU_LIMIT=1000", "SLURMLET_MEMORY_LIMIT=364Mi",
		"SLURMLET_SPOOL_DIR=/run/spool", "SLURMLET_AGENT_PORT=0", "SLURMLET_GRACE_PERIOD=10m",
		"SLURMLET_CGROUP=off") // the cgroups here are the machine's
	return cmd
}

// register runs a node from its start to its registration, and makes slurmctld
// forget it.
func (c *cluster) register(cmd *exec.Cmd) (time.Duration, error) {
	took, err := c.start(cmd)
	if err != nil {
		return 0, err
	}
	time.Sleep(pause)
	return took, errors.Join(c.deleteRecord(), stop(cmd))
}

// start starts a node and waits until it has registered.
func (c *cluster) start(cmd *exec.Cmd) (time.Duration, error) {
	time.Sleep(pause)
	c.forgetRegistrations()
	began := now()
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("cannot start: %w", err)
	}
	select {
	case at := <-c.registered:
		return at.sub(began), nil
	case <-time.After(native.Limit):
		return 0, fmt.Errorf("no registration within %v", native.Limit)
	}
}

func (c *cluster) deleteRecord() error {
	return native.Within(native.Limit, "cannot delete the node record", func() bool {
		return c.Command("/usr/bin/scontrol", "delete", "nodename="+node).Run() == nil
	})
}

func (c *cluster) forgetRegistrations() {
	for len(c.registered) > 0 {
		<-c.registered
	}
}

func stop(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		return fmt.Errorf("cannot stop: %w", err)
	}
	var failed *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &failed) {
		return fmt.Errorf("cannot wait for the end: %w", err)
	}
	return nil
}
