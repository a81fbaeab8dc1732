// Package podmaker plays the controller's part in elastic node sets where there is no Kubernetes: it makes a
// pod for each node that Slurm wants, and ends those of the others.
package podmaker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Pods are where pods run. Calls for one name never overlap, but for Delete, which ends a Create that waits.
type Pods interface {
	// Create makes a pod and returns when it runs. It may wait for a machine until ctx ends.
	Create(ctx context.Context, name, uid string) error
	// Delete ends a pod as the kubelet does and returns when nothing of it is left.
	Delete(name, uid string) error
}

// Wanted says of each node of the elastic sets whether Slurm wants its pod. A node that is not in it keeps its pod.
type Wanted map[string]bool

// Maker keeps pods in step with what is wanted.
type Maker struct {
	pods Pods
	ask  func(context.Context) (Wanted, error)
	say  func(format string, args ...any)
	wake chan struct{}

	lock  sync.Mutex
	away  map[string]bool
	count int
	made  map[string]*made
	all   sync.WaitGroup
}

// made is a pod. It stays until nothing of it is left.
type made struct {
	uid     string
	stop    context.CancelFunc
	created chan struct{} // closed when Create has returned
	ending  bool
}

// Between two looks, unless somebody wakes the maker.
const interval = time.Second

// New returns a maker, which Run has work. ask tells what is wanted; after an error everything stays as it is.
func New(pods Pods, ask func(context.Context) (Wanted, error), say func(format string, args ...any)) *Maker {
	return &Maker{pods: pods, ask: ask, say: say, wake: make(chan struct{}, 1), made: map[string]*made{}, away: map[string]bool{}}
}

// Run works until ctx ends. Its pods stay.
func (m *Maker) Run(ctx context.Context) {
	last := ""
	for {
		if !m.isAway("") {
			wanted, err := m.ask(ctx)
			complaint := ""
			if err == nil {
				m.step(ctx, wanted)
			} else if ctx.Err() == nil {
				complaint = fmt.Sprintf("cannot tell which nodes are wanted: %v", err)
			}
			if complaint != last && complaint != "" {
				m.say("%s", complaint)
			}
			last = complaint
		}
		select {
		case <-ctx.Done():
			m.all.Wait()
			return
		case <-m.wake:
		case <-time.After(interval):
		}
	}
}

// Wake has the maker look at once.
func (m *Maker) Wake() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Away has the maker begin nothing, as a controller that is gone; what it has begun goes on. With names, it is away
// for these nodes alone.
func (m *Maker) Away(away bool, names ...string) {
	m.lock.Lock()
	if len(names) == 0 {
		names = []string{""}
	}
	for _, name := range names {
		m.away[name] = away
	}
	m.lock.Unlock()
	m.Wake()
}

func (m *Maker) isAway(name string) bool {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.away[name]
}

// UIDs are the pods that there are, by name, also those that are ending.
func (m *Maker) UIDs() map[string]string {
	m.lock.Lock()
	defer m.lock.Unlock()
	uids := map[string]string{}
	for name, p := range m.made {
		uids[name] = p.uid
	}
	return uids
}

// Lost forgets a pod that was deleted without the maker, with its machine for example.
func (m *Maker) Lost(name, uid string) {
	m.forget(name, uid)
	m.Wake()
}

func (m *Maker) forget(name, uid string) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if p := m.made[name]; p != nil && p.uid == uid {
		p.stop()
		delete(m.made, name)
	}
}

func (m *Maker) step(ctx context.Context, wanted Wanted) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		switch p := m.made[name]; {
		case m.away[name]:
		case p == nil && wanted[name]:
			m.create(ctx, name)
		case p != nil && !p.ending && !wanted[name]:
			p.ending = true
			m.all.Go(func() { m.end(name, p) })
		}
	}
}

func (m *Maker) create(ctx context.Context, name string) {
	m.count++
	ctx, stop := context.WithCancel(ctx)
	p := &made{uid: fmt.Sprintf("%s-%d", name, m.count), stop: stop, created: make(chan struct{})}
	m.made[name] = p
	m.all.Go(func() {
		err := m.pods.Create(ctx, name, p.uid)
		close(p.created)
		if err != nil && ctx.Err() == nil {
			m.say("cannot make pod %s: %v", name, err)
			m.forget(name, p.uid) // the next look makes another
		}
	})
}

// end ends a pod, and has the maker look again: the name may be wanted again.
func (m *Maker) end(name string, p *made) {
	p.stop()
	<-p.created
	if err := m.pods.Delete(name, p.uid); err != nil {
		m.say("cannot end pod %s: %v", name, err)
		m.lock.Lock()
		p.ending = false // the next look tries again
		m.lock.Unlock()
		return
	}
	m.forget(name, p.uid)
	m.Wake()
}
