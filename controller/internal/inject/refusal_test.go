package inject

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// pod is what the tables change: %s stands for annotations beside slurmlet.dev/inject, %s for more of the spec.
const pod = `
metadata: {name: node-0, annotations: {slurmlet.dev/inject: ROLE ANNOTATIONS}}
spec:
  containers: [{name: slurm, image: "a:1" CONTAINER}]
SPEC`

// changed fills in what a row says; each part may be empty.
func changed(role, annotations, container, spec string) string {
	more := func(text string) string {
		if text == "" {
			return ""
		}
		return ", " + text
	}
	return strings.NewReplacer("ROLE", role, "ANNOTATIONS", more(annotations), "CONTAINER", more(container), "SPEC", spec).Replace(pod)
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ name, pod, says string }{
		{
			"an annotation that is no role", changed("slurm", "", "", ""),
			`metadata.annotations[slurmlet.dev/inject]: Unsupported value: "slurm": supported values: "slurmctld", "slurmd", "login", "slurmdbd", "slurmrestd"`,
		},
		{"an empty annotation", changed(`""`, "", "", ""), `metadata.annotations[slurmlet.dev/inject]: Unsupported value: "": supported values: `},
		{
			"a container that there is not", changed("slurmd", "slurmlet.dev/container: slurmd", "", ""),
			`metadata.annotations[slurmlet.dev/container]: Unsupported value: "slurmd": supported values: "slurm"`,
		},
		{
			"an init container", changed("slurmd", "slurmlet.dev/container: mesh", "", "  initContainers: [{name: mesh, image: 'b:1', restartPolicy: Always}]"),
			`metadata.annotations[slurmlet.dev/container]: Unsupported value: "mesh": supported values: "slurm"`,
		},
		{
			"several containers and no name", "metadata: {annotations: {slurmlet.dev/inject: slurmd}}\nspec: {containers: [{name: a}, {name: b}]}",
			"metadata.annotations[slurmlet.dev/container]: Required value: the pod has several containers; name one of a, b",
		},
		{"a cluster that is no name", changed("slurmd", "slurmlet.dev/cluster: a.b", "", ""), `metadata.annotations[slurmlet.dev/cluster]: Invalid value: "a.b": must not contain dots`},
		{
			"another cluster as a label", "metadata: {annotations: {slurmlet.dev/inject: slurmd, slurmlet.dev/cluster: a}, labels: {slurmlet.dev/cluster: b}}\nspec: {containers: [{name: a}]}",
			`metadata.annotations[slurmlet.dev/cluster]: Invalid value: "a": the pod's label slurmlet.dev/cluster has another value, "b"`,
		},
		{
			"another role as a label", "metadata: {annotations: {slurmlet.dev/inject: slurmd}, labels: {slurmlet.dev/role: login}}\nspec: {containers: [{name: a}]}",
			`metadata.labels[slurmlet.dev/role]: Invalid value: "login": the annotations ask for "slurmd": leave the label out`,
		},
		{"a node set of login pods", changed("login", "slurmlet.dev/node-set: a", "", ""), "metadata.annotations[slurmlet.dev/node-set]: Forbidden: a pod of role login belongs to no node set"},
		{"a node set that is no label", changed("slurmd", "slurmlet.dev/node-set: 'a b'", "", ""), `metadata.annotations[slurmlet.dev/node-set]: Invalid value: "a b": `},
		{"an address without a host", changed("slurmd", "slurmlet.dev/slurmctld: ':6817'", "", ""), `metadata.annotations[slurmlet.dev/slurmctld]: Invalid value: ":6817": want host[:port], several separated by commas`},
		{"an address with a port that is none", changed("slurmd", "slurmlet.dev/slurmctld: 'a:6817,b:70000'", "", ""), `want host[:port]`},
		{"an address for slurmctld", changed("slurmctld", "slurmlet.dev/slurmctld: a", "", ""), "metadata.annotations[slurmlet.dev/slurmctld]: Forbidden: a pod of role slurmctld does not need slurmctld's address"},
		{"a Secret that is no name", changed("slurmd", "slurmlet.dev/keys: A_B", "", ""), `metadata.annotations[slurmlet.dev/keys]: Invalid value: "A_B": want a Secret's name, or "none"`},
		{"keys for slurmctld", changed("slurmctld", "slurmlet.dev/keys: a", "", ""), "metadata.annotations[slurmlet.dev/keys]: Forbidden: a pod of role slurmctld mounts its own configuration and keys at /etc/slurm"},
		{
			"keys, and a volume of its own there", changed("slurmd", "slurmlet.dev/keys: a", "volumeMounts: [{name: v, mountPath: /etc/slurm/}]", ""),
			`metadata.annotations[slurmlet.dev/keys]: Invalid value: "a": the container slurm mounts a volume of its own at /etc/slurm: leave one of both out`,
		},
		{"a word that is no answer", changed("slurmd", "slurmlet.dev/job-containers: 'yes'", "", ""), `metadata.annotations[slurmlet.dev/job-containers]: Unsupported value: "yes": supported values: "true", "false"`},
		{"jobs' containers in a login pod", changed("login", "slurmlet.dev/job-containers: 'true'", "", ""), "metadata.annotations[slurmlet.dev/job-containers]: Forbidden: a pod of role login runs no jobs"},
		{"a mode that there is not", changed("slurmd", "slurmlet.dev/cgroup: privileged", "", ""), `metadata.annotations[slurmlet.dev/cgroup]: Unsupported value: "privileged": supported values: "require", "prefer", "off"`},
		{"a mode for login", changed("login", "slurmlet.dev/cgroup: require", "", ""), "metadata.annotations[slurmlet.dev/cgroup]: Forbidden: a pod of role login has no jobs"},
		{"a security context in other words", changed("slurmd", "slurmlet.dev/security-context: restricted", "", ""), `metadata.annotations[slurmlet.dev/security-context]: Unsupported value: "restricted": supported values: "slurmlet"`},
		{
			"a privileged container with few capabilities", changed("slurmd", "slurmlet.dev/security-context: slurmlet", "securityContext: {privileged: true}", ""),
			"spec.containers[slurm].securityContext.privileged: Invalid value: true: slurmlet.dev/security-context asks for a few capabilities: leave one of both out",
		},
		{"a user that is not root", changed("slurmd", "", "securityContext: {runAsUser: 1000}", ""), "spec.containers[slurm].securityContext.runAsUser: Invalid value: 1000: slurmd starts processes as their users, so it must be root: want 0"},
		{"the pod's user", changed("login", "", "", "  securityContext: {runAsUser: 1000}"), "spec.securityContext.runAsUser: Invalid value: 1000: login starts processes as their users, so it must be root: want 0"},
		{"nobody may be root", changed("slurmd", "", "", "  securityContext: {runAsNonRoot: true}"), "spec.securityContext.runAsNonRoot: Invalid value: true: slurmd starts processes as their users, so it must be root: want false"},
		{"a group that could read the token", changed("slurmd", "", "", "  securityContext: {fsGroup: 100}"), "spec.securityContext.fsGroup: Invalid value: 100: the kubelet would give the group the token of the agent"},
		{"the machine's processes", changed("slurmd", "", "", "  hostPID: true"), "spec.hostPID: Invalid value: true: the agent must be PID 1 of its container: want false"},
		{"processes that containers share", changed("slurmd", "", "", "  shareProcessNamespace: true"), "spec.shareProcessNamespace: Invalid value: true: the agent must be PID 1"},
		{"Windows", changed("slurmd", "", "", "  os: {name: windows}"), `spec.os.name: Invalid value: "windows": the agent needs Linux`},
		{"a static pod", changed("slurmd", "kubernetes.io/config.mirror: a", "", ""), "metadata.annotations[slurmlet.dev/inject]: Forbidden: the kubelet starts a static pod without asking the API server"},
		{
			"a volume at the agent's directory", changed("slurmd", "", "volumeMounts: [{name: v, mountPath: /opt/slurmlet/bin}]", ""),
			`spec.containers[slurm].volumeMounts[0].mountPath: Invalid value: "/opt/slurmlet/bin": /opt/slurmlet is the agent's: mount the volume elsewhere`,
		},
		{"a volume at the token's directory", changed("slurmd", "", "volumeMounts: [{name: v, mountPath: /etc/slurmlet/peers}]", ""), "/etc/slurmlet/peers is the agent's: mount the volume elsewhere"},
		{"a volume of the same name", changed("slurmd", "", "", "  volumes: [{name: a}, {name: slurmlet}]"), `spec.volumes[1].name: Invalid value: "slurmlet": the webhook adds a volume of this name: rename it`},
		{"an init container of the same name", changed("slurmd", "", "", "  initContainers: [{name: slurmlet-install}]"), `spec.initContainers[0].name: Invalid value: "slurmlet-install": the webhook adds an init container of this name: rename it`},
		{"a port of the same name", changed("slurmd", "", "ports: [{name: agent, containerPort: 80}]", ""), `spec.containers[slurm].ports[0].name: Invalid value: "agent": it is the name of the agent's port, 8817: rename this port, or set SLURMLET_LISTEN`},
		{"a port that is none", changed("slurmd", "", "env: [{name: SLURMLET_LISTEN, value: '8817'}]", ""), `spec.containers[slurm].env[SLURMLET_LISTEN]: Invalid value: "8817": the probes need the port: want [host]:port`},
		{
			"a longer time than the kubelet's", changed("slurmd", "", "env: [{name: SLURMLET_GRACE_PERIOD, value: 2h}]", "  terminationGracePeriodSeconds: 3600"),
			`spec.containers[slurm].env[SLURMLET_GRACE_PERIOD]: Invalid value: "2h": terminationGracePeriodSeconds grants 1h0m0s: want as much, or less`,
		},
		{
			"a mark and no agent", changed("slurmd", "slurmlet.dev/injected: yes it has", "command: [slurmd]", ""),
			`spec.containers[slurm].command: Invalid value: "slurmd": the annotation slurmlet.dev/injected says that the pod has the agent: remove the annotation, or bring back ["/opt/slurmlet/slurmlet" "slurmd"]`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			result, faults := Pod(parsePod(t, c.pod), settings)
			require.NotEmpty(t, faults)
			assert.Nil(t, result)
			assert.Contains(t, faults.ToAggregate().Error(), c.says)
		})
	}
}

func TestAllFaultsAreTold(t *testing.T) {
	_, faults := Pod(parsePod(t, changed("slurmd", "slurmlet.dev/container: b, slurmlet.dev/cgroup: all", "", "")), settings)
	assert.Len(t, faults, 2)
	_, faults = Pod(parsePod(t, changed("slurmd", "", "securityContext: {runAsUser: 1}", "  hostPID: true")), settings)
	assert.Len(t, faults, 2)
}

func TestAPodWithoutAClusterIsRefused(t *testing.T) {
	_, faults := Pod(parsePod(t, changed("slurmd", "", "", "")), Settings{Image: "a"})
	assert.ErrorContains(t, faults.ToAggregate(), "metadata.annotations[slurmlet.dev/cluster]: Required value: the name of the cluster that the pod belongs to")
}

// What somebody took out of an injected pod is missed.
func TestAnInjectedPodThatLacksTheAgentIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*corev1.Pod)
		says  string
	}{
		"the command":        {func(p *corev1.Pod) { p.Spec.Containers[0].Command[1] = "login" }, "spec.containers[slurm].command"},
		"the arguments":      {func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"x"} }, "spec.containers[slurm].command"},
		"the mount":          {func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts = nil }, "spec.containers[slurm].volumeMounts: Required value"},
		"a mount to write":   {func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[0].ReadOnly = false }, "spec.containers[slurm].volumeMounts: Required value"},
		"the init container": {func(p *corev1.Pod) { p.Spec.InitContainers = nil }, "spec.initContainers: Required value"},
	} {
		result, faults := Pod(parsePod(t, changed("slurmd", "", "", "")), settings)
		require.Empty(t, faults)
		c.spoil(result.Pod)
		_, faults = Pod(result.Pod, settings)
		assert.ErrorContains(t, faults.ToAggregate(), c.says, name)
	}
}

// Another webhook that comes after this one may change what it likes of the rest: this one is asked again.
func TestWhatOtherWebhooksChangeStays(t *testing.T) {
	result, faults := Pod(parsePod(t, changed("slurmd", "", "", "")), settings)
	require.Empty(t, faults)
	pod := result.Pod
	pod.Spec.InitContainers[0].Image = "mirror.example/" + pod.Spec.InitContainers[0].Image
	pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "HTTP_PROXY", Value: "proxy"})
	pod.Spec.Containers = append([]corev1.Container{{Name: "mesh"}}, pod.Spec.Containers...)
	again, faults := Pod(pod, settings)
	require.Empty(t, faults)
	assert.Equal(t, pod, again.Pod)
	assert.Empty(t, again.Did)
}
