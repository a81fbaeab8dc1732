package inject

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// chart is charts/slurm, from this folder.
const chart = "../../../charts/slurm"

// TestTheChart compares an injected pod with the chart's own of each role: the agent is told the same,
// and Kubernetes probes, ends and knows both alike.
func TestTheChart(t *testing.T) {
	helm := os.Getenv("HELM")
	if helm == "" {
		t.Skip("HELM is not set: run make charts")
	}
	pods := chartPods(t, helm)
	for _, role := range roles {
		t.Run(role.name, func(t *testing.T) {
			want := pods[role.name]
			require.NotNil(t, want, "the chart has such a pod")
			result, faults := Pod(asked(want, role), Settings{Image: "agent", Peers: settings.Peers, Authority: settings.Authority})
			require.Empty(t, faults)
			compare(t, want, result.Pod, role)
		})
	}
}

// asked is what a user would write in the chart's place: the chart's pod without all that the agent needs.
func asked(of *corev1.Pod, role role) *corev1.Pod {
	own := of.Spec.Containers[0]
	pod := &corev1.Pod{}
	pod.Annotations = map[string]string{wellknown.Inject: role.name, wellknown.Cluster: of.Labels[wellknown.Cluster], wellknown.SecurityContext: ownSecurity}
	if set := of.Labels[wellknown.NodeSet]; set != "" {
		pod.Annotations[wellknown.NodeSet] = set
	}
	pod.Spec.SecurityContext = of.Spec.SecurityContext
	pod.Spec.Containers = []corev1.Container{{Name: role.name, Image: own.Image, Resources: own.Resources}}
	if !role.root {
		pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: new(true)}
	}
	if role.name == "slurmd" {
		pod.Annotations[wellknown.Cgroup] = "off" // as the chart's default is
	}
	for _, v := range own.Env {
		if v.Name == "SLURMLET_SSH_HOST_KEYS" { // where the user's Secret is
			pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, v)
		}
	}
	for _, m := range own.VolumeMounts {
		if users(role, m.MountPath) {
			volume := of.Spec.Volumes[slices.IndexFunc(of.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })]
			pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
			pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, m)
		}
	}
	return pod
}

// users says whether a volume is the user's to give: a cluster's own configuration, its state, its users' keys,
// and a hosts file that an agent can write which is not root.
func users(role role, path string) bool {
	return path == "/etc/hosts" || path == confDir && !role.keys || path == "/var/spool/slurmctld" || strings.HasPrefix(path, "/etc/slurmlet/") && path != peersDir
}

func compare(t *testing.T, want, have *corev1.Pod, role role) {
	t.Helper()
	for _, label := range []string{wellknown.Cluster, wellknown.Role, wellknown.NodeSet} {
		assert.Equal(t, want.Labels[label], have.Labels[label], label)
	}
	assert.Equal(t, want.Spec.TerminationGracePeriodSeconds, have.Spec.TerminationGracePeriodSeconds)
	c, own := have.Spec.Containers[0], want.Spec.Containers[0]
	assert.Equal(t, own.Command[len(own.Command)-1:], c.Command[1:])
	assert.Equal(t, told(t, role.name, own), told(t, role.name, c))
	assert.Equal(t, named(own.Ports), named(c.Ports))
	assert.Equal(t, own.StartupProbe, c.StartupProbe)
	assert.Equal(t, own.ReadinessProbe, c.ReadinessProbe)
	// The program is elsewhere.
	require.NotEmpty(t, own.LivenessProbe.Exec.Command)
	own.LivenessProbe.Exec.Command[0] = program
	assert.Equal(t, own.LivenessProbe, c.LivenessProbe)
	assert.Equal(t, own.SecurityContext.Capabilities, c.SecurityContext.Capabilities)
	assert.Equal(t, own.SecurityContext.AllowPrivilegeEscalation, c.SecurityContext.AllowPrivilegeEscalation)
	mounted := mounts(have, c)
	delete(mounted, programDir)
	assert.Equal(t, mounts(want, own), mounted)
}

// told is the agent's configuration, with samples of what only the kubelet knows.
func told(t *testing.T, role string, c corev1.Container) agent.Config {
	t.Helper()
	parsed, err := agent.ParseRole(role)
	require.NoError(t, err)
	var environ []string
	for _, v := range c.Env {
		// For people who call Slurm's commands in there, and for the page, which is the chart's.
		if v.Name == "SLURM_CONF" || v.Name == "SLURMLET_WEB_SOCKET" {
			continue
		}
		value := v.Value
		if v.ValueFrom != nil {
			text, err := json.Marshal(v.ValueFrom)
			require.NoError(t, err)
			value = map[bool]string{true: "node-0", false: "4000"}[strings.Contains(string(text), "metadata.name")]
		}
		environ = append(environ, v.Name+"="+value)
	}
	config, err := agent.FromEnv(parsed, environ)
	require.NoError(t, err)
	return config
}

func named(ports []corev1.ContainerPort) map[string]int32 {
	all := map[string]int32{}
	for _, p := range ports {
		all[p.Name] = p.ContainerPort
	}
	return all
}

// mount is a volume where the container has it.
type mount struct {
	readOnly bool
	source   corev1.VolumeSource
}

func mounts(pod *corev1.Pod, c corev1.Container) map[string]mount {
	all := map[string]mount{}
	for _, m := range c.VolumeMounts {
		if n := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }); n >= 0 {
			all[m.MountPath] = mount{m.ReadOnly, pod.Spec.Volumes[n].VolumeSource}
		}
	}
	return all
}

// chartPods are the chart's pods by their roles.
func chartPods(t *testing.T, helm string) map[string]*corev1.Pod {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), helm, "template", "slurm", chart, "--namespace", "hpc", "--set", "image.registry=registry.example/slurmlet", "--set", "rest.enabled=true,accounting.enabled=true,controller.persistence.enabled=false,peers.address="+settings.Peers)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, said.String())
	pods := map[string]*corev1.Pod{}
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096); ; {
		var workload struct {
			Spec struct {
				Template corev1.PodTemplateSpec
			}
		}
		err := d.Decode(&workload)
		if errors.Is(err, io.EOF) {
			return pods
		}
		if err != nil {
			continue // Services and others have another spec
		}
		if role := workload.Spec.Template.Labels[wellknown.Role]; role != "" {
			pods[role] = &corev1.Pod{ObjectMeta: workload.Spec.Template.ObjectMeta, Spec: workload.Spec.Template.Spec}
		}
	}
}
