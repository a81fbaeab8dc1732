//go:build e2e

// Package peers has real clusters without any name service: no hosts file has the name of another machine,
// but what the agents put there. It runs on this machine's own kernel (e2e/testbed/native).
package peers

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slurmlet/slurmlet/e2e/fakecontroller"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

func TestMain(m *testing.M) { native.TestMain(m, inside) }

// TestPeers has nodes that find slurmctld and one another by the stream alone.
func TestPeers(t *testing.T) {
	native.EachVersion(t, func(t *testing.T, g native.Given) { native.Play(t, native.Whole, g) })
}

const sources = "/run/sources"

// world is a cluster whose machines hear of one another by the peers' stream alone.
type world struct {
	*native.Cluster
	settings native.Given
	server   *fakecontroller.Server
	lock     sync.Mutex
	log      []string
}

func inside(s native.Given) (err error) {
	cluster, err := native.NewCluster(native.Options{Lower: s.Root, Slurmlet: s.Slurmlet, Nodes: 3, SlurmConf: "SlurmctldParameters=enable_configless\nMaxNodeCount=16\n"})
	if err != nil {
		return err
	}
	w := &world{Cluster: cluster, settings: s}
	defer func() {
		if err != nil {
			w.explain()
		}
		err = errors.Join(err, w.Close())
	}()
	if w.server, err = fakecontroller.Start(nil); err != nil {
		return err
	}
	if err := w.forgetNames(); err != nil {
		return err
	}
	return w.play(s.Version)
}

// forgetNames leaves every machine its own name.
func (w *world) forgetNames() error {
	return errors.Join(
		os.WriteFile(filepath.Join(w.Root, "etc/hosts"), []byte("127.0.0.1 localhost\n"+native.Address+" "+native.Host+"\n"), 0o644),
		os.WriteFile(filepath.Join(w.Root, "etc/hosts.pod"), []byte("127.0.0.1 localhost\n"), 0o644),
	)
}

// put has the agents know of a machine's pod. slurmctld's has a UID of its own.
func (w *world) put(name, is, addr string) error {
	uid := name
	if name == native.Host {
		uid = fakecontroller.Slurmctld
	}
	return w.server.Tell(wire.Peer{Name: name, UID: uid, Role: role.Role(is)}, net.ParseIP(addr))
}

func (w *world) hear(line string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.log = append(w.log, line)
}

// play: the nodes wait for a slurmctld that nobody can find, find it when the table has it, and run a
// job of three nodes, whose steps one of them launches on the others by their names. The controller knows which files
// slurmctld's agent has.
func (w *world) play(version string) error {
	if err := w.control(); err != nil {
		return err
	}
	for _, n := range w.Nodes {
		environ, err := w.server.Admit(w.Root, n.Name)
		if err == nil {
			err = w.Start(n, environ...)
		}
		if err != nil {
			return err
		}
	}
	if err := native.Within(native.Limit, "an agent has no stream", func() bool { return w.server.Stats().Streams == 4 }); err != nil {
		return err
	}
	if out, err := w.Command("/usr/bin/sinfo", "--noheader").Output(); err != nil || strings.Contains(string(out), "n1") {
		return fmt.Errorf("a node has found slurmctld, which nobody has told it of: %s %w", out, err)
	}
	began := time.Now()
	err := w.put(native.Host, "slurmctld", native.Address)
	for _, n := range w.Nodes {
		err = errors.Join(err, w.put(n.Name, "slurmd", n.IP.String()))
	}
	if err != nil {
		return err
	}
	for _, n := range w.Nodes {
		if err := n.AwaitReady(native.Limit); err != nil {
			return err
		}
	}
	fmt.Printf("Slurm %s: three nodes are Ready %v after the table had slurmctld\n", version, time.Since(began).Round(time.Millisecond))

	const names = "ctl n1 n2 n3"
	script := "#!/bin/sh\nsrun --label sh -c 'for name in " + names + "; do getent hosts $name > /dev/null && echo $name; done'\n"
	if err := os.WriteFile(filepath.Join(w.Root, "srv/job.sh"), []byte(script), 0o755); err != nil {
		return err
	}
	if out, err := w.Command("/usr/bin/sbatch", "--wait", "--nodes=3", "--ntasks-per-node=1", "--output=/srv/out", "--chdir=/", "/srv/job.sh").CombinedOutput(); err != nil {
		said, _ := os.ReadFile(filepath.Join(w.Root, "srv/out"))
		return fmt.Errorf("a job of three nodes fails: %w: %s%s", err, out, said)
	}
	said, err := os.ReadFile(filepath.Join(w.Root, "srv/out"))
	for task := range 3 {
		for name := range strings.FieldsSeq(names) {
			if line := fmt.Sprintf("%d: %s\n", task, name); !strings.Contains(string(said), line) {
				err = errors.Join(err, fmt.Errorf("task %d does not resolve %s:\n%s", task, name, said))
			}
		}
	}
	return errors.Join(err, w.edit())
}

// edit changes a file of slurm.conf's directory, and waits until the agent has reported it.
func (w *world) edit() error {
	dir := filepath.Join(w.Root, sources)
	if err := os.WriteFile(filepath.Join(dir, "gres.conf"), []byte("# none\n"), 0o600); err != nil {
		return err
	}
	files, err := confset.Texts(dir)
	if err != nil {
		return err
	}
	want, began := confset.TextsDigest(files), time.Now()
	if err := native.Within(native.Limit, "the edit is not reported", func() bool { return w.server.Conf() == want }); err != nil {
		return err
	}
	fmt.Printf("Slurm %s: the controller knows of the edit after %v\n", w.settings.Version, time.Since(began).Round(time.Millisecond))
	return nil
}

// control starts slurmctld.
func (w *world) control() error {
	dir := filepath.Join(w.Root, sources)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"slurm.conf", "cgroup.conf", "slurm.key"} {
		text, err := os.ReadFile(filepath.Join(w.Root, "etc/slurm", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			return err
		}
	}
	environ, err := w.server.Admit(w.Root, fakecontroller.Slurmctld)
	if err != nil {
		return err
	}
	return w.ControlBySlurmlet(sources, w.hear, environ...)
}

func (w *world) explain() {
	w.lock.Lock()
	defer w.lock.Unlock()
	fmt.Println(strings.Join(w.log, "\n"))
	for _, n := range w.Nodes {
		fmt.Printf("%s:\n%s\n", n.Name, strings.Join(n.Log(), "\n"))
	}
}
