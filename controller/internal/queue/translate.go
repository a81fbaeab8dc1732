package queue

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// Tenant is what a namespace says of its pods' jobs.
type Tenant struct {
	// Cluster is the Slurm cluster, as namespace/name, and User the Slurm user.
	Cluster, User string
	// Account, Partition and QOS are those of pods that name none.
	Account, Partition, QOS string
	// Users are those that pods may name besides User.
	Users []string
	// Sets are the cluster's node sets, and whether pods in the queue share the machines of each with each other.
	Sets map[string]bool
}

// mcsLabel is the label of all jobs whose pods share nodes with each other (mcs/label of Slurm).
const mcsLabel = "kubernetes"

// together says whether pods of some partitions share nodes with each other: a partition that is called as a node set has its
// nodes, and in any other one all nodes may be.
func (t Tenant) together(partitions string) bool {
	for name := range strings.SplitSeq(partitions, ",") {
		if is, set := t.Sets[name]; set && !is {
			return false
		} else if !set {
			return len(t.Sets) > 0 && !slices.Contains(slices.Collect(maps.Values(t.Sets)), false)
		}
	}
	return true
}

// TenantOf reads a namespace's labels and annotations. The error is a sentence for an event.
func TenantOf(name string, labels, annotations map[string]string) (Tenant, error) {
	get := func(key string) string {
		if v := annotations[key]; v != "" {
			return v
		}
		return labels[key]
	}
	t := Tenant{
		Cluster: get(wellknown.Cluster), User: get(wellknown.User),
		Account: get(wellknown.Account), Partition: get(wellknown.Partition), QOS: get(wellknown.QOS),
	}
	for one := range strings.SplitSeq(annotations[wellknown.Allow], ",") {
		if users, is := strings.CutPrefix(strings.TrimSpace(one), "user-id="); is {
			t.Users = append(t.Users, strings.Split(users, ";")...)
		}
	}
	if namespace, cluster, is := strings.Cut(t.Cluster, "/"); !is || namespace == "" || cluster == "" {
		return t, fmt.Errorf("the namespace %s names no Slurm cluster: its annotation %s is %q, and namespace/name is allowed, as in hpc/slurm", name, wellknown.Cluster, t.Cluster)
	}
	if !word(t.User) {
		return t, fmt.Errorf("the namespace %s names no Slurm user: its label or annotation %s is %q, and the name of a user is allowed, as in alice", name, wellknown.User, t.User)
	}
	for key, value := range map[string]string{wellknown.Account: t.Account, wellknown.Partition: t.Partition, wellknown.QOS: t.QOS} {
		if value != "" && !list(value) {
			return t, fmt.Errorf("the mark %s of the namespace %s is %q, and Slurm's names are allowed", key, name, value)
		}
	}
	return t, nil
}

// word says whether text may be a name of Slurm's or Linux'.
func word(text string) bool { return list(text) && !strings.ContainsAny(text, ",") }

// list says whether sbatch takes text as one argument that is no path and no code.
func list(text string) bool {
	if text == "" || len(text) > 256 || text[0] == '-' {
		return false
	}
	for _, r := range text {
		if r <= ' ' || r > '~' || strings.ContainsRune("'\"`\\$;<>%{}", r) {
			return false
		}
	}
	return true
}

// annotation is one of slurm-bridge's, and what is allowed.
type annotation struct {
	allowed string
	valid   func(string) bool
}

const slinky = "slurmjob.slinky.slurm.net/"

func count(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 1 && n <= 1<<20
}

func quantity(text string) bool {
	q, err := resource.ParseQuantity(text)
	return err == nil && q.Sign() > 0
}

var (
	isWord     = annotation{"one of Slurm's names", word}
	isList     = annotation{"Slurm's names, as sbatch takes them, without spaces and quotes", list}
	isCount    = annotation{"a whole number from 1", count}
	isQuantity = annotation{"a quantity above 0, as in 2 or 500m or 4Gi", quantity}
	isBool     = annotation{"true or false", func(text string) bool { return text == "true" || text == "false" }}
)

// annotations are all 18 by their names behind slurmjob.slinky.slurm.net/.
var annotations = map[string]annotation{
	"account": isWord, "constraints": isList, "cpu-per-task": isQuantity, "exclusive": isBool, "gres": isList, "group-id": isWord, "job-name": isWord,
	"licenses": isList, "max-nodes": isCount, "mem-per-node": isQuantity, "min-nodes": isCount, "partition": isList, "priority": isCount, "qos": isList,
	"reservation": isList, "timelimit": isCount, "user-id": isWord, "wckey": isWord,
}

// values are the annotations of a pod and its owners, all of them allowed.
func values(marks map[string]string) (map[string]string, error) {
	found := map[string]string{}
	for key, value := range marks {
		name, is := strings.CutPrefix(key, slinky)
		if !is {
			continue
		}
		rule, known := annotations[name]
		if !known {
			return nil, fmt.Errorf("the annotation %s is none of slurm-bridge's: %s are allowed", key, strings.Join(names(), ", "))
		}
		if !rule.valid(value) {
			return nil, fmt.Errorf("the annotation %s is %q, and %s is allowed", key, value, rule.allowed)
		}
		found[name] = value
	}
	return found, nil
}

func names() (all []string) {
	for name := range annotations {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Translate is what a group asks Slurm for: its user and sbatch's arguments. pods are those that are there, one at
// least. The error is a sentence for an event.
func Translate(g Group, t Tenant, pods []*corev1.Pod, owners []Owner) (user string, args []string, err error) {
	v, err := values(Annotations(pods[0], owners))
	if err != nil {
		return "", nil, err
	}
	if user, err = t.user(v); err != nil {
		return "", nil, err
	}
	add := func(flag, value string) {
		if value != "" {
			args = append(args, "--"+flag+"="+value)
		}
	}
	first := func(values ...string) string {
		for _, one := range values {
			if one != "" {
				return one
			}
		}
		return ""
	}
	_, name, _ := strings.Cut(g.Name, "/")
	add("comment", wire.GroupComment+g.UID+" "+g.Name)
	add("job-name", first(v["job-name"], name))
	args = append(args, "--chdir=/", "--output=/dev/null", "--error=/dev/null", "--export=NIL")
	if g.Gang {
		args = append(args, "--requeue")
	} else {
		args = append(args, "--no-requeue")
	}
	add("account", first(v["account"], t.Account))
	partition := first(v["partition"], t.Partition)
	add("partition", partition)
	add("qos", first(v["qos"], t.QOS))
	add("constraint", v["constraints"])
	add("licenses", v["licenses"])
	add("reservation", v["reservation"])
	add("wckey", v["wckey"])
	add("time", first(v["timelimit"], limit(pods, owners)))
	return user, append(args, sizes(g, v, pods, v["exclusive"] != "true" && t.together(partition))...), nil
}

// user is Slurm's user of a group. Who may be another one is the namespace's to say.
func (t Tenant) user(v map[string]string) (string, error) {
	if v["group-id"] != "" {
		return "", fmt.Errorf("the annotation %sgroup-id is %q, and none is allowed: the user's own group counts", slinky, v["group-id"])
	}
	if v["priority"] != "" {
		return "", fmt.Errorf("the annotation %spriority is %q, and none is allowed: Slurm lets operators alone set a job's priority", slinky, v["priority"])
	}
	if named := v["user-id"]; named != "" && named != t.User {
		if !slices.Contains(t.Users, named) {
			return "", fmt.Errorf("the annotation %suser-id is %q, and %s is allowed: the annotation %s of the namespace allows others",
				slinky, named, strings.Join(append([]string{t.User}, t.Users...), " or "), wellknown.Allow)
		}
		return named, nil
	}
	return t.User, nil
}

// limit is the time limit in minutes that Kubernetes has for the pods; empty for none.
func limit(pods []*corev1.Pod, owners []Owner) string {
	var seconds int64
	for _, p := range pods {
		if d := p.Spec.ActiveDeadlineSeconds; d != nil {
			seconds = max(seconds, *d)
		}
	}
	for _, o := range owners {
		if o.Deadline > 0 {
			seconds = o.Deadline
		}
	}
	if seconds <= 0 {
		return ""
	}
	return strconv.FormatInt((seconds+59)/60, 10)
}

// sizes are the arguments about nodes, tasks, CPUs, memory and GPUs. A pod is a task of one node. Groups that are together share
// nodes.
func sizes(g Group, v map[string]string, pods []*corev1.Pod, together bool) (args []string) {
	var cpus, memory int64
	gpus := map[string]int64{}
	for _, p := range pods {
		need := Needs(p)
		cpus, memory = max(cpus, ceil(need.Cpu(), 0)), max(memory, need.Memory().Value())
		for name, q := range need {
			if kind, is := gpu(string(name)); is {
				gpus[kind] = max(gpus[kind], ceil(&q, 0))
			}
		}
	}
	cpus, memory = max(cpus, 1), (memory+1<<20-1)>>20
	if q := v["cpu-per-task"]; q != "" {
		one := resource.MustParse(q)
		cpus = max(ceil(&one, 0), 1)
	}
	exclusive, size := v["exclusive"] != "false" && !together, strconv.Itoa(g.Size)
	args = append(args, "--ntasks="+size, "--cpus-per-task="+strconv.FormatInt(cpus, 10))
	least, most := v["min-nodes"], v["max-nodes"]
	switch {
	case least != "" || most != "":
		args = append(args, "--nodes="+nodes(least, most, g.Size))
	case exclusive:
		args = append(args, "--nodes="+size, "--ntasks-per-node=1")
	case g.Size == 1:
		args = append(args, "--nodes=1")
	}
	switch {
	case exclusive:
		args = append(args, "--exclusive")
	case together:
		args = append(args, "--exclusive=mcs", "--mcs-label="+mcsLabel)
	}
	switch q := v["mem-per-node"]; {
	case q != "":
		one := resource.MustParse(q)
		args = append(args, "--mem="+strconv.FormatInt(max((one.Value()+1<<20-1)>>20, 1), 10)+"M")
	case memory == 0:
	case exclusive: // --exclusive with --mem-per-cpu asks for the memory of all CPUs
		args = append(args, "--mem="+strconv.FormatInt(memory, 10)+"M")
	default:
		args = append(args, "--mem-per-cpu="+strconv.FormatInt((memory+cpus-1)/cpus, 10)+"M")
	}
	if v["gres"] != "" {
		return append(args, "--gres="+v["gres"])
	}
	var kinds []string
	for kind, n := range gpus {
		if n > 0 {
			kinds = append(kinds, kind+strconv.FormatInt(n, 10))
		}
	}
	if slices.Sort(kinds); len(kinds) > 0 {
		args = append(args, "--gpus-per-task="+strings.Join(kinds, ","))
	}
	return args
}

// nodes is the value of --nodes. A group has no more nodes than pods.
func nodes(least, most string, size int) string {
	low, high := 1, size
	if n, err := strconv.Atoi(least); err == nil {
		low = n
	}
	if n, err := strconv.Atoi(most); err == nil {
		high = n
	}
	if high = max(high, low); low == high {
		return strconv.Itoa(low)
	}
	return strconv.Itoa(low) + "-" + strconv.Itoa(high)
}

// gpu is the type of a GPU with its colon, or empty for any, and whether the resource is one.
func gpu(name string) (kind string, is bool) {
	if name == "nvidia.com/gpu" || name == "amd.com/gpu" {
		return "", true
	}
	kind, is = strings.CutPrefix(name, "deviceclass.resource.kubernetes.io/")
	return kind + ":", is && word(kind)
}

// ceil is a quantity in units of 10^scale.
func ceil(q *resource.Quantity, scale resource.Scale) int64 { return q.ScaledValue(scale) }

// Needs is what a pod needs of its node: of each resource the greater of requests and limits.
func Needs(p *corev1.Pod) corev1.ResourceList {
	sum, most := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range p.Spec.Containers {
		plus(sum, needs(&p.Spec.Containers[i]))
	}
	sidecars := corev1.ResourceList{}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			plus(sum, needs(c))
			plus(sidecars, needs(c))
			continue
		}
		one := needs(c)
		plus(one, sidecars)
		greatest(most, one)
	}
	greatest(sum, most)
	if p.Spec.Resources != nil {
		greatest(sum, p.Spec.Resources.Requests)
		greatest(sum, p.Spec.Resources.Limits)
	}
	plus(sum, p.Spec.Overhead)
	return sum
}

func needs(c *corev1.Container) corev1.ResourceList {
	one := corev1.ResourceList{}
	greatest(one, c.Resources.Requests)
	greatest(one, c.Resources.Limits)
	return one
}

func plus(to, of corev1.ResourceList) {
	for name, q := range of {
		sum := to[name]
		sum.Add(q)
		to[name] = sum
	}
}

func greatest(to, of corev1.ResourceList) {
	for name, q := range of {
		if has := to[name]; has.Cmp(q) < 0 {
			to[name] = q.DeepCopy()
		}
	}
}

// mostPriority is the priority from which the kubelet takes a pod for critical: it would have slurmd's pod go.
const mostPriority = 2_000_000_000

// Unfit is why a pod may not wait in Slurm's queue, in a sentence; empty if it may.
func Unfit(p *corev1.Pod) string {
	if p.Spec.Priority != nil && *p.Spec.Priority >= mostPriority {
		return fmt.Sprintf("the pod's priority is %d, and less than %d is allowed: it would have the node's slurmd go", *p.Spec.Priority, mostPriority)
	}
	if p.Spec.Affinity != nil && p.Spec.Affinity.NodeAffinity != nil {
		if r := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
			for _, term := range r.NodeSelectorTerms {
				if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
					return "a term of the pod's required node affinity is empty, and Kubernetes lets nobody add a node to it"
				}
			}
		}
	}
	return ""
}
