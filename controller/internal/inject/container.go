package inject

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// addEnvironment adds what the container does not set itself.
func (i *injection) addEnvironment() {
	set := func(name, value string) { i.addVariable(corev1.EnvVar{Name: name, Value: value}) }
	i.refuseLongerGrace()
	set("SLURMLET_GRACE_PERIOD", fmt.Sprintf("%ds", *i.pod.Spec.TerminationGracePeriodSeconds))
	if i.role.asks {
		set("SLURMLET_SLURMCTLD", i.slurmctld)
	}
	if i.role.name == "slurmd" {
		field := func(name, path string) {
			i.addVariable(corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}})
		}
		field("SLURMLET_NODE_NAME", "metadata.name")
		field("SLURMLET_MACHINE", "spec.nodeName")
		if mode := i.cgroupMode(); mode != "" {
			set("SLURMLET_CGROUP", mode)
		}
		i.addLimit("SLURMLET_CPU_LIMIT", corev1.ResourceCPU, "1m")
		i.addLimit("SLURMLET_MEMORY_LIMIT", corev1.ResourceMemory, "1")
		i.addLimit("SLURMLET_STORAGE_LIMIT", corev1.ResourceEphemeralStorage, "1")
		if i.contains {
			set("SLURMLET_JOB_CONTAINERS", programDir+"/slurmlet-container")
		}
	}
	if i.Peers != "" {
		set("SLURMLET_PEERS", i.Peers)
	}
}

// refuseLongerGrace refuses a time that the kubelet does not grant, because jobs would be killed before it is over.
func (i *injection) refuseLongerGrace() {
	own, granted := i.variable("SLURMLET_GRACE_PERIOD"), time.Duration(*i.pod.Spec.TerminationGracePeriodSeconds)*time.Second
	if time, err := time.ParseDuration(own); err == nil && time > granted {
		i.fault(field.Invalid(i.at.Child("env").Key("SLURMLET_GRACE_PERIOD"), own, fmt.Sprintf("terminationGracePeriodSeconds grants %s: want as much, or less", granted)))
	}
}

func (i *injection) addLimit(name string, of corev1.ResourceName, divisor string) {
	if amount := i.target.Resources.Limits[of]; !amount.IsZero() {
		i.addVariable(corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits." + string(of), Divisor: resource.MustParse(divisor)},
		}})
	}
}

// addVariable keeps the container's own value. Variables of envFrom lose against those of env.
func (i *injection) addVariable(v corev1.EnvVar) {
	own := slices.IndexFunc(i.target.Env, func(e corev1.EnvVar) bool { return e.Name == v.Name })
	if own < 0 {
		i.target.Env = append(i.target.Env, v)
		return
	}
	if e := i.target.Env[own]; e.ValueFrom != nil || e.Value != v.Value {
		i.say("%s is the container's own", v.Name)
	}
}

// variable is the value that the container gives a variable, if it is a plain one.
func (i *injection) variable(name string) string {
	for _, e := range i.target.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// cgroupMode is SLURMLET_CGROUP; empty: the agent's default, prefer.
func (i *injection) cgroupMode() string {
	if i.cgroup == "" && i.makesCgroupWritable() {
		return "require"
	}
	return i.cgroup
}

// makesCgroupWritable says whether the controller's runtime class does so for this pod.
func (i *injection) makesCgroupWritable() bool {
	own := i.pod.Spec.RuntimeClassName
	return i.role.name == "slurmd" && i.RuntimeClass != "" && i.cgroup != "off" && (own == nil || *own == i.RuntimeClass)
}

// setCgroup asks the runtime for a cgroup that Slurm can divide. It never makes a container privileged.
func (i *injection) setCgroup() {
	if !i.makesCgroupWritable() {
		return
	}
	if i.pod.Spec.RuntimeClassName == nil {
		i.pod.Spec.RuntimeClassName = new(i.RuntimeClass)
		i.say("runtimeClassName is %s, so that Slurm can limit jobs by cgroup", i.RuntimeClass)
	}
	if _, own := i.pod.Annotations[crioAnnotation]; !own {
		put(&i.pod.Annotations, crioAnnotation, "true")
	}
}

// crioAnnotation is CRI-O's way to a writable cgroup; others pass it over.
const crioAnnotation = "io.kubernetes.cri-o.cgroup2-mount-hierarchy-rw"

// agentPort is the name of the agent's port, and defaultAgentPort its number.
const (
	agentPort              = "agent"
	defaultAgentPort int32 = 8817
)

func (i *injection) addPorts() {
	number := defaultAgentPort
	if listen := i.variable("SLURMLET_LISTEN"); listen != "" {
		_, port, err := net.SplitHostPort(listen)
		n, wrong := strconv.ParseUint(port, 10, 16)
		if err != nil || wrong != nil || n == 0 {
			i.fault(field.Invalid(i.at.Child("env").Key("SLURMLET_LISTEN"), listen, "the probes need the port: want [host]:port"))
			return
		}
		number = int32(n)
	}
	for n, p := range i.target.Ports {
		if p.Name == agentPort && p.ContainerPort != number {
			i.fault(field.Invalid(i.at.Child("ports").Index(n).Child("name"), agentPort,
				fmt.Sprintf("it is the name of the agent's port, %d: rename this port, or set SLURMLET_LISTEN", number)))
			return
		}
	}
	agent := corev1.ContainerPort{Name: agentPort, ContainerPort: number, Protocol: corev1.ProtocolTCP}
	if !slices.ContainsFunc(i.target.Ports, func(p corev1.ContainerPort) bool { return p.Name == agentPort }) {
		i.target.Ports = append(i.target.Ports, agent)
	}
	for _, port := range i.role.ports {
		known := slices.ContainsFunc(i.target.Ports, func(p corev1.ContainerPort) bool {
			return p.Name == port.Name || p.ContainerPort == port.ContainerPort
		})
		if !known {
			i.target.Ports = append(i.target.Ports, port)
		}
	}
}

// addProbes adds those of charts/slurm where the container has none.
func (i *injection) addProbes() {
	get := func(path string) corev1.ProbeHandler {
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(agentPort)}}
	}
	started := "/startupz"
	if i.role.converts {
		started = "/livez"
	}
	for _, p := range []struct {
		name  string
		own   **corev1.Probe
		probe corev1.Probe
	}{
		// Being started may mean to wait for slurmctld: an hour.
		{"startupProbe", &i.target.StartupProbe, corev1.Probe{ProbeHandler: get(started), PeriodSeconds: 1, FailureThreshold: 3600}},
		{"readinessProbe", &i.target.ReadinessProbe, corev1.Probe{ProbeHandler: get("/readyz"), PeriodSeconds: 5}},
		// The one that ends a container, and jobs with it: on the agent's socket, where no stranger is in its way.
		{"livenessProbe", &i.target.LivenessProbe, corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{program, "probe", "liveness"}}},
			PeriodSeconds: 60, TimeoutSeconds: 30, FailureThreshold: 5,
		}},
	} {
		if *p.own == nil {
			*p.own = &p.probe
			continue
		}
		i.say("the %s is the container's own", p.name)
	}
}

// setSecurity gives the container what its role needs, where the pod asks for that and says nothing else.
func (i *injection) setSecurity() {
	if !i.secure {
		return
	}
	if i.target.SecurityContext == nil {
		i.target.SecurityContext = &corev1.SecurityContext{}
	}
	c := i.target.SecurityContext
	if c.Privileged != nil && *c.Privileged {
		i.fault(field.Invalid(i.at.Child("securityContext", "privileged"), true, wellknown.SecurityContext+" asks for a few capabilities: leave one of both out"))
		return
	}
	if c.Capabilities == nil {
		c.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: i.role.capabilities}
	} else {
		i.say("the capabilities are the container's own")
	}
	if c.AllowPrivilegeEscalation == nil {
		c.AllowPrivilegeEscalation = new(false)
	}
	if pod := i.pod.Spec.SecurityContext; c.SeccompProfile == nil && (pod == nil || pod.SeccompProfile == nil) {
		c.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
}

// advise says what the pod could do better, and leaves it as it is.
func (i *injection) advise() {
	if l := i.target.Lifecycle; l != nil && l.PreStop != nil {
		i.say("the preStop hook is the container's own: its time is lost for jobs, because SIGTERM comes after it")
	}
	if i.role.root && i.mounts(kubernetesToken) {
		i.say("users' processes can read the Kubernetes token of the service account %s: set automountServiceAccountToken: false", i.pod.Spec.ServiceAccountName)
	}
	if i.pod.Spec.HostNetwork {
		i.say("hostNetwork gives the container the machine's ports, so one such pod fits on a machine")
	}
	limits := i.target.Resources.Limits
	if i.role.name == "slurmd" && (limits.Cpu().IsZero() || limits.Memory().IsZero()) {
		i.say("the container has no limits of CPU and memory, so the node registers what the machine has")
	}
	if i.contains && !i.mayMakeNamespaces() {
		i.say("jobs' containers need a seccomp profile that allows namespaces: set securityContext.seccompProfile to profiles/slurmlet-slurmd.json of charts/slurm")
	}
	if i.role.name == "slurmctld" && !i.mounts("/var/spool/slurmctld") && i.variable("SLURMLET_STATE_DIR") == "" {
		i.say("slurmctld's state ends with the pod: mount a volume at /var/spool/slurmctld")
	}
	for _, key := range slices.Sorted(maps.Keys(i.pod.Annotations)) {
		if strings.HasPrefix(key, "slurmlet.dev/") && !slices.Contains(known, key) {
			i.say("nobody reads the annotation %s", key)
		}
	}
}

// mayMakeNamespaces says whether the pod asks for another seccomp profile than the runtime's, or for the capability with which
// that one allows users namespaces, too.
func (i *injection) mayMakeNamespaces() bool {
	other := func(p *corev1.SeccompProfile) bool {
		return p != nil && p.Type != corev1.SeccompProfileTypeRuntimeDefault
	}
	if c := i.target.SecurityContext; c != nil && c.SeccompProfile != nil {
		return other(c.SeccompProfile)
	} else if c != nil && c.Capabilities != nil && slices.Contains(c.Capabilities.Add, "SYS_ADMIN") {
		return true
	}
	return i.pod.Spec.SecurityContext != nil && other(i.pod.Spec.SecurityContext.SeccompProfile)
}

// kubernetesToken is where the API server mounts a service account's token.
const kubernetesToken = "/var/run/secrets/kubernetes.io/serviceaccount"

// known are the annotations that somebody reads.
var known = []string{
	wellknown.Inject, wellknown.Injected, wellknown.Container, wellknown.Cluster, wellknown.NodeSet, wellknown.Slurmctld, wellknown.Keys, wellknown.Cgroup, wellknown.SecurityContext,
	wellknown.JobContainers, wellknown.Features, wellknown.Weight, wellknown.Topology, wellknown.GracePeriod, wellknown.Deadline,
}
