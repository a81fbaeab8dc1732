package native

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/pace"
)

// Cluster is a real slurmctld in a root file system of its own.
type Cluster struct {
	// Root is a layer over that of Slurm's version; it is thrown away in the end.
	Root  string
	Nodes []*Node
	// Slurmctld is the process of slurmctld, once it was started.
	Slurmctld *exec.Cmd
}

// Options are what makes one cluster differ from another.
type Options struct {
	// Lower is the root file system with Slurm, Slurmlet the agent's binary.
	Lower, Slurmlet string
	// Nodes is how many there can be; they have names n1, n2 and so on. Names begins others; empty: n.
	Nodes int
	Names string
	// Aliases are further names of slurmctld's machine.
	Aliases []string
	// SlurmConf is lines of slurm.conf, besides those of every cluster.
	SlurmConf string
	// IPv6: nodes have no address of another family, and names none either.
	IPv6 bool
}

// slurmID is the user slurm of the root file systems.
const slurmID = 64030

const slurmConf = `ClusterName=native
SlurmctldHost=` + Host + `
SlurmUser=slurm
AuthType=auth/slurm
CredType=cred/slurm
AuthInfo=use_client_ids
StateSaveLocation=/run/slurmctld/state
SlurmdSpoolDir=/run/spool
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
PartitionName=all Nodes=ALL Default=yes State=UP
`

// NewCluster lays the files out; Control starts slurmctld.
func NewCluster(o Options) (*Cluster, error) {
	c := &Cluster{Root: filepath.Join(Scratch, "root")}
	for i := range o.Nodes {
		c.Nodes = append(c.Nodes, newNode(cmp.Or(o.Names, "n"), i))
	}
	if o.IPv6 {
		o.SlurmConf += "CommunicationParameters=EnableIPv6\n"
		for i, n := range c.Nodes {
			n.IP = net.ParseIP(fmt.Sprintf("fd88::1:%x", i+1))
		}
		if err := network6(); err != nil {
			return nil, err
		}
	}
	if err := Layer(c.Root, o.Lower); err != nil {
		return nil, err
	}
	return c, c.configure(o)
}

// Layer puts a file system over lower, at root, that is thrown away in the end. Its
// /sys has no cgroups: slurmlet would prepare the machine's.
func Layer(root, lower string) error {
	upper, work := root+".upper", root+".work"
	for _, dir := range []string{root, upper, work} {
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
			return fmt.Errorf("cannot make a layer: %w", err)
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, upper, work)
	for _, m := range []mount{
		{"overlay", "", 0, options},
		{"proc", "proc", 0, ""},
		{"sysfs", "sys", unix.MS_RDONLY, ""},
		{"tmpfs", "run", 0, "mode=755"},
		{"tmpfs", "tmp", 0, ""},
	} {
		m.target = filepath.Join(root, m.target)
		if err := m.mount(); err != nil {
			return err
		}
	}
	if err := unix.Mount("/dev", filepath.Join(root, "dev"), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("cannot mount /dev: %w", err)
	}
	return nil
}

func (c *Cluster) configure(o Options) error {
	program, err := os.ReadFile(o.Slurmlet)
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
		{"etc/hosts", 0o644, []byte(c.hosts(o))},
		{"etc/nsswitch.conf", 0o644, []byte("passwd: files\ngroup: files\nhosts: files\n")}, // slurmd waits 5 s for a DNS server that is not there
		{"etc/slurm/slurm.conf", 0o644, []byte(slurmConf + o.SlurmConf)},
		{"etc/slurm/cgroup.conf", 0o644, []byte("CgroupPlugin=disabled\n")},
		{"etc/slurm/slurm.key", 0o600, key},
	} {
		if err := os.WriteFile(filepath.Join(c.Root, f.path), f.bytes, f.mode); err != nil {
			return fmt.Errorf("cannot configure Slurm: %w", err)
		}
	}
	err = os.MkdirAll(filepath.Join(c.Root, "run/slurmctld/state"), 0o755)
	for _, path := range []string{"etc/slurm/slurm.key", "run/slurmctld", "run/slurmctld/state"} {
		err = errors.Join(err, os.Chown(filepath.Join(c.Root, path), slurmID, slurmID))
	}
	if err != nil {
		return fmt.Errorf("cannot configure Slurm: %w", err)
	}
	return nil
}

func (c *Cluster) hosts(o Options) string {
	var text strings.Builder
	own := Address
	if o.IPv6 {
		own = address6
	}
	fmt.Fprintf(&text, "127.0.0.1 localhost\n%s %s %s\n", own, Host, strings.Join(o.Aliases, " "))
	for _, n := range c.Nodes {
		fmt.Fprintf(&text, "%s %s\n", n.IP, n.Name)
	}
	return text.String()
}

// Control starts slurmctld and waits until it answers; heard gets its lines.
func (c *Cluster) Control(heard func(line string)) error {
	cmd := c.Command("/usr/sbin/slurmctld", "-D")
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: slurmID, Gid: slurmID}
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("cannot start slurmctld: %w", err)
	}
	c.Slurmctld = cmd
	go lines(said, heard)
	return c.answers()
}

// ControlBySlurmlet starts slurmctld under its agent and waits until it answers.
// Its sources are edited in dir, a path in the cluster's root; heard gets the agent's
// lines.
func (c *Cluster) ControlBySlurmlet(dir string, heard func(line string), environ ...string) error {
	cmd := c.Command("/usr/bin/slurmlet", "slurmctld")
	cmd.Env = append(cmd.Env, append([]string{"SLURMLET_CONF_SOURCES=" + dir, "SLURMLET_STATE_DIR=/run/slurmctld/state"}, environ...)...)
	said, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("cannot start slurmctld's agent: %w", err)
	}
	c.Slurmctld = cmd
	go lines(said, heard)
	return c.answers()
}

func (c *Cluster) answers() error {
	return Within(Limit, "slurmctld does not answer", func() bool {
		out, err := c.Command("/usr/bin/scontrol", "ping").Output()
		return err == nil && strings.Contains(string(out), "UP")
	})
}

func lines(from io.Reader, to func(string)) {
	for scan := bufio.NewScanner(from); scan.Scan(); {
		to(scan.Text())
	}
	_, _ = io.Copy(io.Discard, from) // a line that is too long shall not block who says it
}

// Command is one in the cluster's root, beside slurmctld.
func (c *Cluster) Command(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.Root}
	return cmd
}

// Close ends what runs, in this cluster and beside it; the place of the file
// system is the next cluster's.
func (c *Cluster) Close() error {
	if err := KillAll(); err != nil {
		return err
	}
	if c.Slurmctld != nil {
		_ = c.Slurmctld.Wait() // the next one needs its ports
	}
	if err := unix.Unmount(c.Root, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("cannot unmount %s: %w", c.Root, err)
	}
	return nil
}

const (
	// Limit bounds every wait for something that takes seconds at most on an idle machine. It is for one where a dozen
	// clusters share less than a processor.
	Limit = 3 * time.Minute
	// Whole bounds a whole test of some minutes.
	Whole = 15 * time.Minute
)

// Within waits for good. A question to Slurm takes a processor: three times as long as it took passes until the next.
func Within(limit time.Duration, complaint string, good func() bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for began := time.Now(); ; {
		asked := time.Now()
		if good() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s within %v", complaint, limit)
		case <-time.After(pace.Pause(began, asked)):
		}
	}
}
