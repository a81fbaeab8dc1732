package pod

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Kubelet keeps the pods of one sandbox. Its methods may be called at the same
// time; those for one pod wait for each other.
type Kubelet struct {
	config  Config
	engine  engine
	network *Network
	hosts   *Hosts
	exits   exits
	execs   atomic.Int64

	mu     sync.Mutex
	pods   map[string]*pod
	images map[string]string // a host's directory: where it is mounted here
}

// Config is what a Kubelet stands on.
type Config struct {
	// Dir holds everything it writes.
	Dir string
	// Cgroup is the path below the cgroup2 mount point that PrepareCgroup was given.
	Cgroup string
	// NoLimits: pods run without the limits that they ask for.
	NoLimits bool
	// MountHost brings a directory of the host's to a directory here, read-only.
	MountHost func(dir, at string) error
	// Event is told what happens without being asked for.
	Event func(format string, args ...any)
}

// pod is a Spec that came true. mu serialises what is done to it.
type pod struct {
	mu       sync.Mutex
	spec     Spec
	ip       string
	netns    string
	restarts int
	stopping chan struct{} // closed by Delete

	// current guards the newest container for those who only look.
	current sync.Mutex
	newest  *container
}

// NewKubelet makes the bridge and the hosts file.
func NewKubelet(config Config) (*Kubelet, error) {
	for _, dir := range []string{"pods", "shared", "images"} {
		if err := os.MkdirAll(filepath.Join(config.Dir, dir), 0o755); err != nil {
			return nil, fmt.Errorf("cannot make pods: %v", err)
		}
	}
	if err := os.WriteFile(filepath.Join(config.Dir, "resolv.conf"), nil, 0o644); err != nil {
		return nil, fmt.Errorf("cannot make pods: %v", err)
	}
	hosts, err := NewHosts(filepath.Join(config.Dir, "hosts"))
	if err != nil {
		return nil, err
	}
	network, err := NewNetwork(filepath.Join(config.Dir, "netns"))
	if err != nil {
		return nil, err
	}
	return &Kubelet{config: config, engine: runc{}, network: network, hosts: hosts, pods: map[string]*pod{}, images: map[string]string{}}, nil
}

// Reaped tells of a process that ended and was reaped: a container's PID 1 is
// nobody's child but this process's.
func (k *Kubelet) Reaped(pid int, status unix.WaitStatus) { k.exits.reaped(pid, status) }

// Create makes a pod and starts it.
func (k *Kubelet) Create(spec Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	if k.config.NoLimits {
		spec.CPU, spec.CPUSet, spec.Memory, spec.Swap, spec.OOMGroup = 0, "", 0, 0, false
		spec.OOMScoreAdj = 0 // to lower it takes CAP_SYS_RESOURCE, which a machine's root need not have
	}
	p := &pod{spec: spec, stopping: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := k.add(p); err != nil {
		return err
	}
	err := k.connect(p)
	if err == nil {
		err = k.start(p)
	}
	if err != nil {
		return errors.Join(err, k.forget(p))
	}
	return nil
}

// Delete ends a pod as the kubelet does: SIGTERM, and SIGKILL after the grace
// period. It returns when nothing is left of it, and how its container ended.
func (k *Kubelet) Delete(name string, grace time.Duration) (last Status, err error) {
	p, err := k.pod(name)
	if err != nil {
		return last, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.stopping:
		return last, fmt.Errorf("cannot delete pod %s: it was just deleted", name)
	default:
		close(p.stopping)
	}
	if c := p.container(); c != nil {
		if err := c.stop(grace); err != nil {
			return last, err
		}
		last = k.status(p, c)
	}
	return last, k.forget(p)
}

// Restart ends the container and starts the next, with the same address and volumes.
func (k *Kubelet) Restart(name string, grace time.Duration) error {
	p, err := k.pod(name)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := p.started()
	if err != nil {
		return err
	}
	if err := c.stop(grace); err != nil {
		return err
	}
	return k.next(p)
}

// Link cuts a pod off the network, or connects it again; its addresses stay.
func (k *Kubelet) Link(name string, up bool) error {
	if _, err := k.pod(name); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.network.Link(name, up)
}

// Resize changes the limits of a running container, as the kubelet does when a
// pod is resized in place.
func (k *Kubelet) Resize(name string, cpu float64, memory int64) error {
	p, err := k.pod(name)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := p.started()
	if err != nil {
		return err
	}
	spec := p.spec
	spec.CPU, spec.Memory = cpu, memory
	if err := spec.Validate(); err != nil {
		return err
	}
	if err := k.engine.update(c.id, resources(spec)); err != nil {
		return err
	}
	p.spec = spec
	return nil
}

// Kill sends a signal to PID 1 of the container.
func (k *Kubelet) Kill(name string, sig unix.Signal) error {
	p, err := k.pod(name)
	if err != nil {
		return err
	}
	c, err := p.started()
	if err != nil {
		return err
	}
	return c.signal(sig)
}

// SetFiles changes the files of a pod's volume, as an edited ConfigMap does.
func (k *Kubelet) SetFiles(name, volume string, files map[string]File) error {
	p, err := k.pod(name)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, v := range p.spec.Volumes {
		if v.Name == volume {
			v.Files = files
			if err := v.validate(); err != nil {
				return fmt.Errorf("cannot write files: %w", err)
			}
			p.spec.Volumes[i] = v
			return writeFiles(k.volumeDir(p, v), v, time.Now())
		}
	}
	return fmt.Errorf("cannot write files: pod %s has no volume %q", name, volume)
}

// Shutdown deletes all pods at once.
func (k *Kubelet) Shutdown(grace time.Duration) error {
	var all sync.WaitGroup
	names := k.names()
	errs := make([]error, len(names))
	for i, name := range names {
		all.Go(func() { _, errs[i] = k.Delete(name, grace) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Log is the file that holds the output of a pod's containers.
func (k *Kubelet) Log(name string) (string, error) {
	if _, err := k.pod(name); err != nil {
		return "", err
	}
	return filepath.Join(k.podDir(name), "log"), nil
}

// Path is where a file of a pod's container is for this process, volumes included.
func (k *Kubelet) Path(name, path string) (string, error) {
	p, err := k.pod(name)
	if err != nil {
		return "", err
	}
	c, err := p.started()
	if err != nil {
		return "", err
	}
	return c.path(path)
}

// IP is a pod's address.
func (k *Kubelet) IP(name string) (string, error) {
	p, err := k.pod(name)
	if err != nil {
		return "", err
	}
	return p.ip, nil
}

func (k *Kubelet) pod(name string) (*pod, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.pods[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("no pod %q; there are: %s", name, strings.Join(slices.Sorted(maps.Keys(k.pods)), " "))
}

func (k *Kubelet) names() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.pods))
}

func (k *Kubelet) add(p *pod) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pods[p.spec.Name] != nil {
		return fmt.Errorf("cannot create pod %s: it exists", p.spec.Name)
	}
	k.pods[p.spec.Name] = p
	return nil
}

// connect gives the pod what outlives its containers.
func (k *Kubelet) connect(p *pod) (err error) {
	if err := os.MkdirAll(filepath.Join(k.podDir(p.spec.Name), "volumes"), 0o755); err != nil {
		return fmt.Errorf("cannot make pod %s: %v", p.spec.Name, err)
	}
	k.mu.Lock()
	p.netns, p.ip, err = k.network.Add(p.spec.Name)
	k.mu.Unlock()
	if err != nil {
		return err
	}
	for _, v := range p.spec.Volumes {
		if v.HostPath != "" {
			continue
		}
		if err := makeVolume(k.volumeDir(p, v), v); err != nil {
			return err
		}
	}
	return k.hosts.Add(p.spec.Name, p.ip)
}

// forget removes everything that connect made.
func (k *Kubelet) forget(p *pod) error {
	var errs []error
	if p.netns != "" {
		k.mu.Lock()
		errs = append(errs, k.hosts.Remove(p.spec.Name), k.network.Remove(p.spec.Name))
		k.mu.Unlock()
	}
	errs = append(errs, os.RemoveAll(k.podDir(p.spec.Name)))
	k.mu.Lock()
	delete(k.pods, p.spec.Name)
	k.mu.Unlock()
	return errors.Join(errs...)
}

func (k *Kubelet) podDir(name string) string { return filepath.Join(k.config.Dir, "pods", name) }

func (k *Kubelet) volumeDir(p *pod, v Volume) string {
	if v.Shared {
		return filepath.Join(k.config.Dir, "shared", v.Name)
	}
	return filepath.Join(k.podDir(p.spec.Name), "volumes", v.Name)
}

func (k *Kubelet) cgroup(p *pod) string { return filepath.Join(k.config.Cgroup, "pods", p.spec.Name) }

func (p *pod) container() *container {
	p.current.Lock()
	defer p.current.Unlock()
	return p.newest
}

// started is the container, where there must be one.
func (p *pod) started() (*container, error) {
	if c := p.container(); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("pod %s has not started yet", p.spec.Name)
}
