package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/controller/internal/queue"
	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// act makes the request about a pod that is due.
func (b *Bridge) act(ctx context.Context, t *term, uid types.UID) {
	b.mu.Lock()
	a, there := t.acts[uid]
	delete(t.acts, uid)
	p := t.seen[uid]
	b.mu.Unlock()
	if _, is := a.action.(queue.AskOwner); is {
		b.askOwner(ctx, t, a.group)
		return
	}
	if !there || p == nil {
		return
	}
	if b.limit.Wait(ctx) != nil {
		return // another replica leads
	}
	switch action := a.action.(type) {
	case queue.Bind:
		b.bind(ctx, t, a.group, p, action)
	case queue.Delete:
		b.delete(ctx, p, action)
	}
}

// bind puts a pod on its node, and finds out what has become of it.
func (b *Bridge) bind(ctx context.Context, t *term, g *group, p *corev1.Pod, a queue.Bind) {
	machine := b.machine(g.cluster, a.Node)
	if machine == "" {
		b.say(p, "NoNode", fmt.Sprintf("Slurm job %d has the node %s, and no pod with slurmd of the cluster %s has that name on a Kubernetes node.", a.Job, a.Node, g.cluster), true)
		b.feed(t, g, queue.NotBound{UID: a.UID})
		return
	}
	patch, err := placePatch(p, g.state.UID, a.Place, machine)
	var now *corev1.Pod
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, timeout)
		now, err = b.api.CoreV1().Pods(p.Namespace).Patch(limited, p.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
		cancel()
	}
	if err == nil {
		b.Bound.Add(1)
		b.say(p, "Granted", fmt.Sprintf("Slurm job %d has given the pod its node %s, which is %s (task %d).", a.Job, a.Node, machine, a.Rank), false)
		b.seen(now)
		return
	}
	b.Failed.Add(1)
	b.log.Warn("cannot put a pod on its node", "namespace", p.Namespace, "pod", p.Name, "job", a.Job, "node", machine, slog.Any("error", err))
	if !refused(err) {
		sleep(ctx, timeout) // what nobody has answered may still be done
	}
	b.settle(ctx, t, g, p, a)
}

// refused says that Kubernetes has answered: nothing of the request was done.
func refused(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsInternalError(err)
}

// settle asks what a pod is now, until Kubernetes answers.
func (b *Bridge) settle(ctx context.Context, t *term, g *group, p *corev1.Pod, a queue.Bind) {
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, timeout)
		now, err := b.api.CoreV1().Pods(p.Namespace).Get(limited, p.Name, metav1.GetOptions{})
		cancel()
		switch {
		case apierrors.IsNotFound(err) || err == nil && now.UID != p.UID:
			b.podGone(p.UID)
			return
		case err == nil:
			b.seen(now)
			if queue.Gated(now) {
				b.feed(t, g, queue.NotBound{UID: a.UID})
			}
			return
		}
		sleep(ctx, pause)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// seen takes a pod as an answer has it, which may be before the watch.
func (b *Bridge) seen(p *corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.term
	if t == nil || t.seen[p.UID] == nil || !t.see(p) {
		return
	}
	if g := t.of[p.UID]; g != nil {
		g.pods[p.UID] = p
		pod := queue.PodOf(p, queue.Group{Slot: -1})
		for _, old := range g.state.Pods {
			if old.UID == pod.UID {
				pod.Slot = old.Slot
			}
		}
		b.step(g, queue.PodIs{Pod: pod})
	}
}

// feed has a group hear of something.
func (b *Bridge) feed(t *term, g *group, e queue.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.term == t && t.groups[g.state.UID] == g {
		b.step(g, e)
	}
}

// machine is the Kubernetes node of a Slurm node.
func (b *Bridge) machine(cluster, node string) string {
	for _, p := range b.watcher.InCluster(cluster) {
		if p.Slurmd() && p.Hostname == node && b.watcher.Holds(p) {
			return p.Machine.Value()
		}
	}
	return ""
}

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

var escape = strings.NewReplacer("~", "~0", "/", "~1")

// placePatch puts a pod on a Kubernetes node and takes the gate away, in one step. It changes nothing where the pod is
// another one, or has no gate any more.
func placePatch(p *corev1.Pod, group string, place queue.Place, machine string) ([]byte, error) {
	gate := queue.GateIndex(p)
	if gate < 0 {
		return nil, errors.New("the pod has no gate any more")
	}
	at := "/spec/schedulingGates/" + strconv.Itoa(gate)
	all := []operation{{"test", "/metadata/uid", p.UID}, {"test", at + "/name", wellknown.Gate}, {"remove", at, nil}}
	all = append(all, affinity(p, machine)...)
	toleration := corev1.Toleration{Key: wellknown.Bridge, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	switch {
	case len(p.Spec.Tolerations) == 0:
		all = append(all, operation{"add", "/spec/tolerations", []corev1.Toleration{toleration}})
	case !slices.ContainsFunc(p.Spec.Tolerations, func(one corev1.Toleration) bool { return one.Key == toleration.Key }):
		all = append(all, operation{"add", "/spec/tolerations/-", toleration})
	}
	job := strconv.FormatUint(uint64(place.Job), 10)
	all = append(all, marks("labels", len(p.Labels) == 0, map[string]string{wellknown.Job: job, wellknown.SlinkyJob: job})...)
	all = append(all, marks("annotations", len(p.Annotations) == 0, map[string]string{
		wellknown.JobRun: place.String(), wellknown.Group: group, wellknown.SlurmNode: place.Node, wellknown.SlinkyNode: place.Node,
	})...)
	return json.Marshal(all)
}

// marks add labels or annotations.
func marks(field string, none bool, values map[string]string) (all []operation) {
	if none {
		return []operation{{"add", "/metadata/" + field, values}}
	}
	for key, value := range values {
		all = append(all, operation{"add", "/metadata/" + field + "/" + escape.Replace(key), value})
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// affinity has a pod go to one Kubernetes node. Terms that it has stay, and each gets the node: they are alternatives.
func affinity(p *corev1.Pod, machine string) (all []operation) {
	field := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{machine}}
	required := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{field}}}}
	const path = "/spec/affinity"
	switch a := p.Spec.Affinity; {
	case a == nil:
		return []operation{{"add", path, corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}}}
	case a.NodeAffinity == nil:
		return []operation{{"add", path + "/nodeAffinity", corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}}
	case a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil:
		return []operation{{"add", path + "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution", required}}
	}
	for i, term := range p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		at := fmt.Sprintf("%s/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/%d/matchFields", path, i)
		if len(term.MatchFields) == 0 {
			all = append(all, operation{"add", at, []corev1.NodeSelectorRequirement{field}})
		} else {
			all = append(all, operation{"add", at + "/-", field})
		}
	}
	return all
}

// delete marks a pod as disrupted, and deletes it with its own grace period. The machine tries it again until the pod goes.
func (b *Bridge) delete(ctx context.Context, p *corev1.Pod, a queue.Delete) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	condition, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.UID},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": corev1.DisruptionTarget, "status": corev1.ConditionTrue, "reason": "EndedBySlurm", "message": a.Message,
			"lastTransitionTime": metav1.Now(),
		}}},
	})
	if err == nil && !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	}) {
		_, err = b.api.CoreV1().Pods(p.Namespace).Patch(limited, p.Name, types.StrategicMergePatchType, condition, metav1.PatchOptions{}, "status")
	}
	if err == nil {
		b.say(p, "Ended", a.Message+".", true)
		err = b.api.CoreV1().Pods(p.Namespace).Delete(limited, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
	}
	switch {
	case err == nil:
		b.Ended.Add(1)
	case apierrors.IsNotFound(err):
	default:
		b.Failed.Add(1)
		b.log.Warn("cannot delete a pod whose Slurm job has ended", "namespace", p.Namespace, "pod", p.Name, slog.Any("error", err))
	}
}

// askOwner finds out whether the owner of a group's pods has ended.
func (b *Bridge) askOwner(ctx context.Context, t *term, g *group) {
	b.mu.Lock()
	namespace, owners, index, podGroup := g.namespace, g.owners, g.index, g.podGroup
	b.mu.Unlock()
	if end, is := b.owners.end(ctx, namespace, owners, index, podGroup); is {
		b.feed(t, g, queue.OwnerIs{End: end})
	}
}
