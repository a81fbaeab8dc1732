package pods

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/slurmlet/slurmlet/controller/internal/machines"
	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// The labels of a cluster's pods. A cluster is a namespace and the label's value.
const (
	ClusterLabel = wellknown.Cluster
	RoleLabel    = wellknown.Role
	NodeSetLabel = wellknown.NodeSet
	// ElasticLabel is the elastic node set of a pod or of a PodTemplate.
	ElasticLabel = wellknown.Elastic
)

// Pod is what the controller keeps of a pod: some 500 bytes of 10 kB.
type Pod struct {
	metav1.ObjectMeta // without labels, annotations, owners and managers
	// Label is the value of ClusterLabel.
	Label, NodeSet, Machine unique.Handle[string]
	Role                    unique.Handle[role.Role]
	Hostname                string
	// Gateway says that the pod may submit jobs of Kubernetes' pods.
	Gateway bool
	// Together says that pods in Slurm's queue share the pod's machine with each other, and with no job of Slurm's.
	Together  bool
	Addresses []netip.Addr
	// Injected is what the webhook did to the pod; empty for most.
	Injected unique.Handle[string]
	// Over says that no container of the pod will run again.
	Over bool
	// Pending says that none has run yet.
	Pending, Ready bool
	// Owner is what made the pod, and Revision which of its revisions the pod is.
	Owner    types.UID
	Kind     string
	Revision unique.Handle[string]
	Marks
	// Elastic is the value of ElasticLabel; empty for most. NotRunning is what keeps such a pod from running.
	Elastic    unique.Handle[string]
	NotRunning *NotRunning
	// ConfigMaps are the names of those that a pod of slurmctld mounts; nil for other pods.
	ConfigMaps []string
}

// Marks are what the controller itself writes to pods.
type Marks struct {
	// Cost and SafeToEvict are annotations, empty where there are none.
	Cost, SafeToEvict string
	// Registered and Idle are conditions, empty where there are none.
	Registered, Idle corev1.ConditionStatus
}

// The names of the marks.
const (
	CostAnnotation  = wellknown.DeletionCost
	EvictAnnotation = wellknown.SafeToEvict

	RegisteredCondition corev1.PodConditionType = wellknown.Registered
	IdleCondition       corev1.PodConditionType = wellknown.Idle
)

// Cluster is the name of the pod's cluster.
func (p *Pod) Cluster() string { return p.Namespace + "/" + p.Label.Value() }

// trimPod makes a Pod of Kubernetes' one.
func trimPod(object any) (any, error) {
	from, is := object.(*corev1.Pod)
	if !is {
		return object, nil // trimmed already
	}
	p := &Pod{
		ObjectMeta: trimMeta(from.ObjectMeta),
		Label:      unique.Make(from.Labels[ClusterLabel]), Role: unique.Make(role.Role(from.Labels[RoleLabel])), NodeSet: unique.Make(from.Labels[NodeSetLabel]),
		Machine: unique.Make(from.Spec.NodeName), Hostname: hostname(from),
		Injected: unique.Make(from.Annotations[wellknown.Injected]),
		Over:     from.Status.Phase == corev1.PodSucceeded || from.Status.Phase == corev1.PodFailed,
	}
	p.Gateway = from.Labels[wellknown.Gateway] == "true"
	p.Together = from.Annotations[wellknown.Sharing] == wellknown.SharedByPods
	p.Pending = from.Status.Phase == corev1.PodPending
	p.Revision = unique.Make(from.Labels[appsv1.ControllerRevisionHashLabelKey])
	if owner := metav1.GetControllerOfNoCopy(from); owner != nil {
		p.Owner, p.Kind = owner.UID, intern(owner.Kind)
	}
	p.mark(from)
	p.Elastic = unique.Make(from.Labels[ElasticLabel])
	if from.Labels[ElasticLabel] != "" {
		p.NotRunning = notRunning(from)
	}
	if p.Role.Value() == role.Slurmctld {
		p.ConfigMaps = configMaps(from.Spec.Volumes)
	}
	for _, ip := range from.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			p.Addresses = append(p.Addresses, a)
		}
	}
	return p, nil
}

func (p *Pod) mark(from *corev1.Pod) {
	p.Cost, p.SafeToEvict = intern(from.Annotations[CostAnnotation]), intern(from.Annotations[EvictAnnotation])
	for _, c := range from.Status.Conditions {
		status := corev1.ConditionStatus(intern(string(c.Status)))
		switch c.Type {
		case corev1.PodReady:
			p.Ready = status == corev1.ConditionTrue
		case RegisteredCondition:
			p.Registered = status
		case IdleCondition:
			p.Idle = status
		}
	}
}

// configMaps are the names of those in volumes.
func configMaps(volumes []corev1.Volume) (names []string) {
	for _, v := range volumes {
		if v.ConfigMap != nil {
			names = append(names, v.ConfigMap.Name)
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.ConfigMap != nil {
				names = append(names, source.ConfigMap.Name)
			}
		}
	}
	return names
}

// intern gives the one copy of a text that many pods have.
func intern(text string) string { return unique.Make(text).Value() }

func trimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: unique.Make(m.Namespace).Value(), Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
	}
}

// mostHostname is what the kubelet leaves of a longer name.
const mostHostname = 63

// hostname is what the kubelet calls the pod.
func hostname(p *corev1.Pod) string {
	name := p.Name
	if p.Spec.Hostname != "" {
		name = p.Spec.Hostname
	}
	if p.Spec.HostnameOverride != nil && *p.Spec.HostnameOverride != "" {
		name = *p.Spec.HostnameOverride
	}
	if len(name) > mostHostname {
		name = strings.TrimRight(name[:mostHostname], "-.")
	}
	return name
}

// claim is the pod as a peer.
func (p *Pod) claim() peerserver.Claim {
	return peerserver.Claim{
		Created: p.CreationTimestamp.Time,
		Peer: wire.Peer{
			Name: p.Hostname, Role: p.Role.Value(), NodeSet: p.NodeSet.Value(), UID: string(p.UID),
			Addresses: p.Addresses, Machine: p.Machine.Value(), Ending: p.DeletionTimestamp != nil,
		},
	}
}

// Fault is why a pod is no peer, in the words of an event.
type Fault struct{ Reason, Note string }

// news is what the webhook did, in the words of an event. An event lives for an hour, so that an older
// pod has had its own.
func (p *Pod) news(now time.Time) (Fault, bool) {
	did := p.Injected.Value()
	if did == "" || now.Sub(p.CreationTimestamp.Time) > newsTime {
		return Fault{}, false
	}
	return Fault{injected, "The webhook gave the pod the agent: " + did + "."}, true
}

// newsTime is longer than it takes to find another leader.
const newsTime = 10 * time.Minute

func (p *Pod) fault() *Fault {
	switch is := p.Role.Value(); {
	case is == "":
		return &Fault{noRole, fmt.Sprintf("The pod has the label %s and no label %s, so no agent is told its name. The roles are %s.", ClusterLabel, RoleLabel, role.List())}
	case !slices.Contains(role.All(), is):
		return &Fault{unknownRole, fmt.Sprintf("The label %s is %q, so no agent is told the pod's name. The roles are %s.", RoleLabel, is, role.List())}
	}
	return nil
}

// machine is what the controller keeps of a Kubernetes node.
type machine struct {
	metav1.ObjectMeta
	machines.Machine
}

// trimNode makes a machine of Kubernetes' node.
func trimNode(rules *machines.Rules) cache.TransformFunc {
	return func(object any) (any, error) {
		from, is := object.(*corev1.Node)
		if !is {
			return object, nil
		}
		return &machine{trimMeta(from.ObjectMeta), rules.Of(from)}, nil
	}
}

// settled is the age from which a pod's machine must be known: Kubernetes makes the node before it binds
// a pod, but tells of both in separate streams.
const settled = time.Minute
