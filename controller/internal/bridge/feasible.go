package bridge

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedule "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/slurmlet/slurmlet/controller/internal/queue"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

const (
	// unfitFor is how long it is believed which nodes do not fit: 1,000 equal pods look at all nodes once.
	unfitFor = 5 * time.Second
	// mostRemembered bounds both.
	mostRemembered = 10_000
	// mostExcluded bounds the list of one job, in bytes. The gateway takes no longer one.
	mostExcluded = 32 << 10
	// ofKubernetes begin the keys of taints that come and go with a machine's state, and ofSlurmlet those of slurmlet's own:
	// Slurm drains such nodes, and pods in the queue tolerate that of the bridge.
	ofKubernetes, ofSlurmlet = "node.kubernetes.io/", "slurmlet.dev/"
)

// want is where a pod may be.
type want struct {
	required    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
}

// unfit are the nodes of a cluster that fit none of some pods, of so many.
type unfit struct {
	names []string
	of    int
	until time.Time
}

// exclude is the list of the nodes of a group's cluster on which no pod of the group could be: by node selectors, required
// affinities and taints, and because a pod could not run there. none says that it has all nodes whose slurmd is Ready: Slurm
// may have others, as those of an elastic set that are off. Only Ready ones are listed: slurmctld refuses a job that excludes a
// node that it does not know. The caller holds mu.
func (b *Bridge) exclude(t *term, g *group, now time.Time) (list string, none bool) {
	var avoided []string
	for node, until := range t.avoided[ownerOfGroup(g)] {
		if now.Before(until) && b.machine(g.cluster, node) != "" {
			avoided = append(avoided, node)
		}
	}
	names, none := b.unfit(t, g, now).with(avoided)
	return shortList(names), none
}

// with are the nodes that do not fit, and those to avoid, in order. Better a node that has failed than none: where no other one
// is left, it is not avoided. none says that no node fits.
func (u unfit) with(avoided []string) (names []string, none bool) {
	names = slices.Concat(u.names, avoided)
	slices.Sort(names)
	if names = slices.Compact(names); len(names) >= u.of {
		names = u.names
	}
	return names, u.of > 0 && len(u.names) == u.of
}

// shortList is Slurm's list of as many names as there may be: for the rest, kube-scheduler says that it cannot bind.
func shortList(names []string) string {
	for n := len(names); n > 0; n = n * 9 / 10 {
		if list := hostlist.Of(slices.Values(names[:n])).Set().String(); len(list) <= mostExcluded {
			return list
		}
	}
	return ""
}

// unfit are the nodes that fit no pod of a group that waits.
func (b *Bridge) unfit(t *term, g *group, now time.Time) unfit {
	wants, key := wantsOf(g)
	if len(wants) == 0 {
		return unfit{} // nobody waits, and what nobody asks for is nowhere
	}
	key = g.cluster + "/" + key
	if u, there := t.unfit[key]; there && now.Before(u.until) {
		return u
	}
	u := unfit{until: now.Add(unfitFor)}
	seen := map[string]bool{}
	for _, p := range b.watcher.InCluster(g.cluster) {
		if !p.Slurmd() || !p.Ready || seen[p.Hostname] {
			continue
		}
		seen[p.Hostname] = true
		u.of++
		object, there, err := b.nodes.GetStore().GetByKey(p.Machine.Value())
		if err != nil || !there {
			continue // what is not known fits
		}
		if !slices.ContainsFunc(wants, func(w want) bool { return w.fits(object.(*corev1.Node)) }) {
			u.names = append(u.names, p.Hostname)
		}
	}
	if len(t.unfit) >= mostRemembered {
		clear(t.unfit)
	}
	t.unfit[key] = u
	return u
}

// wantsOf are where the pods of a group may be that wait, each once, and the same as a text.
func wantsOf(g *group) (wants []want, key string) {
	var texts []string
	for _, p := range g.pods {
		if !queue.Gated(p) {
			continue
		}
		var required *corev1.NodeSelector
		if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil {
			required = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		}
		text, err := json.Marshal([]any{p.Spec.NodeSelector, required, p.Spec.Tolerations})
		if err != nil || slices.Contains(texts, string(text)) {
			continue
		}
		texts = append(texts, string(text))
		wants = append(wants, want{nodeaffinity.GetRequiredNodeAffinity(p), p.Spec.Tolerations})
	}
	slices.Sort(texts)
	return wants, strings.Join(texts, "\n")
}

// fits says whether a pod may be on a machine. What cannot be judged fits: kube-scheduler says so later.
func (w want) fits(n *corev1.Node) bool {
	_, tainted := schedule.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, w.tolerations, counts, true)
	if tainted {
		return false
	}
	is, err := w.required.Match(n)
	return is || err != nil
}

func counts(t *corev1.Taint) bool {
	return t.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(t.Key, ofKubernetes) && !strings.HasPrefix(t.Key, ofSlurmlet)
}

// avoid has the next jobs of a group's owner not ask for a node. The caller holds mu.
func (t *term) avoid(g *group, node string, now time.Time) {
	if len(t.avoided) >= mostRemembered {
		clear(t.avoided)
	}
	key := ownerOfGroup(g)
	if t.avoided[key] == nil {
		t.avoided[key] = map[string]time.Time{}
	}
	t.avoided[key][node] = now.Add(queue.Avoided)
}

// ownerOfGroup is what makes the next pods: a gang is one group with these, and a pod of a Job, for example, is one of its own.
func ownerOfGroup(g *group) string {
	for _, p := range g.pods {
		if ref := metav1.GetControllerOfNoCopy(p); ref != nil && g.state.UID == string(p.UID) {
			return string(ref.UID)
		}
	}
	return g.state.UID
}

// trimMachine keeps what says which pods may be on a machine.
func trimMachine(object any) (any, error) {
	if n, is := object.(*corev1.Node); is {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, Labels: n.Labels},
			Spec:       corev1.NodeSpec{Taints: n.Spec.Taints},
		}, nil
	}
	return object, nil
}
