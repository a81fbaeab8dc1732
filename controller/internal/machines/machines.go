// Package machines turns a Kubernetes node into what an agent on it is told: labels, Slurm's features,
// topology and weight made of labels, and why the machine must not take jobs.
package machines

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// Settings say what the agents are told of their machines. Each is a list, separated by commas.
type Settings struct {
	// Labels are keys, or prefixes as in topology.kubernetes.io/*.
	Labels string
	// Features, Topology and Weight are templates (Template).
	Features, Topology, Weight string
	// Taints are key[=value][:effect], Conditions are type[=status]; without a status it is True.
	Taints, Conditions string
}

// Usual are the Settings for which the value `usual` stands.
var Usual = Settings{Taints: strings.Join(usualTaints, ","), Conditions: strings.Join(usualConditions, ",")}

// usualTaints are those with which the usual handlers announce that a machine goes away.
var usualTaints = []string{
	corev1.TaintNodeOutOfService,
	"node.cloudprovider.kubernetes.io/shutdown",
	"ToBeDeletedByClusterAutoscaler",
	"karpenter.sh/disrupted",
	"karpenter.sh/disruption", // before Karpenter 1.0
	"aws-node-termination-handler/spot-itn",
	"aws-node-termination-handler/scheduled-maintenance",
	"aws-node-termination-handler/asg-lifecycle-termination",
	"cloud.google.com/impending-node-termination",
	"remediator.kubernetes.azure.com/unschedulable",
	"remediator.aks.microsoft.com/unschedulable",
}

// usualConditions are the kubelet's own, and those of node-problem-detector that do not pass by themselves.
// Ready=Unknown is not among them: a kubelet's silence says nothing of slurmd, and when all kubelets lose the
// API server, it would drain the whole cluster. slurmctld finds a dead slurmd itself.
var usualConditions = []string{"Ready=False", "KernelDeadlock", "ReadonlyFilesystem"}

// Rules are Settings that have been understood.
type Rules struct {
	labels, prefixes           []string
	features, topology, weight []*template
	taints                     []taint
	conditions                 []condition
}

// taint matches those with its key, and with its value and effect where it has them.
type taint struct {
	key, value, effect string
	anyValue           bool
}

type condition struct {
	kind   corev1.NodeConditionType
	status corev1.ConditionStatus
}

// Parse understands Settings. Its error has every fault.
func Parse(s Settings) (*Rules, error) {
	r := &Rules{}
	var faults []error
	each := func(what, list string, parse func(string) error) {
		for _, one := range split(list) {
			if err := parse(one); err != nil {
				faults = append(faults, fmt.Errorf("%s: cannot use %q: %w", what, one, err))
			}
		}
	}
	templates := func(to *[]*template, kind kind) func(string) error {
		return func(text string) error {
			t, err := parseTemplate(text, kind)
			*to = append(*to, t)
			return err
		}
	}
	each("labels", s.Labels, r.addLabel)
	each("features", s.Features, templates(&r.features, feature))
	each("topology", s.Topology, templates(&r.topology, topology))
	each("weight", s.Weight, templates(&r.weight, weight))
	each("taints", s.Taints, r.addTaint)
	each("conditions", s.Conditions, r.addCondition)
	return r, errors.Join(faults...)
}

// split takes a list apart at its commas, which have no meaning inside a template's braces.
func split(list string) []string {
	var all []string
	depth, begin := 0, 0
	add := func(end int) {
		if one := strings.TrimSpace(list[begin:end]); one != "" {
			all = append(all, one)
		}
		begin = end + 1
	}
	for i, c := range list {
		switch {
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
		case c == ',' && depth == 0:
			add(i)
		}
	}
	add(len(list))
	return all
}

func (r *Rules) addLabel(key string) error {
	if prefix, is := strings.CutSuffix(key, "/*"); is {
		r.prefixes = append(r.prefixes, prefix+"/")
		return wrong(validation.IsDNS1123Subdomain(prefix))
	}
	r.labels = append(r.labels, key)
	return wrong(validation.IsQualifiedName(key))
}

func (r *Rules) addTaint(text string) error {
	name, effect, hasEffect := strings.Cut(text, ":")
	key, value, hasValue := strings.Cut(name, "=")
	r.taints = append(r.taints, taint{key, value, effect, !hasValue})
	effects := []string{string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectPreferNoSchedule), string(corev1.TaintEffectNoExecute)}
	if hasEffect && !slices.Contains(effects, effect) {
		return fmt.Errorf("%q is no effect: want %s", effect, strings.Join(effects, ", "))
	}
	return errors.Join(wrong(validation.IsQualifiedName(key)), wrong(validation.IsValidLabelValue(value)))
}

func (r *Rules) addCondition(text string) error {
	kind, status, has := strings.Cut(text, "=")
	if !has {
		status = string(corev1.ConditionTrue)
	}
	r.conditions = append(r.conditions, condition{corev1.NodeConditionType(kind), corev1.ConditionStatus(status)})
	statuses := []string{string(corev1.ConditionTrue), string(corev1.ConditionFalse), string(corev1.ConditionUnknown)}
	if !slices.Contains(statuses, status) {
		return fmt.Errorf("%q is no status: want %s", status, strings.Join(statuses, ", "))
	}
	return wrong(validation.IsQualifiedName(kind))
}

// wrong makes an error of what Kubernetes says of a name.
func wrong(said []string) error {
	if len(said) == 0 {
		return nil
	}
	return errors.New(strings.Join(said, "; "))
}

// Machine is what the controller keeps of a Kubernetes node.
type Machine struct {
	// Self is what the agents on it are told, without what differs from pod to pod.
	Self wire.Self
	// Faults are what a template could not use of this machine's labels.
	Faults []string
	// OutOfService: an administrator has declared the machine to be off.
	OutOfService bool
	// Unschedulable: it is cordoned. Mark and Tainted are the controller's own marks.
	Unschedulable, Tainted bool
	Mark                   string
	// Drained is the value of DrainedAnnotation.
	Drained string
}

// The controller's own marks on a Kubernetes node that Slurm has drained.
const (
	// Annotation says that the controller has cordoned or tainted the machine, and why. It begins with
	// CordonMark where that is how.
	Annotation = wellknown.DrainedBySlurm
	CordonMark = "cordon"
	// DrainedAnnotation has the nodes that the mark is for, as namespace/cluster/node, separated by commas.
	DrainedAnnotation = wellknown.DrainedNodes
	// Taint is the taint's key.
	Taint = wellknown.Drained
)

// Of is what is kept of a Kubernetes node.
func (r *Rules) Of(n *corev1.Node) Machine {
	m := Machine{
		Self: wire.Self{Machine: n.Name, Labels: r.passed(n.Labels)},
		Mark: n.Annotations[Annotation], Drained: n.Annotations[DrainedAnnotation], Unschedulable: n.Spec.Unschedulable,
		OutOfService: slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }),
		Tainted:      slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == Taint }),
	}
	s := &m.Self
	words := func(what string, from []*template) []string {
		all, faults := expand(from, n.Labels)
		for _, fault := range faults {
			m.Faults = append(m.Faults, what+": "+fault)
		}
		return all
	}
	s.Features = slices.Compact(slices.Sorted(slices.Values(words("features", r.features))))
	s.Topology = strings.Join(words("topology", r.topology), ",")
	if weights := words("weight", r.weight); len(weights) > 0 {
		s.Weight = weights[0]
	}
	s.Drain = r.drain(n)
	return m
}

// Equal says whether nothing has changed that the controller uses.
func (m Machine) Equal(o Machine) bool {
	return m.Self.Machine == o.Self.Machine && maps.Equal(m.Self.Labels, o.Self.Labels) && slices.Equal(m.Self.Features, o.Self.Features) &&
		m.Self.Topology == o.Self.Topology && m.Self.Weight == o.Self.Weight && m.Self.Drain == o.Self.Drain && slices.Equal(m.Faults, o.Faults) &&
		m.OutOfService == o.OutOfService && m.Unschedulable == o.Unschedulable && m.Tainted == o.Tainted && m.Mark == o.Mark && m.Drained == o.Drained
}

func (r *Rules) passed(labels map[string]string) map[string]string {
	var all map[string]string
	for key, value := range labels {
		if slices.Contains(r.labels, key) || slices.ContainsFunc(r.prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
			if all == nil {
				all = map[string]string{}
			}
			all[key] = value
		}
	}
	return all
}

// drain is why the machine must not take jobs, in one line that Slurm can keep; empty if it may.
func (r *Rules) drain(n *corev1.Node) string {
	var why []string
	// A cordon of the controller's own follows Slurm, and Slurm must not follow it back: with two nodes
	// on the machine, one node's drain would be the other's for ever.
	if n.Spec.Unschedulable && !strings.HasPrefix(n.Annotations[Annotation], CordonMark) {
		why = append(why, "is cordoned")
	}
	for _, t := range n.Spec.Taints {
		if slices.ContainsFunc(r.taints, func(want taint) bool { return want.matches(t) }) {
			why = append(why, "has the taint "+t.ToString())
		}
	}
	for _, c := range n.Status.Conditions {
		if slices.Contains(r.conditions, condition{c.Type, c.Status}) {
			why = append(why, state(c))
		}
	}
	if len(why) == 0 {
		return ""
	}
	slices.Sort(why) // Kubernetes tells of taints and conditions in any order
	return wire.DrainReason(n.Name, strings.Join(why, ", "))
}

func state(c corev1.NodeCondition) string {
	switch {
	case c.Type == corev1.NodeReady && c.Status == corev1.ConditionFalse:
		return "is not ready"
	case c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown:
		return "does not answer Kubernetes"
	case c.Status == corev1.ConditionTrue:
		return "has the condition " + string(c.Type)
	}
	return "has the condition " + string(c.Type) + "=" + string(c.Status)
}

func (t taint) matches(have corev1.Taint) bool {
	return t.key == have.Key && (t.anyValue || t.value == have.Value) && (t.effect == "" || t.effect == string(have.Effect))
}
