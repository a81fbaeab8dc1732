package kube

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
	"github.com/slurmlet/slurmlet/kubectl-slurm/why"
)

// World is a cluster as package why asks it.
type World struct {
	slurm.Asker
	cluster *Cluster
	pods    []corev1.Pod
}

// World makes one. slurm may be nil where nobody can ask slurmctld.
func (c *Cluster) World(asker slurm.Asker) *World { return &World{Asker: asker, cluster: c} }

// Pods are the cluster's, by their host names.
func (w *World) Pods(ctx context.Context) (map[string]*why.Pod, error) {
	if w.pods == nil {
		var err error
		if w.pods, err = w.cluster.All(ctx); err != nil {
			return nil, err
		}
	}
	all := map[string]*why.Pod{}
	for i := range w.pods {
		all[HostName(&w.pods[i])] = Describe(&w.pods[i])
	}
	return all, nil
}

// Inside is the Asker of a pod by its name.
func (w *World) Inside(name string) slurm.Asker {
	for i := range w.pods {
		if w.pods[i].Name == name {
			return w.cluster.Inside(&w.pods[i])
		}
	}
	return nobody{}
}

// nobody is the Asker of a pod that is gone.
type nobody struct{}

func (nobody) Ask(context.Context, ...string) (string, error) {
	return "", fmt.Errorf("there is no such pod")
}

// Machine asks for a Kubernetes node.
func (w *World) Machine(ctx context.Context, name string) (*why.Machine, error) {
	n, err := w.cluster.api.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &why.Machine{Name: name, Missing: true}, nil
	}
	if err != nil {
		return nil, judge(Right{Verb: "get", Resource: "nodes", Name: name}, err)
	}
	m := &why.Machine{Name: name, Cordoned: n.Spec.Unschedulable, BySlurm: n.Annotations[wellknown.DrainedBySlurm]}
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeUnschedulable || strings.HasPrefix(t.Key, "node-role.kubernetes.io/") {
			continue
		}
		m.Taints = append(m.Taints, t.ToString())
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			m.Unready = c.Reason + ": " + c.Message
		}
	}
	return m, nil
}

// mostEvents bounds those of one answer.
const mostEvents = 5

// Events are Kubernetes' warnings on a pod, the last first, and with "" those on pods that it has refused to make.
func (w *World) Events(ctx context.Context, pod string) ([]why.Event, error) {
	selector := fields.Set{"involvedObject.name": pod, "type": corev1.EventTypeWarning}
	if pod == "" {
		selector = fields.Set{"reason": "FailedCreate", "type": corev1.EventTypeWarning}
	}
	list, err := w.cluster.api.CoreV1().Events(w.cluster.Namespace).List(ctx, metav1.ListOptions{FieldSelector: selector.String()})
	if err != nil {
		return nil, judge(Right{Verb: "list", Resource: "events", Namespace: w.cluster.Namespace}, err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Event) int { return lastOf(&b).Compare(lastOf(&a).Time) })
	var all []why.Event
	for i := range list.Items {
		e := &list.Items[i]
		if len(all) < mostEvents {
			all = append(all, why.Event{Object: e.InvolvedObject.Kind + " " + e.InvolvedObject.Name, Reason: e.Reason, Message: e.Message, Last: lastOf(e).Time})
		}
	}
	return all, nil
}

// mostWords bounds the lines of a log in one answer, and lastLines those that are looked at.
const mostWords, lastLines = 4, 50

// LastWords are the warnings and errors at the end of the log of the container before the present one.
func (w *World) LastWords(ctx context.Context, pod string) ([]string, error) {
	lines := int64(lastLines)
	at := slices.IndexFunc(w.pods, func(p corev1.Pod) bool { return p.Name == pod })
	if at < 0 {
		return nil, nil
	}
	from, err := w.cluster.Log(ctx, &w.pods[at], corev1.PodLogOptions{Previous: true, TailLines: &lines})
	if err != nil {
		return nil, err
	}
	defer from.Close()
	var all []string
	for scan := bufio.NewScanner(from); scan.Scan(); {
		var line struct {
			Level, Source, Msg, Error string
		}
		if json.Unmarshal(scan.Bytes(), &line) == nil && (line.Level == "ERROR" || line.Level == "WARN") {
			text := line.Source + ": " + line.Msg
			if line.Error != "" {
				text += ": " + line.Error
			}
			all = append(all, text)
		}
	}
	return all[max(0, len(all)-mostWords):], nil
}

func lastOf(e *corev1.Event) metav1.Time {
	switch {
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp
	case !e.EventTime.IsZero():
		return metav1.Time(e.EventTime)
	}
	return e.CreationTimestamp
}

// Describe is what package why wants to know of a pod.
func Describe(p *corev1.Pod) *why.Pod {
	d := &why.Pod{
		Name: p.Name, Role: p.Labels[wellknown.Role], Set: p.Labels[wellknown.NodeSet], Elastic: p.Labels[wellknown.Elastic],
		Machine: p.Spec.NodeName, Phase: string(p.Status.Phase), Ready: Ready(p), Reason: p.Status.Reason, Message: p.Status.Message,
	}
	if p.DeletionTimestamp != nil {
		if p.DeletionGracePeriodSeconds != nil {
			d.Grace = *p.DeletionGracePeriodSeconds
		}
		d.Deleting = p.DeletionTimestamp.Add(-time.Duration(d.Grace) * time.Second)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			d.Unscheduled = c.Reason + ": " + c.Message
		}
	}
	main := Container(p)
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if s.State.Waiting != nil && d.Waits == "" && s.State.Waiting.Reason != "" {
			d.Waits, d.WaitsFor, d.Image = s.State.Waiting.Reason, s.State.Waiting.Message, s.Image
		}
		if s.Name != main {
			continue
		}
		d.Restarts = s.RestartCount
		for _, end := range []*corev1.ContainerStateTerminated{s.LastTerminationState.Terminated, s.State.Terminated} {
			if end != nil {
				d.LastEnd, d.LastStatus, d.EndedAt = end.Reason, end.ExitCode, end.FinishedAt.Time
			}
		}
	}
	return d
}
