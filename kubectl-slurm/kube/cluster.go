package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// Cluster is a cluster of Slurm's: the pods of a namespace that have its label.
type Cluster struct {
	*Client
	Name string
	// daemons are the pods of all roles but slurmd, which are few.
	daemons []corev1.Pod
}

// list asks for pods by a selector of labels, from the API server's memory.
func (c *Client) list(ctx context.Context, namespace, selector string) ([]corev1.Pod, error) {
	pods, err := c.api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
	if err != nil {
		return nil, judge(Right{Verb: "list", Resource: "pods", Namespace: namespace}, err)
	}
	return pods.Items, nil
}

// Find is the cluster of a name in the namespace, and without a name the only one.
func (c *Client) Find(ctx context.Context, name string) (*Cluster, error) {
	pods, err := c.list(ctx, c.Namespace, wellknown.Cluster+","+wellknown.Role+"!=slurmd")
	if err != nil {
		return nil, err
	}
	if len(pods) == 0 {
		if pods, err = c.list(ctx, c.Namespace, wellknown.Cluster); err != nil {
			return nil, err
		}
	}
	byName := map[string][]corev1.Pod{}
	for _, p := range pods {
		byName[p.Labels[wellknown.Cluster]] = append(byName[p.Labels[wellknown.Cluster]], p)
	}
	names := slices.Sorted(maps.Keys(byName))
	switch {
	case len(names) == 0:
		return nil, c.nowhere(ctx)
	case name == "" && len(names) > 1:
		return nil, fmt.Errorf("namespace %s has several clusters: choose one with --cluster: %s", c.Namespace, strings.Join(names, ", "))
	case name != "" && byName[name] == nil:
		return nil, fmt.Errorf("namespace %s has no cluster %s: it has %s", c.Namespace, name, strings.Join(names, ", "))
	}
	name = cmp.Or(name, names[0])
	return &Cluster{c, name, slices.DeleteFunc(byName[name], func(p corev1.Pod) bool { return p.Labels[wellknown.Role] == "slurmd" })}, nil
}

// nowhere is the error of a namespace without a cluster. It names those that have one, if the caller may know.
func (c *Client) nowhere(ctx context.Context) error {
	pods, err := c.list(ctx, "", wellknown.Cluster+","+wellknown.Role+"=slurmctld")
	found := map[string]bool{}
	for _, p := range pods {
		found[p.Namespace] = true
	}
	if err != nil || len(found) == 0 {
		return fmt.Errorf("namespace %s has no pod with the label %s: choose another with -n", c.Namespace, wellknown.Cluster)
	}
	return fmt.Errorf("namespace %s has no pod with the label %s: choose one with -n: %s", c.Namespace, wellknown.Cluster, strings.Join(slices.Sorted(maps.Keys(found)), ", "))
}

// Daemons are the pods of a role that is not slurmd.
func (c *Cluster) Daemons(role string) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(c.daemons), func(p corev1.Pod) bool { return p.Labels[wellknown.Role] != role })
}

// NodePods are the pods with slurmd.
func (c *Cluster) NodePods(ctx context.Context) ([]corev1.Pod, error) {
	return c.list(ctx, c.Namespace, wellknown.Cluster+"="+c.Name+","+wellknown.Role+"=slurmd")
}

// All are the cluster's pods.
func (c *Cluster) All(ctx context.Context) ([]corev1.Pod, error) {
	nodes, err := c.NodePods(ctx)
	return slices.Concat(c.daemons, nodes), err
}

// Pod is the pod of a name, or of a node's name; nil where there is none.
func (c *Cluster) Pod(ctx context.Context, name string) (*corev1.Pod, error) {
	p, err := c.api.CoreV1().Pods(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil && p.Labels[wellknown.Cluster] == c.Name:
		return p, nil
	case err != nil && !apierrors.IsNotFound(err):
		return nil, judge(Right{Verb: "get", Resource: "pods", Namespace: c.Namespace, Name: name}, err)
	}
	all, err := c.All(ctx)
	for i := range all {
		if HostName(&all[i]) == name {
			return &all[i], err
		}
	}
	return nil, err
}

// mostHostname is what the kubelet leaves of a longer name.
const mostHostname = 63

// HostName is what the kubelet calls a pod, which is the name of its node in Slurm.
func HostName(p *corev1.Pod) string {
	name := cmp.Or(p.Spec.Hostname, p.Name)
	if p.Spec.HostnameOverride != nil {
		name = cmp.Or(*p.Spec.HostnameOverride, name)
	}
	if len(name) > mostHostname {
		name = strings.TrimRight(name[:mostHostname], "-.")
	}
	return name
}

// Container is the one with the agent.
func Container(p *corev1.Pod) string {
	names := make([]string, len(p.Spec.Containers))
	for i := range p.Spec.Containers {
		names[i] = p.Spec.Containers[i].Name
	}
	for _, name := range []string{p.Annotations[wellknown.Container], p.Labels[wellknown.Role], p.Annotations["kubectl.kubernetes.io/default-container"]} {
		if name != "" && slices.Contains(names, name) {
			return name
		}
	}
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// Ready says whether Kubernetes counts a pod as Ready.
func Ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
