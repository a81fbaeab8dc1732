// Package kubecluster is a small Kubernetes cluster on one machine, made of the
// real parts: etcd, the API server, the controller manager, the scheduler and
// CoreDNS in a network of their own, and nodes with containerd, runc, kubelet
// and kube-proxy. A node is a User-Mode-Linux guest, so pods have real limits
// (cgroup v2), and a power cut, a pulled cable and a lost kubelet are real too.
//
// A bed is a process (its launcher) with namespaces of its own, and a directory
// below Dir. It outlives the program that made it, until Down, unless Options.With says
// otherwise.
package kubecluster

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/fabric"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/launcher"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
)

// Bed is one that is up.
type Bed struct {
	options  Options
	dir      string
	settings fabric.Settings
	keys     remote.Keys
	launcher *launcher.Launcher
	guard    *launcher.Guard
	client   *remote.Client
}

// Dir holds a directory for every bed.
const Dir = "/run/slurmlet-kube"

var beds = launcher.Kind{Dir: Dir, What: "Kubernetes", Up: "kube-up", Down: "kube-down"}

// The parts of `slurmlet-sandbox` that a bed starts again.
const (
	VerbFabric = "launch-kube"
	VerbNode   = fabric.VerbNode
	VerbGuard  = "guard-kube"
)

// RunGuard removes a bed when the process that Options.With named has ended.
func RunGuard(name string) int {
	return launcher.RunGuard(beds.Path(name), func() error { return Down(name) })
}

// Open finds a bed that is up.
func Open(ctx context.Context, name string) (*Bed, error) {
	b := &Bed{options: Options{Name: name, Progress: silent}, dir: beds.Path(name)}
	if err := b.find(); err != nil {
		return nil, err
	}
	if !b.launcher.Alive() {
		return nil, beds.Absent(name)
	}
	return b, b.connect(ctx)
}

// Down ends a bed and everything in it, also one that is only half there.
func Down(name string) error {
	if !beds.Has(name) {
		return beds.Absent(name)
	}
	b := &Bed{options: Options{Name: name}, dir: beds.Path(name)}
	if err := b.find(); err != nil {
		return err
	}
	return b.Down()
}

// Down ends the bed and everything in it.
func (b *Bed) Down() error {
	b.Close()
	b.guard.Stop()
	if err := b.launcher.Kill(); err != nil {
		return err
	}
	return beds.Remove(b.options.Name)
}

// Close ends this program's connection; the bed stays up.
func (b *Bed) Close() {
	if b.client != nil {
		b.client.Close()
		b.client = nil
	}
}

// Nodes are the nodes' names.
func (b *Bed) Nodes() []string { return b.settings.Nodes }

// Network is the file of the network namespace in which the control plane listens, at fabric.Gateway: machines and pods
// reach what else listens there.
func (b *Bed) Network() string { return fmt.Sprintf("/proc/%d/ns/net", b.launcher.PID) }

// Logs is the directory with what the control plane has written; Log of a node
// is beside it.
func (b *Bed) Logs() string { return filepath.Join(b.dir, fabric.Logs) }

// Console is the file with what the bed itself says.
func (b *Bed) Console() string { return filepath.Join(b.dir, "console.log") }

// Traces are taken while a bed is up, to be looked at after Down.
func (b *Bed) Traces() launcher.Traces { return b.launcher.Traces(b.dir) }

func (b *Bed) find() (err error) {
	if b.launcher, err = launcher.Read(b.dir); err != nil || b.launcher == nil {
		return err
	}
	b.settings, err = fabric.Read(b.dir)
	return err
}

const greetingLimit = 10 * time.Second

// connect greets the bed's server, once.
func (b *Bed) connect(ctx context.Context) (err error) {
	if b.keys, err = remote.ReadKeys(b.dir); err != nil {
		return err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", filepath.Join(b.dir, fabric.Socket))
	if err != nil {
		return fmt.Errorf("cannot reach Kubernetes %q: %v", b.options.Name, err)
	}
	b.client, err = remote.NewClient(conn, b.keys, greetingLimit)
	return err
}
