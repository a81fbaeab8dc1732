//go:build e2e

package elastic

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/e2e/fakecontroller"
	"github.com/slurmlet/slurmlet/e2e/testbed/podmaker"
	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// controller is the peers' server, which also tells what keeps pods from starting.
type controller struct {
	*fakecontroller.Server
	root string // slurmctld's

	lock    sync.Mutex
	failing map[string]wire.Failure // by node
}

func newController(root string) (c *controller, err error) {
	c = &controller{root: root, failing: map[string]wire.Failure{}}
	c.Server, err = fakecontroller.Start(c.answer)
	return c, err
}

// admit gives a pod its token, and returns the settings of its agent.
func (c *controller) admit(uid string) ([]string, error) { return c.Admit(c.root, uid) }

// answer tells what keeps pods from starting.
func (c *controller) answer(peerserver.Identity) (*wire.Answer, bool) {
	_, heard := c.Reports()
	c.lock.Lock()
	defer c.lock.Unlock()
	a := &wire.Answer{Soon: len(c.failing) > 0}
	for _, name := range slices.Sorted(maps.Keys(c.failing)) {
		a.Failing.Pods = append(a.Failing.Pods, c.failing[name])
	}
	return a, heard
}

// fails has a pod not start for a reason, from now on; an empty one ends that.
func (c *controller) fails(name, reason, note string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	delete(c.failing, name)
	if reason != "" {
		c.failing[name] = wire.Failure{Nodes: name, Reason: reason, Note: note, Since: time.Now()}
	}
}

// wanted is what slurmctld's agent has told last.
func (c *controller) wanted(context.Context) (podmaker.Wanted, error) {
	nodes, heard := c.Reports()
	if !heard {
		return nil, errors.New("slurmctld's agent has not told of its nodes")
	}
	wanted := podmaker.Wanted{}
	for name, n := range nodes {
		if n.Elastic != "" {
			wanted[name] = n.Wanted
		}
	}
	return wanted, nil
}

// busy: slurmctld's agent has told that a job has the node.
func (c *controller) busy(node string) bool { return c.State(node) == wire.Busy }

// tell has the agents know of a pod, without an address as long as it does not run.
func (c *controller) tell(name, uid, is string, ip net.IP, ending bool) error {
	return c.Tell(wire.Peer{Name: name, UID: uid, Role: role.Role(is), Ending: ending}, ip)
}
