package bridge

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/slurmlet/slurmlet/controller/internal/queue"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// term is what a leader knows. Bridge's mu guards all of it.
type term struct {
	ctx context.Context
	// synced: seen has all pods of the API.
	synced bool
	// seen are the pods as they were last seen, and keys their UIDs by namespace and name. before are those that there
	// were when the term began.
	seen   map[types.UID]*corev1.Pod
	keys   map[string]types.UID
	before map[types.UID]bool
	groups map[string]*group
	of     map[types.UID]*group
	// clusters are Slurm's, by namespace/name.
	clusters map[string]*cluster
	// unfit are nodes that fit no pod of some, and avoided those on which kube-scheduler has not bound a pod of an owner.
	unfit   map[string]unfit
	avoided map[string]map[string]time.Time
	// look has pods to look at, and doing those for which acts has an action.
	look  workqueue.TypedDelayingInterface[string]
	doing workqueue.TypedDelayingInterface[types.UID]
	acts  map[types.UID]act
	// waiters are the questions about pods of a node that wait until these go.
	waiters map[*waiter]struct{}
}

// waiter is one question. changed gets a word when a pod has gone from the place.
type waiter struct {
	at      place
	changed chan struct{}
}

// group is a group with its pods.
type group struct {
	state              queue.State
	namespace, cluster string
	pods               map[types.UID]*corev1.Pod
	timer              *time.Timer
	// kept says that the group gets its first pod now.
	kept bool
	// owners are those whose end is the group's: one, or for a PodGroup those of its pods. index is which of a LeaderWorkerSet's
	// groups it is, and podGroup the PodGroup, if it is one.
	owners   owners
	index    int
	podGroup watched
}

func (g *group) jobs() (ids []uint32) {
	for _, j := range g.state.Jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// act is a request to Kubernetes.
type act struct {
	action queue.Action
	group  *group
}

func newTerm(ctx context.Context) *term {
	return &term{
		ctx: ctx, seen: map[types.UID]*corev1.Pod{}, keys: map[string]types.UID{}, before: map[types.UID]bool{}, groups: map[string]*group{},
		of: map[types.UID]*group{}, clusters: map[string]*cluster{}, acts: map[types.UID]act{}, unfit: map[string]unfit{}, avoided: map[string]map[string]time.Time{},
		waiters: map[*waiter]struct{}{},
		look:    workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{}),
		doing:   workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.UID]{}),
	}
}

// end ends what works for the term.
func (t *term) end() {
	t.look.ShutDown()
	t.doing.ShutDown()
	for _, g := range t.groups {
		if g.timer != nil {
			g.timer.Stop()
		}
	}
	for _, c := range t.clusters {
		c.wake()
	}
	t.wake("", "")
}

// see keeps a pod, and is false if a later state of it is known.
func (t *term) see(p *corev1.Pod) bool {
	if old := t.seen[p.UID]; old != nil && newer(old.ResourceVersion, p.ResourceVersion) {
		return false
	}
	t.seen[p.UID] = p
	t.keys[p.Namespace+"/"+p.Name] = p.UID
	return true
}

// newer says whether one version is later than another.
func newer(one, than string) bool {
	a, err := strconv.ParseUint(one, 10, 64)
	b, also := strconv.ParseUint(than, 10, 64)
	return err == nil && also == nil && a > b
}

func (t *term) byKey(key string) *corev1.Pod {
	p := t.seen[t.keys[key]]
	if p == nil {
		delete(t.keys, key)
	}
	return p
}

// wake has the questions about a Slurm node, or about a Kubernetes node, look again: a pod has gone from there. Without both,
// all look again.
func (t *term) wake(node, machine string) {
	for w := range t.waiters {
		if node == w.at.node || machine != "" && machine == w.at.machine || node == "" && machine == "" {
			select {
			case w.changed <- struct{}{}:
			default: // it has the word yet
			}
		}
	}
}

// wakeOf is wake for the places of a pod that has changed, or is gone: its group may not have been known.
func (t *term) wakeOf(p *corev1.Pod) {
	if p != nil && !queue.Gated(p) {
		t.wake(queue.PodOf(p, queue.Group{}).Node, p.Spec.NodeName)
	}
}

// wakeFor is wake for the places that a group's pods have left.
func (t *term) wakeFor(g *group, before []queue.Pod) {
	if len(t.waiters) == 0 {
		return
	}
	for i := range before {
		old := &before[i]
		if old.Job == 0 || old.Over {
			continue
		}
		now, there := slices.BinarySearchFunc(g.state.Pods, old.UID, func(p queue.Pod, uid string) int { return strings.Compare(p.UID, uid) })
		if !there || g.state.Pods[now].Over || g.state.Pods[now].Place != old.Place {
			t.wake(old.Node, t.machineOf(types.UID(old.UID), g))
		}
	}
}

// machineOf is the Kubernetes node of a group's pod, as it was last seen.
func (t *term) machineOf(uid types.UID, g *group) string {
	if p := g.pods[uid]; p != nil {
		return p.Spec.NodeName
	}
	return ""
}

// bind has a request made about a pod. One that is under way stays the only one.
func (t *term) bind(uid types.UID, a queue.Action, g *group) {
	t.acts[uid] = act{a, g}
	t.doing.Add(uid)
}

// names says whether a pod names a job. Its group may not be known yet.
func (t *term) names(job uint32) bool {
	for _, p := range t.seen {
		if queue.PodOf(p, queue.Group{}).Job == job {
			return true
		}
	}
	return false
}

// place is where pods are looked for: at a Slurm node, and for those of any job also on the Kubernetes node of the pod
// that asks, which may have had another name. What other pods with slurmd there are now have pods of their own.
type place struct {
	node, machine string
	others        map[string]bool
}

func (at place) has(node string, p *corev1.Pod) bool {
	return node == at.node || at.machine != "" && p != nil && p.Spec.NodeName == at.machine && !at.others[node]
}

// onNode are the pods of a job, or of any job for 0, that are at a place or may come there.
func (t *term) onNode(cluster string, job uint32, at place, of func(namespace string) string) (names []string) {
	found := map[string]bool{}
	for _, g := range t.groups {
		if g.cluster != "" && g.cluster != cluster {
			continue
		}
		for _, p := range g.state.Pods {
			if p.Job != 0 && (job == 0 || p.Job == job) && at.has(p.Node, g.pods[types.UID(p.UID)]) && !p.Over {
				found[p.Name] = true
			}
		}
	}
	for uid, p := range t.seen { // whose group is not known yet
		if t.of[uid] != nil || queue.Gated(p) {
			continue
		}
		pod := queue.PodOf(p, queue.Group{})
		if in := of(p.Namespace); pod.Job != 0 && (job == 0 || pod.Job == job) && at.has(pod.Node, p) && !pod.Over && (in == "" || in == cluster) {
			found[pod.Name] = true
		}
	}
	for name := range found {
		names = append(names, name)
	}
	return names
}

// cluster is a Slurm cluster, as its gateways and nodes tell of it.
type cluster struct {
	// known: a gateway has told of all jobs. whole are the gateways that have.
	known bool
	whole map[string]bool
	// orders wait for a gateway, and given are those that one has.
	orders []*order
	given  map[string]*order
	// jobs are groups by their jobs. holds are the nodes that hold for a job.
	jobs  map[uint32]string
	holds map[uint32][]string
	// changed is closed when there is an order.
	changed chan struct{}
	// asking ends the request of each gateway's pod.
	asking map[string]context.CancelFunc
}

// order is one of a group.
type order struct {
	wire.Order
	group string
	timer *time.Timer
}

// cluster finds or makes one.
func (t *term) cluster(name string) *cluster {
	c := t.clusters[name]
	if c == nil {
		c = &cluster{
			whole: map[string]bool{}, given: map[string]*order{}, jobs: map[uint32]string{}, holds: map[uint32][]string{}, changed: make(chan struct{}),
			asking: map[string]context.CancelFunc{},
		}
		t.clusters[name] = c
	}
	return c
}

func (c *cluster) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *cluster) give(o *order) {
	c.orders = append(c.orders, o)
	c.wake()
}
