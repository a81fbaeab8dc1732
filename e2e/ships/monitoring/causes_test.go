//go:build e2e

package monitoring

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/kit/keyring"
)

// killSlurmd kills each slurmd of a node that its agent starts, as often as the alert wants.
func (c *cluster) killSlurmd() error {
	agent, killed := c.Nodes[drained].PID(), []int{}
	for range 4 {
		pid := 0
		err := native.Within(native.Limit, "there is no other slurmd", func() bool {
			pids := slices.DeleteFunc(native.Children(agent), func(pid int) bool { return native.NameOf(pid) != "slurmd" || slices.Contains(killed, pid) })
			if len(pids) > 0 {
				pid = pids[0]
			}
			return pid != 0
		})
		if err == nil {
			err = unix.Kill(pid, unix.SIGKILL)
		}
		if err != nil {
			return err
		}
		killed = append(killed, pid)
	}
	return nil
}

// mislabel gives the pods a feature that is no word.
func (c *cluster) mislabel() error {
	return os.WriteFile(filepath.Join(c.Root, "etc/podinfo/annotations"), []byte("slurmlet.dev/features=\"cpu,a b\"\n"), 0o644)
}

// oddConf is the node's directory of keys, a path in the cluster's root.
const oddConf = "/srv/odd"

// startOddNode: the key is the cluster's by another name, and nobody rotates it. Its root has no slurmlet-container.
func (c *cluster) startOddNode() error {
	key, err := keyring.NewKey("old.key", c.files["slurm.key"], time.Now().Add(72*time.Hour))
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(c.Root, oddConf), 0o755); err != nil {
		return err
	}
	if err := c.writeOddKey(key); err != nil {
		return err
	}
	return c.Start(c.Nodes[odd], "SLURMLET_CONF_DIR="+oddConf, "SLURMLET_PODINFO_DIR="+oddConf, "SLURMLET_GRACE_PERIOD=30s",
		"SLURMLET_JOB_CONTAINERS=/usr/local/bin/slurmlet-container")
}

func (c *cluster) writeOddKey(key keyring.Key) error {
	text, err := (&keyring.Ring{Keys: []keyring.Key{key}}).MarshalJWKS()
	if err != nil {
		return err
	}
	path := filepath.Join(c.Root, oddConf, keyring.JWKSFile)
	return errors.Join(os.WriteFile(path+".new", text, 0o600), os.Rename(path+".new", path))
}

// replaceKey: nobody would understand what this key signs.
func (c *cluster) replaceKey() error {
	key, err := keyring.NewKey("new.key", []byte(strings.Repeat("another secret", 3)), time.Time{})
	if err != nil {
		return err
	}
	return c.writeOddKey(key)
}

// shrinkDisk: slurmd registers the disk anew with the next edit.
func (c *cluster) shrinkDisk() error {
	agent := strconv.Itoa(c.Nodes[drained].PID())
	cmd := exec.Command("nsenter", "--mount=/proc/"+agent+"/ns/mnt", "--root=/proc/"+agent+"/root", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/tmp")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot shrink a disk: %w: %s", err, out)
	}
	return nil
}

const sshdConfig = "/srv/sshd_config"

func (c *cluster) startDeafLogin() error {
	if err := os.WriteFile(filepath.Join(c.Root, sshdConfig), []byte("ListenAddress 192.0.2.1\n"), 0o644); err != nil {
		return err
	}
	return c.Start(c.Nodes[login], "SLURMLET_SSHD_CONFIG="+sshdConfig, "SLURMLET_SSH_HOST_KEYS=/run/ssh")
}

// writeProtect makes an edit, too, which goes live and cannot be kept.
func (c *cluster) writeProtect() error {
	dir := filepath.Join(c.Root, "run/slurmctld/state/slurmlet")
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot write-protect the last good configuration: %w", err)
	}
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("cannot write-protect the last good configuration: %w", err)
	}
	return c.edit("MailDomain=third", "cannot keep")
}

// crowd: slurmctld tells slurmd of each job, and waits for an answer that does not come.
func (c *cluster) crowd() error {
	n := c.Nodes[crowded]
	if err := signal(n.PID(), "slurmd", unix.SIGSTOP); err != nil {
		return err
	}
	return c.run(sbatch("--partition=crowd", "--mem=1", "--array=1-320", "--nodelist="+n.Name)...)
}

// signal is sent to a daemon that is a child of its agent.
func signal(agent int, daemon string, signal unix.Signal) error {
	for _, pid := range native.Children(agent) {
		if native.NameOf(pid) == daemon {
			return unix.Kill(pid, signal)
		}
	}
	return fmt.Errorf("there is no %s", daemon)
}

// editPastOne: the edit is live after as long as the nodes may take.
func (c *cluster) editPastOne() error {
	return c.edit("MailDomain=fourth", "the configuration is live")
}

func (c *cluster) loseCrowd() error { return c.lose(crowded) }
func (c *cluster) loseZone() error  { return c.lose(0, faulty, deleted) }

// lose has machines go with all that they run, and an administrator tells slurmctld of them. With ReturnToService=2
// slurmctld takes a node back when it comes to an answer that the node gave before, so he looks again for a while.
func (c *cluster) lose(machines ...int) error {
	var names []string
	for _, i := range machines {
		if err := unix.Kill(c.Nodes[i].PID(), unix.SIGKILL); err != nil {
			return err
		}
		names = append(names, c.Nodes[i].Name)
	}
	all, told := strings.Join(names, ","), time.Time{}
	return native.Within(native.Limit, "slurmctld does not keep nodes DOWN", func() bool {
		out, err := c.Command("/usr/bin/scontrol", "--oneliner", "show", "node", all).Output()
		if err != nil || strings.Count(string(out), " State=DOWN") < len(names) {
			told = time.Now()
			_ = c.run("/usr/bin/scontrol", "update", "nodename="+all, "state=down", "reason=the machine has no power") // it is looked at again
		}
		return time.Since(told) > 2*time.Second
	})
}

// hang ends with the pod, which cannot take its node out of service.
func (c *cluster) hang() error {
	agent := c.Slurmctld.Process.Pid
	if err := errors.Join(signal(agent, "slurmctld", unix.SIGSTOP), c.Nodes[odd].Terminate()); err != nil {
		return err
	}
	select {
	case <-c.Nodes[odd].Exited:
		return signal(agent, "slurmctld", unix.SIGCONT)
	case <-time.After(time.Minute):
		return fmt.Errorf("%s does not end", c.Nodes[odd].Name)
	}
}

// loseSlurmctld kills slurmctld, too, whose agent has no namespace of processes here.
func (c *cluster) loseSlurmctld() error {
	slurmctld := slices.DeleteFunc(native.Children(c.Slurmctld.Process.Pid), func(pid int) bool { return native.NameOf(pid) != "slurmctld" })
	err := c.Slurmctld.Process.Kill() // the agent first, which would start slurmctld again
	for _, pid := range slurmctld {
		err = errors.Join(err, unix.Kill(pid, unix.SIGKILL))
	}
	_ = c.Slurmctld.Wait() // it was killed
	return err
}

// killSlurmctld has Prometheus see each of the agents that come.
func (c *cluster) killSlurmctld() error {
	for range 3 {
		at := time.Now()
		if err := errors.Join(c.loseSlurmctld(), c.control(), c.seen(at)); err != nil {
			return err
		}
	}
	return nil
}
