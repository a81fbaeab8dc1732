package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cluster is a real slurmctld in a root file system of its own.
type cluster struct {
	root       string
	registered chan moment // when slurmctld has taken the node in
}

// slurmID is the user slurm of the root file systems.
const slurmID = 64030

const node = "n1"

const slurmConf = `ClusterName=bench
SlurmctldHost=` + host + `
SlurmctldDebug=debug2
SlurmUser=slurm
AuthType=auth/slurm
CredType=cred/slurm
AuthInfo=use_client_ids
StateSaveLocation=/run/slurmctld/state
SlurmdSpoolDir=/run/spool
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ReturnToService=2
SlurmctldParameters=enable_configless
MaxNodeCount=16
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
PartitionName=all Nodes=ALL Default=yes State=UP
`

// newCluster starts slurmctld on a layer above lower.
func newCluster(lower, slurmlet string) (*cluster, error) {
	c := &cluster{root: filepath.Join(scratch, "root"), registered: make(chan moment, 16)}
	if err := c.layer(lower); err != nil {
		return nil, err
	}
	if err := c.configure(slurmlet); err != nil {
		return nil, err
	}
	return c, c.control()
}

// layer puts a file system over lower that is thrown away in the end. Its /sys
// has no cgroups: slurmlet would prepare the machine's.
func (c *cluster) layer(lower string) error {
	upper := filepath.Join(scratch, "upper")
	for _, dir := range []string{c.root, upper, filepath.Join(scratch, "work")} {
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
			return fmt.Errorf("cannot make a layer: %w", err)
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s/work", lower, upper, scratch)
	for _, m := range []mount{
		{"overlay", "", 0, options},
		{"proc", "proc", 0, ""},
		{"sysfs", "sys", unix.MS_RDONLY, ""},
		{"tmpfs", "run", 0, "mode=755"},
		{"tmpfs", "tmp", 0, ""},
	} {
		m.target = filepath.Join(c.root, m.target)
		if err := m.mount(); err != nil {
			return err
		}
	}
	if err := unix.Mount("/dev", filepath.Join(c.root, "dev"), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("cannot mount /dev: %w", err)
	}
	return nil
}

func (c *cluster) configure(slurmlet string) error {
	program, err := os.ReadFile(slurmlet)
	if err != nil {
		return fmt.Errorf("cannot read slurmlet: %w", err)
	}
	key := make([]byte, 1024)
	_, _ = rand.Read(key) // it never fails
	for _, f := range []struct {
		path  string
		mode  os.FileMode
		bytes []byte
	}{
		{"usr/bin/slurmlet", 0o755, program},
		{"etc/hosts", 0o644, []byte("127.0.0.1 localhost\n" + address + " " + host + " " + node + "\n")},
		{"etc/slurm/slurm.conf", 0o644, []byte(slurmConf)},
		{"etc/slurm/cgroup.conf", 0o644, []byte("CgroupPlugin=disabled\n")},
		{"etc/slurm/slurm.key", 0o600, key},
	} {
		if err := os.WriteFile(filepath.Join(c.root, f.path), f.bytes, f.mode); err != nil {
			return fmt.Errorf("cannot configure Slurm: %w", err)
		}
	}
	err = os.MkdirAll(filepath.Join(c.root, "run/slurmctld/state"), 0o755)
	for _, path := range []string{"etc/slurm/slurm.key", "run/slurmctld", "run/slurmctld/state"} {
		err = errors.Join(err, os.Chown(filepath.Join(c.root, path), slurmID, slurmID))
	}
	if err != nil {
		return fmt.Errorf("cannot configure Slurm: %w", err)
	}
	return nil
}

// control starts slurmctld and waits until it answers.
func (c *cluster) control() error {
	cmd := c.command("/usr/sbin/slurmctld", "-D")
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: slurmID, Gid: slurmID}
	said, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("cannot start slurmctld: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start slurmctld: %w", err)
	}
	go c.hear(said)
	return within(limit, "slurmctld does not answer", func() bool {
		out, err := c.command("/usr/bin/scontrol", "ping").Output()
		return err == nil && strings.Contains(string(out), "UP")
	})
}

// hear looks for the moment that a registration is complete, which slurmctld
// says on debug2.
func (c *cluster) hear(said io.Reader) {
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "_slurm_rpc_node_registration complete for "+node) {
			select {
			case c.registered <- now():
			default: // nobody waits for it
			}
		}
	}
}

func (c *cluster) command(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.root}
	return cmd
}

// close ends what runs in the cluster by itself at the latest with the
// namespace; the file system is needed for the next cluster.
func (c *cluster) close() error {
	if err := killAll(); err != nil {
		return err
	}
	if err := unix.Unmount(c.root, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("cannot unmount %s: %w", c.root, err)
	}
	return nil
}

// killAll ends every process of the namespace, whose PID 1 we are.
func killAll() error {
	if os.Getpid() != 1 {
		panic("bench: not in a namespace of its own")
	}
	if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cannot end the cluster: %w", err)
	}
	return nil
}

// within waits for good.
func within(limit time.Duration, complaint string, good func() bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for !good() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s within %v", complaint, limit)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}
