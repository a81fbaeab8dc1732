// Package wellknown has the labels, annotations, taints, conditions and events by which slurmlet and
// Kubernetes tell each other something. docs/reference/kubernetes.md is written from it.
package wellknown

import "slices"

// What says which of Kubernetes' kinds of marks a key is.
type What string

// The kinds of marks.
const (
	Label      What = "label"
	Annotation What = "annotation"
	Taint      What = "taint"
	Condition  What = "condition"
)

// Key is a mark on an object of Kubernetes.
type Key struct {
	Name string
	What What
	// On is the object, and By who sets it, in words of the reference.
	On, By string
	// Value is what the mark may have, and Meaning what it says.
	Value, Meaning string
}

// The labels.
const (
	Cluster = "slurmlet.dev/cluster"
	Role    = "slurmlet.dev/role"
	NodeSet = "slurmlet.dev/node-set"
	Elastic = "slurmlet.dev/elastic"
	Gateway = "slurmlet.dev/gateway"
)

// The annotations by which a pod asks for the agent. Cluster and NodeSet may be annotations, too.
const (
	Inject          = "slurmlet.dev/inject"
	Container       = "slurmlet.dev/container"
	Slurmctld       = "slurmlet.dev/slurmctld"
	Keys            = "slurmlet.dev/keys"
	Cgroup          = "slurmlet.dev/cgroup"
	SecurityContext = "slurmlet.dev/security-context"
	JobContainers   = "slurmlet.dev/job-containers"
	Injected        = "slurmlet.dev/injected"
)

// The annotations that the agent of slurmd reads. The first three may be labels.
const (
	Features    = "slurmlet.dev/features"
	Weight      = "slurmlet.dev/weight"
	Topology    = "slurmlet.dev/topology"
	GracePeriod = "slurmlet.dev/grace-period"
	Deadline    = "slurmlet.dev/deadline"
)

// The annotations of a StatefulSet or DaemonSet.
const (
	Roll     = "slurmlet.dev/roll"
	RollBusy = "slurmlet.dev/roll-busy"
)

// The controller's marks on a Kubernetes node that Slurm has drained.
const (
	DrainedBySlurm = "slurmlet.dev/drained-by-slurm"
	DrainedNodes   = "slurmlet.dev/drained-nodes"
	Drained        = "slurmlet.dev/drained"
)

// ConfigVersion is the controller's annotation of slurmctld's pod.
const ConfigVersion = "slurmlet.dev/config-version"

// The controller's marks on pods with slurmd.
const (
	Registered   = "slurmlet.dev/Registered"
	Idle         = "slurmlet.dev/Idle"
	DeletionCost = "controller.kubernetes.io/pod-deletion-cost"
	SafeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
)

// The marks of pods that wait in Slurm's queue. Bridge is a label of namespaces and pods, and a taint. User, Account,
// Partition, QOS and Allow are a namespace's, Gang is a Job's or a JobSet's, Sharing is a slurmd's, and the rest are the
// controller's on pods.
const (
	Bridge    = "slurmlet.dev/bridge"
	User      = "slurmlet.dev/user"
	Account   = "slurmlet.dev/account"
	Partition = "slurmlet.dev/partition"
	QOS       = "slurmlet.dev/qos"
	Allow     = "slurmlet.dev/allow"
	Gang      = "slurmlet.dev/gang"
	Gate      = "slurmlet.dev/slurm"
	Job       = "slurmlet.dev/job"
	JobRun    = "slurmlet.dev/job-run"
	Group     = "slurmlet.dev/group"
	SlurmNode = "slurmlet.dev/slurm-node"
	Sharing   = "slurmlet.dev/sharing"
	// SlinkyJob and SlinkyNode are what slurm-bridge writes, for those who read it.
	SlinkyJob  = "scheduler.slinky.slurm.net/slurm-jobid"
	SlinkyNode = "slinky.slurm.net/slurm-node"
)

// SharedByPods is a value of Sharing.
const SharedByPods = "kubernetes"

const (
	you        = "you, or charts/slurm"
	webhook    = "you, or the webhook"
	controller = "the controller"
	podAsked   = "a pod with slurmlet.dev/inject"
	slurmdPod  = "a pod with slurmd"
	machine    = "a Kubernetes node"
	tenant     = "a namespace with slurmlet.dev/bridge"
	queuedPod  = "a pod in Slurm's queue"
)

// All lists them.
var All = []Key{
	{
		Cluster, Label, "a pod, a PodTemplate of an elastic set", webhook, "a name",
		"the cluster that the pod belongs to, with its namespace",
	},
	{Role, Label, "a pod", webhook, "slurmctld, slurmd, login, slurmdbd or slurmrestd", "what the pod is in the cluster"},
	{NodeSet, Label, slurmdPod, webhook, "a name", "the node set, by which alerts and dashboards count"},
	{
		Elastic, Label, "a pod with slurmd, a PodTemplate", "you, charts/slurm, or the controller",
		"the name of an elastic set", "the controller makes pods of this PodTemplate, and this pod is one of them",
	},
	{
		Gateway, Label, "a login pod", "you, or charts/slurm", "true",
		"the controller takes reports of jobs of Kubernetes' pods from this pod, and gives it orders",
	},
	{
		Inject, Annotation, "a pod", "you", "a role",
		"the webhook gives the pod the agent; as a scheduling gate, it keeps the pod Pending until then",
	},
	{Container, Annotation, podAsked, webhook, "the name of a container", "the container that gets the agent, if there are several"},
	{
		Cluster, Annotation, podAsked + ", " + tenant, "you", "a name; on a namespace, namespace/name as in hpc/slurm",
		"as the label; on a namespace, the Slurm cluster in whose queue its pods wait",
	},
	{NodeSet, Annotation, podAsked, "you", "a name", "as the label"},
	{Slurmctld, Annotation, podAsked, "you", "host[:port], several separated by commas", "where slurmctld is (slurmd, login)"},
	{
		Keys, Annotation, podAsked, "you", "the name of a Secret, or none",
		"the Secret with slurm.key or slurm.jwks, which the pod gets at /etc/slurm",
	},
	{Cgroup, Annotation, podAsked, "you", "require, prefer or off", "SLURMLET_CGROUP of the pod (slurmd)"},
	{SecurityContext, Annotation, podAsked, "you", "slurmlet", "the container gets the capabilities that its role needs, and no others"},
	{
		JobContainers, Annotation, podAsked, "you", "true or false",
		"the pod makes jobs' containers (slurmd): it gets a volume for them, and its agent looks whether it can",
	},
	{Injected, Annotation, podAsked, "the webhook", "sentences", "what the webhook has done to the pod"},
	{
		Features, Annotation, slurmdPod, you, "names of letters, digits and -_.=+/@, separated by commas",
		"Features of the node; it may be a label, which holds one name, and the annotation wins",
	},
	{
		Weight, Annotation, slurmdPod, you, "a whole number from 0 to 4294967293",
		"Weight of the node; it may be a label, and the annotation wins",
	},
	{
		Topology, Annotation, slurmdPod, you, "topology:unit of letters, digits and -_., as in default:rack1; several separated by commas",
		"Topology of the node (Slurm 25.05 and later); it may be a label, and the annotation wins",
	},
	{
		GracePeriod, Annotation, slurmdPod, "you, or a controller of yours", "a duration such as 30s or 10m",
		"the time from SIGTERM to SIGKILL, if it is less than SLURMLET_GRACE_PERIOD",
	},
	{
		Deadline, Annotation, slurmdPod, "you, or a controller of yours", "a time such as 2006-01-02T15:04:05Z",
		"the time of SIGKILL, whenever SIGTERM comes",
	},
	{
		Roll, Annotation, "a StatefulSet or DaemonSet of slurmd", you, "a number, or a percentage",
		"the controller replaces pods of old revisions, so many at once",
	},
	{
		RollBusy, Annotation, "a StatefulSet or DaemonSet of slurmd", you, "true or false",
		"whether busy nodes are replaced, too, after the idle ones",
	},
	{
		DeletionCost, Annotation, "a pod of a Deployment with slurmd", controller, "-100 if idle, 100 if busy",
		"which pods Kubernetes deletes first",
	},
	{
		SafeToEvict, Annotation, slurmdPod, "the controller, with scaleIn.safeToEvict, or you", "true or false",
		"whether the cluster autoscaler may take the machine",
	},
	{
		ConfigVersion, Annotation, "slurmctld's pod", "the controller, with configMaps, or you",
		"the resourceVersion of a ConfigMap, with -2 or -3 after another try",
		"nobody reads it: its change has the kubelet deliver the pod's volumes at once",
	},
	{
		DrainedBySlurm, Annotation, machine, controller, "the reason of a drain",
		"the controller has cordoned or tainted the machine (machines.cordon), and why",
	},
	{
		DrainedNodes, Annotation, machine, controller, "namespace/cluster/node, separated by commas",
		"the Slurm nodes for which it has done so",
	},
	{Drained, Taint, machine, controller, "NoSchedule", "machines.cordon is taint, and somebody has drained a Slurm node of the machine"},
	{Registered, Condition, slurmdPod, controller, "True or False", "slurmctld has the node's record and hears from the node"},
	{Idle, Condition, slurmdPod, controller, "True or False", "no job holds the node"},
	{
		Bridge, Label, "a namespace, a pod", "you on a namespace, bridge.enabled of charts/slurmlet on pods", "true",
		"new pods of the namespace wait in Slurm's queue, and this pod does",
	},
	{Bridge, Taint, machine, "you", "NoSchedule", "no pods but those that Slurm has put there come to the machine"},
	{User, Annotation, tenant, "you", "the name of a user", "the Slurm user of the pods' jobs; it may be a label"},
	{Account, Annotation, tenant, "you", "the name of an account", "the account of pods that name none; it may be a label"},
	{Partition, Annotation, tenant, "you", "names of partitions", "the partition of pods that name none; it may be a label"},
	{QOS, Annotation, tenant, "you", "the name of a QOS", "the QOS of pods that name none; it may be a label"},
	{Allow, Annotation, tenant, "you", "user-id=alice;bob", "the users that pods may name besides the namespace's"},
	{
		Gang, Annotation, "a Job, a JobSet", "you", "true or false",
		"its pods are one Slurm job; without it, a Job's are not, and a JobSet's are",
	},
	{
		Gate, Annotation, queuedPod, "bridge.enabled of charts/slurmlet", "none: it is a scheduling gate",
		"the pod waits until Slurm has a node for it",
	},
	{Job, Label, queuedPod, controller, "a number", "the Slurm job that has given the pod its node"},
	{JobRun, Annotation, queuedPod, controller, "restarts.start.task", "which run of the job, and which of its tasks"},
	{Group, Annotation, queuedPod, controller, "an id", "the group of pods for which the job stands, as in the job's comment"},
	{SlurmNode, Annotation, queuedPod, controller, "a name", "the node, as Slurm names it"},
	{
		Sharing, Annotation, slurmdPod, "you, or charts/slurm", "kubernetes",
		"pods in Slurm's queue share the machine with each other, and never with Slurm's jobs",
	},
	{SlinkyJob, Label, queuedPod, controller, "a number", "as slurmlet.dev/job, for those who read slurm-bridge's marks"},
	{SlinkyNode, Annotation, queuedPod, controller, "a name", "as slurmlet.dev/slurm-node"},
	{"slurmlet.dev/init-sql", Annotation, "MariaDB's pod", "charts/slurm", "a digest", "another password replaces the pod"},
}

// Event is what the controller says of an object.
type Event struct {
	// Reason and Type are Kubernetes'. On is the object.
	Reason, Type, On, Meaning string
}

// Events lists them, but for the reasons of Kubernetes' own that an event repeats.
var Events = []Event{
	{"NoRole", "Warning", "a pod with the label slurmlet.dev/cluster", "it has no label slurmlet.dev/role, so no agent is told its name"},
	{"UnknownRole", "Warning", "a pod with the label slurmlet.dev/cluster", "slurmlet.dev/role is no role"},
	{"BadName", "Warning", "a pod with the label slurmlet.dev/cluster", "its host name is no name that Slurm and /etc/hosts can use"},
	{"NameTaken", "Warning", "a pod with the label slurmlet.dev/cluster", "another pod of the cluster has its host name"},
	{"Injected", "Normal", podAsked, "what the webhook has done to it"},
	{"TooManyNodes", "Warning", "slurmctld's pod", "its agent tells of more nodes than the controller keeps"},
	{"TooLong", "Warning", "slurmctld's pod", "its agent's report has more than 8 MiB"},
	{"TooOften", "Warning", "slurmctld's pod", "the cluster's agents report more than 1 MiB a second for long"},
	{"BadReport", "Warning", "slurmctld's pod", "its agent's report is none: the versions differ, or somebody else has the token"},
	{"NotDelivered", "Warning", "a ConfigMap of configMaps", "slurmctld's pod does not have a version of it after 14 s"},
	{"Rolling", "Normal", "a StatefulSet or DaemonSet", "the controller deletes a pod of an old revision"},
	{"BadRoll", "Warning", "a StatefulSet or DaemonSet", "why the controller does not roll it"},
	{"NoTemplate", "Warning", "slurmctld's pod", "there is no PodTemplate of an elastic set, or none that the controller may use"},
	{"BadTemplate", "Warning", "a PodTemplate", "a value of it makes no node of a pod"},
	{"Queued", "Normal", queuedPod, "a Slurm job stands for the pod"},
	{"Waiting", "Normal", queuedPod, "why its Slurm job waits, when that changes"},
	{"Granted", "Normal", queuedPod, "Slurm has given the pod a node"},
	{"Ended", "Warning", queuedPod, "its Slurm job has ended before the pod, and how"},
	{"Refused", "Warning", queuedPod, "Slurm refuses the job, or no node fits the pod, and why"},
	{"NotBound", "Warning", queuedPod, "kube-scheduler says for a minute that it cannot bind the pod, and why"},
	{"NotSubmitted", "Warning", queuedPod, "what of the pod, its owner or its namespace keeps it from being submitted"},
	{"NoGateway", "Warning", queuedPod, "no login pod with login.gateway.enabled speaks for the cluster"},
	{"NoTask", "Warning", queuedPod, "other pods have all tasks of its Slurm job"},
	{"NoNode", "Warning", queuedPod, "the controller does not know on which Kubernetes node a Slurm node is"},
	{"FailedCreate", "Warning", "a PodTemplate", "Kubernetes refuses the set's pods"},
}

// OfQueue says whether an event of this reason is about a pod in Slurm's queue.
func OfQueue(reason string) bool {
	return slices.ContainsFunc(Events, func(e Event) bool { return e.On == queuedPod && e.Reason == reason })
}
