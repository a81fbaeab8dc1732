package pod

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// start makes the pod's next container and watches it. The caller holds p.mu.
func (k *Kubelet) start(p *pod) error {
	name := fmt.Sprintf("%s-%d", p.spec.Name, p.restarts)
	c := &container{id: name, dir: filepath.Join(k.podDir(p.spec.Name), name), exited: make(chan struct{}), gone: make(chan struct{})}
	place, err := k.prepare(p, c)
	if err == nil {
		bundle := Bundle(p.spec, place)
		if k.config.NoLimits {
			bundle.Process.Rlimits = nil
		}
		err = writeBundle(c.dir, bundle)
	}
	if err == nil {
		err = k.run(p, c)
	}
	if err != nil {
		_ = c.removeRoot() // the first error is the one to tell
		return fmt.Errorf("cannot start pod %s: %w", p.spec.Name, err)
	}
	p.current.Lock()
	p.newest = c
	p.current.Unlock()
	go k.watch(p, c)
	return nil
}

// prepare mounts what the container needs to see.
func (k *Kubelet) prepare(p *pod, c *container) (Place, error) {
	place := Place{
		Root: c.root(), Netns: p.netns, Cgroup: k.cgroup(p), Volumes: map[string]string{},
		Hosts: filepath.Join(k.config.Dir, "hosts"), Resolv: filepath.Join(k.config.Dir, "resolv.conf"),
	}
	image, err := k.image(p.spec.Root)
	if err != nil {
		return place, err
	}
	if err := c.mountRoot(image); err != nil {
		return place, err
	}
	for _, v := range p.spec.Volumes {
		if place.Volumes[v.Name], err = k.volume(p, c, v); err != nil {
			return place, err
		}
	}
	return place, nil
}

// image mounts a root file system of the host's, once for all pods.
func (k *Kubelet) image(root string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at := k.images[root]; at != "" {
		return at, nil
	}
	at := filepath.Join(k.config.Dir, "images", fmt.Sprint(len(k.images)))
	if err := k.mountHost(root, at); err != nil {
		return "", err
	}
	k.images[root] = at
	return at, nil
}

// volume returns where a volume is. A host's path is mounted afresh for every
// container, so that a rebuilt binary is seen.
func (k *Kubelet) volume(p *pod, c *container, v Volume) (string, error) {
	if v.HostPath == "" {
		return k.volumeDir(p, v), nil
	}
	at := filepath.Join(c.dir, "host-"+v.Name)
	if err := k.mountHost(filepath.Dir(v.HostPath), at); err != nil {
		return "", err
	}
	return filepath.Join(at, filepath.Base(v.HostPath)), nil
}

func (k *Kubelet) mountHost(dir, at string) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return fmt.Errorf("cannot mount %s: %v", dir, err)
	}
	return k.config.MountHost(dir, at)
}

// run starts the container; its output goes to the pod's log, which outlives it.
func (k *Kubelet) run(p *pod, c *container) error {
	log, err := os.OpenFile(filepath.Join(k.podDir(p.spec.Name), "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("cannot write log: %v", err)
	}
	defer log.Close()
	k.exits.expect()
	defer k.exits.done()
	if c.pid, err = k.engine.create(c.id, c.dir, log); err != nil {
		return err
	}
	c.started = time.Now()
	k.exits.wait(c.pid, c.end)
	if err := k.engine.start(c.id); err != nil {
		// What could not be executed is an exit like any other, but for the log.
		fmt.Fprintln(log, strings.TrimSpace(err.Error()))
		return fmt.Errorf("%w%w", err, k.engine.remove(c.id))
	}
	return nil
}

// watch cleans up after a container, and starts the next if the pod wants it.
func (k *Kubelet) watch(p *pod, c *container) {
	<-c.exited
	c.oomKills = oomKills(k.cgroup(p))
	if err := k.engine.remove(c.id); err != nil {
		k.config.Event("pod %s: %v", p.spec.Name, err)
	}
	if err := c.removeRoot(); err != nil {
		k.config.Event("pod %s: %v", p.spec.Name, err)
	}
	k.config.Event("pod %s: container %s ended: %s", p.spec.Name, c.id, describe(c.status))
	close(c.gone)
	if p.spec.Restart == RestartAlways {
		k.restartLater(p, c)
	}
}

func (k *Kubelet) restartLater(p *pod, c *container) {
	select {
	case <-p.stopping:
		return
	case <-time.After(backoff(p.restarts, c.finished.Sub(c.started))):
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.stopping:
		return
	default:
	}
	if p.container() != c {
		return // someone restarted it by hand
	}
	if err := k.next(p); err != nil {
		k.config.Event("%v", err)
	}
}

func (k *Kubelet) next(p *pod) error {
	p.restarts++
	return k.start(p)
}

// backoff is the kubelet's, ten times as fast: 1 s, doubled up to 30 s, and from
// the start again after a container that ran for a minute.
func backoff(restarts int, ran time.Duration) time.Duration {
	if ran > time.Minute {
		restarts = 0
	}
	return min(time.Second<<min(restarts, 5), 30*time.Second)
}

func describe(status unix.WaitStatus) string {
	if status.Signaled() {
		return status.Signal().String()
	}
	return fmt.Sprintf("exit code %d", status.ExitStatus())
}
