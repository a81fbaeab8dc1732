//go:build e2e

package elastic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// pods are Kubernetes' part: machines, and a kubelet that restarts containers.
type pods struct {
	w *world
	// environ are settings of the agents in all pods.
	environ []string
	// grace is what a deleted pod gets.
	grace time.Duration

	lock  sync.Mutex
	count int
	pods  map[string]*pod
	// held have no machine, and lingering do not vanish.
	held, lingering map[string]chan struct{}
}

// pod is one with a container, until nothing is left of it.
type pod struct {
	uid  string
	ip   net.IP
	node *native.Node
	over bool // the container is not started again
}

func newPods(w *world) *pods {
	return &pods{w: w, environ: []string{"SLURMLET_ELASTIC=yes", "SLURMLET_STORAGE_LIMIT=1Gi"}, grace: 20 * time.Second, pods: map[string]*pod{}, held: map[string]chan struct{}{}, lingering: map[string]chan struct{}{}}
}

// hold has no machine free for pods of a name from now on, and release has one again.
func (p *pods) hold(name string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.held[name] = make(chan struct{})
}

func (p *pods) release(name string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	close(p.held[name])
	delete(p.held, name)
}

// linger has pods of a name not vanish when their containers have ended, and letGo has them.
func (p *pods) linger(name string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.lingering[name] = make(chan struct{})
}

func (p *pods) letGo(name string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if lingers, is := p.lingering[name]; is {
		close(lingers)
		delete(p.lingering, name)
	}
}

// Create makes a pod and waits for its machine.
func (p *pods) Create(ctx context.Context, name, uid string) (err error) {
	defer func() {
		if err != nil { // nobody knows a pod that there is not
			p.w.controller.Gone(uid, false)
		}
	}()
	if err := p.w.controller.tell(name, uid, "slurmd", nil, false); err != nil {
		return err
	}
	p.lock.Lock()
	held := p.held[name]
	p.lock.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	p.count++
	made := &pod{uid: uid, ip: net.IPv4(10, 88, byte(20+p.count/250), byte(1+p.count%250))}
	if err := p.start(name, made); err != nil {
		return err
	}
	p.pods[name] = made
	return p.w.controller.tell(name, uid, "slurmd", made.ip, false)
}

// start starts a pod's container; the lock is held.
func (p *pods) start(name string, of *pod) error {
	environ, err := p.w.controller.admit(of.uid)
	if err != nil {
		return err
	}
	node := &native.Node{Name: name, IP: of.ip, Ready: make(chan struct{}), Waiting: make(chan struct{}), Exited: make(chan struct{})}
	if err := p.w.Start(node, append(append(environ, "SLURMLET_GRACE_PERIOD="+p.grace.String()), p.environ...)...); err != nil {
		if node.Started() { // the interface of an earlier pod may still be there
			err = errors.Join(err, kill(node))
		}
		return err
	}
	of.node = node
	go p.restart(name, of, node)
	return nil
}

// restart is what the kubelet does when a container ends by itself.
func (p *pods) restart(name string, of *pod, ended *native.Node) {
	<-ended.Exited
	p.lock.Lock()
	defer p.lock.Unlock()
	if of.over {
		return
	}
	p.w.note("the container of %s ended with status %d", of.uid, ended.Status)
	if err := p.start(name, of); err != nil {
		p.w.note("cannot restart %s: %v", of.uid, err)
	}
}

// Delete ends a pod as the kubelet does.
func (p *pods) Delete(name, uid string) error {
	p.lock.Lock()
	made := p.pods[name]
	if made == nil || made.uid != uid { // it had no machine
		p.lock.Unlock()
		p.w.controller.Gone(uid, false)
		return nil
	}
	made.over = true
	node, lingering := made.node, p.lingering[name]
	p.lock.Unlock()
	if err := errors.Join(p.w.controller.tell(name, uid, "slurmd", made.ip, true), node.Terminate()); err != nil {
		return err
	}
	select {
	case <-node.Exited:
	case <-time.After(p.grace):
		p.w.note("%s has not ended within its grace period", uid)
		if err := kill(node); err != nil {
			return err
		}
	}
	if lingering != nil {
		<-lingering
	}
	p.remove(name, uid)
	p.w.controller.Gone(uid, false)
	return nil
}

func (p *pods) remove(name, uid string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if made := p.pods[name]; made != nil && made.uid == uid {
		delete(p.pods, name)
	}
}

// lose is a machine that is gone, which Kubernetes knows.
func (p *pods) lose(name string) error {
	p.lock.Lock()
	made := p.pods[name]
	if made == nil {
		p.lock.Unlock()
		return fmt.Errorf("%s has no pod that runs", name)
	}
	made.over = true
	p.lock.Unlock()
	if err := kill(made.node); err != nil {
		return err
	}
	p.remove(name, made.uid)
	p.w.controller.Gone(made.uid, true)
	p.w.maker.Lost(name, made.uid)
	return nil
}

func kill(n *native.Node) error {
	if err := unix.Kill(n.PID(), unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cannot kill %s: %w", n.Name, err)
	}
	<-n.Exited
	return nil
}

// of is the node of a name that runs, or nil.
func (p *pods) of(name string) *native.Node {
	p.lock.Lock()
	defer p.lock.Unlock()
	if made := p.pods[name]; made != nil {
		return made.node
	}
	return nil
}
