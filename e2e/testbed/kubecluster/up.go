package kubecluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/fabric"
	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/node"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/guest"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/launcher"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
)

// Up makes a bed: all nodes are Ready, and cluster DNS and volumes are there.
// What it made of one that fails it removes again.
func Up(ctx context.Context, options Options) (*Bed, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	if err := beds.Free(options.Name, Down); err != nil {
		return nil, err
	}
	b := &Bed{options: options, dir: beds.Path(options.Name)}
	if err := b.up(ctx); err != nil {
		err = fmt.Errorf("%w\n%s", err, b.consoleTails())
		return nil, errors.Join(err, b.Down())
	}
	return b, nil
}

func (b *Bed) up(ctx context.Context) error {
	its, err := b.parts(ctx)
	if err != nil {
		return err
	}
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("cannot listen for the API's clients: %v", err)
	}
	defer door.Close() // the launcher has it then
	b.settings = fabric.Settings{Name: b.options.Name, Binary: b.options.Binary, Programs: its.programs, Port: door.Addr().(*net.TCPAddr).Port}
	for i := range b.options.Nodes {
		b.settings.Nodes = append(b.settings.Nodes, fmt.Sprintf("kube-%d", i+1))
	}
	if err := b.prepare(its); err != nil {
		return err
	}
	if b.options.With != 0 {
		if b.guard, err = launcher.StartGuard(exec.Command(b.options.Binary, VerbGuard, b.options.Name), b.dir, b.options.With); err != nil {
			return err
		}
	}
	if err := b.makeDisk(ctx, its.programs); err != nil {
		return err
	}
	b.options.Progress("starting the control plane and %d nodes (%d CPUs, %d MiB each)", b.options.Nodes, b.options.CPUs, b.options.Memory)
	if err := b.launch(ctx, door.(*net.TCPListener)); err != nil {
		return err
	}
	for _, name := range b.Nodes() {
		if err := b.PowerOn(ctx, name); err != nil {
			return err
		}
	}
	return b.settle(ctx)
}

// ingredients are what a bed is made of.
type ingredients struct{ programs, debian, kernel string }

// Install builds what a bed is made of, as far as the cache lacks it.
func Install(ctx context.Context, progress func(string, ...any)) error {
	_, err := (&Bed{options: Options{Progress: progress}}).parts(ctx)
	return err
}

// InstallNode builds of that the nodes' root file system alone.
func InstallNode(ctx context.Context, progress func(string, ...any)) error {
	_, err := parts.Node(ctx, progress)
	return err
}

func (b *Bed) parts(ctx context.Context) (i ingredients, err error) {
	if i.kernel, err = parts.Kernel(ctx, b.options.Progress); err != nil {
		return i, err
	}
	if i.debian, err = parts.Node(ctx, b.options.Progress); err != nil {
		return i, err
	}
	i.programs, err = parts.Kube(ctx, b.options.Progress)
	return i, err
}

// prepare writes the bed's directory, and the boot directory of each node.
func (b *Bed) prepare(its ingredients) error {
	for _, dir := range []string{fabric.PKI, fabric.Logs, fabric.Volumes} {
		if err := os.MkdirAll(filepath.Join(b.dir, dir), 0o755); err != nil {
			return fmt.Errorf("cannot prepare Kubernetes: %v", err)
		}
	}
	if err := b.settings.Write(b.dir); err != nil {
		return err
	}
	if _, err := remote.MakeKeys(b.dir); err != nil {
		return err
	}
	known, err := b.makePKI()
	if err != nil {
		return err
	}
	for i := range b.Nodes() {
		if err := b.prepareNode(i, its, known[i]); err != nil {
			return err
		}
	}
	return nil
}

// prepareNode writes what is the first root of the node's guest.
func (b *Bed) prepareNode(i int, its ingredients, s node.Settings) error {
	s.Name = b.Nodes()[i]
	boot, logs := fabric.Boot(b.dir, s.Name), filepath.Join(b.Logs(), s.Name)
	for _, dir := range []string{boot, logs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("cannot prepare node %s: %v", s.Name, err)
		}
	}
	s.Disk = filepath.Join(b.dir, fabric.Disk)
	s.Guest, s.Kernel, s.CPUs, s.Memory = true, its.kernel, b.options.CPUs, b.options.Memory
	s.Debian, s.Programs, s.Logs, s.Volumes = its.debian, its.programs, logs, filepath.Join(b.dir, fabric.Volumes)
	s.Address, s.Gateway, s.Pods = fabric.Address(i), fabric.Gateway, fabric.Pods(i)
	if err := s.Write(boot); err != nil {
		return err
	}
	if err := remote.CopyKeys(b.dir, boot); err != nil {
		return err
	}
	return guest.Prepare(boot, b.options.Binary, node.Init)
}

// launchLimit is how long the bed's own server may take to answer.
const launchLimit = 30 * time.Second

// launch starts the launcher with the listener for the API, and waits for it.
func (b *Bed) launch(ctx context.Context, door *net.TCPListener) error {
	file, err := door.File()
	if err != nil {
		return fmt.Errorf("cannot hand over the API's listener: %v", err)
	}
	defer file.Close()
	cmd := exec.Command(b.options.Binary, VerbFabric, b.dir)
	cmd.ExtraFiles = []*os.File{file}
	if b.launcher, err = launcher.Start(cmd, b.dir, b.Console()); err != nil {
		return err
	}
	// The kernel shares the time among sessions (sched(7), autogroup), and this one is all of Kubernetes: beside twenty
	// clusters of Slurm an API server gave up TLS handshakes after their 10 s. Only root may do this, and not every kernel
	// has autogroups.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", b.launcher.PID), []byte("-5"), 0)
	limit := time.After(launchLimit)
	for {
		err := b.connect(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-b.launcher.Ended:
			return errors.New("the bed ended while it started")
		case <-limit:
			return fmt.Errorf("no answer from the bed in %v: %v", launchLimit, err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// consoleTails are the last of what the bed and its nodes said, for an error.
func (b *Bed) consoleTails() string {
	all := []string{b.Console()}
	for _, name := range b.settings.Nodes {
		all = append(all, fabric.Boot(b.dir, name)+".console", filepath.Join(b.Logs(), name, "kubelet.log"))
	}
	var out strings.Builder
	for _, file := range append(all, filepath.Join(b.Logs(), "kube-apiserver.log")) {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Fprintf(&out, "%s:\n%s\n", file, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	return out.String()
}
