package inject

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// noKeys is the value of wellknown.Keys for an image that has the key.
const noKeys = "none"

// ownSecurity is the only value of wellknown.SecurityContext.
const ownSecurity = "slurmlet"

// request is what a pod's annotations ask for.
type request struct {
	role      role
	container int // the index in spec.containers
	cluster   string
	nodeSet   string
	slurmctld string
	keys      string // "": the default
	cgroup    string // "": the controller's setting
	secure    bool
	contains  bool // the pod makes jobs' containers
}

var annotations = field.NewPath("metadata", "annotations")

// read finds every fault of the annotations.
func read(pod *corev1.Pod, s Settings) (request, field.ErrorList) {
	r := request{container: -1, keys: pod.Annotations[wellknown.Keys], cgroup: pod.Annotations[wellknown.Cgroup]}
	var faults field.ErrorList
	fault := func(err *field.Error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	name := pod.Annotations[wellknown.Inject]
	at := slices.IndexFunc(roles, func(r role) bool { return r.name == name })
	if at < 0 {
		fault(field.NotSupported(annotations.Key(wellknown.Inject), name, roleNames()))
		return r, faults
	}
	r.role = roles[at]
	fault(r.readContainer(pod))
	fault(r.readCluster(pod, s))
	fault(r.readNodeSet(pod))
	fault(r.readSlurmctld(pod))
	fault(r.readKeys())
	fault(r.readCgroup())
	fault(r.readJobContainers(pod))
	value, asked := pod.Annotations[wellknown.SecurityContext]
	if r.secure = asked; asked && value != ownSecurity {
		fault(field.NotSupported(annotations.Key(wellknown.SecurityContext), value, []string{ownSecurity}))
	}
	return r, faults
}

func (r *request) readContainer(pod *corev1.Pod) *field.Error {
	var names []string
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	name, given := pod.Annotations[wellknown.Container]
	switch {
	case given:
		if r.container = slices.Index(names, name); r.container < 0 {
			return field.NotSupported(annotations.Key(wellknown.Container), name, names)
		}
	case len(names) == 1:
		r.container = 0
	default:
		return field.Required(annotations.Key(wellknown.Container), "the pod has several containers; name one of "+strings.Join(names, ", "))
	}
	return nil
}

func (r *request) readCluster(pod *corev1.Pod, s Settings) *field.Error {
	value, err := annotationOrLabel(pod, wellknown.Cluster)
	if err != nil {
		return err
	}
	if value == "" {
		value = s.Cluster
	}
	if value == "" {
		return field.Required(annotations.Key(wellknown.Cluster), "the name of the cluster that the pod belongs to")
	}
	if wrong := validation.IsDNS1123Label(value); len(wrong) > 0 {
		return field.Invalid(annotations.Key(wellknown.Cluster), value, strings.Join(wrong, "; "))
	}
	r.cluster = value
	return nil
}

func (r *request) readNodeSet(pod *corev1.Pod) *field.Error {
	value, err := annotationOrLabel(pod, wellknown.NodeSet)
	if err != nil || value == "" {
		return err
	}
	if r.role.name != "slurmd" {
		return field.Forbidden(annotations.Key(wellknown.NodeSet), fmt.Sprintf("a pod of role %s belongs to no node set", r.role.name))
	}
	if wrong := validation.IsValidLabelValue(value); len(wrong) > 0 {
		return field.Invalid(annotations.Key(wellknown.NodeSet), value, strings.Join(wrong, "; "))
	}
	r.nodeSet = value
	return nil
}

func (r *request) readJobContainers(pod *corev1.Pod) *field.Error {
	value, asked := pod.Annotations[wellknown.JobContainers]
	path := annotations.Key(wellknown.JobContainers)
	switch {
	case asked && value != "true" && value != "false":
		return field.NotSupported(path, value, []string{"true", "false"})
	case value == "true" && r.role.name != "slurmd":
		return field.Forbidden(path, fmt.Sprintf("a pod of role %s runs no jobs", r.role.name))
	}
	r.contains = value == "true"
	return nil
}

// annotationOrLabel is the value of a key that may be both.
func annotationOrLabel(pod *corev1.Pod, key string) (string, *field.Error) {
	annotation, annotated := pod.Annotations[key]
	label, labelled := pod.Labels[key]
	switch {
	case annotated && labelled && annotation != label:
		return "", field.Invalid(annotations.Key(key), annotation, fmt.Sprintf("the pod's label %s has another value, %q", key, label))
	case annotated:
		return annotation, nil
	default:
		return label, nil
	}
}

func (r *request) readSlurmctld(pod *corev1.Pod) *field.Error {
	value, given := pod.Annotations[wellknown.Slurmctld]
	if !given {
		r.slurmctld = r.cluster + "-slurmctld:6817"
		return nil
	}
	path := annotations.Key(wellknown.Slurmctld)
	if !r.role.asks {
		return field.Forbidden(path, fmt.Sprintf("a pod of role %s does not need slurmctld's address", r.role.name))
	}
	for entry := range strings.SplitSeq(value, ",") {
		if !isAddress(entry) {
			return field.Invalid(path, value, "want host[:port], several separated by commas")
		}
	}
	r.slurmctld = value
	return nil
}

// isAddress says whether text is host[:port], as SLURMLET_SLURMCTLD has it.
func isAddress(text string) bool {
	host, port, ported := strings.Cut(text, ":")
	if !ported {
		port = "6817"
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number > 0 && len(validation.IsDNS1123Subdomain(strings.TrimSuffix(host, "."))) == 0
}

func (r *request) readKeys() *field.Error {
	path := annotations.Key(wellknown.Keys)
	switch {
	case r.keys == "":
		return nil
	case !r.role.keys:
		return field.Forbidden(path, fmt.Sprintf("a pod of role %s mounts its own configuration and keys at /etc/slurm", r.role.name))
	case r.keys == noKeys:
		return nil
	}
	if wrong := validation.IsDNS1123Subdomain(r.keys); len(wrong) > 0 {
		return field.Invalid(path, r.keys, `want a Secret's name, or "none"`)
	}
	return nil
}

func (r *request) readCgroup() *field.Error {
	path, modes := annotations.Key(wellknown.Cgroup), []string{"require", "prefer", "off"}
	switch {
	case r.cgroup == "":
		return nil
	case r.role.name != "slurmd":
		return field.Forbidden(path, fmt.Sprintf("a pod of role %s has no jobs", r.role.name))
	case !slices.Contains(modes, r.cgroup):
		return field.NotSupported(path, r.cgroup, modes)
	}
	return nil
}
