package inject

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// FuzzPod plays random pods, whose few names meet often: nothing panics, an injected pod stays as it
// is, the patch makes the pod, and what is the user's stays.
func FuzzPod(f *testing.F) {
	for seed := range uint64(500) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := random{rand.New(rand.NewPCG(seed, 0))}
		before, s := r.pod(), r.settings()
		kept := before.DeepCopy()
		result, faults := Pod(before, s)
		require.Equal(t, kept, before, "the pod that came in is left alone")
		if len(faults) > 0 {
			require.Nil(t, result)
			for _, fault := range faults {
				require.NotEmpty(t, fault.Field)
			}
			return
		}
		again, faults := Pod(result.Pod, s)
		require.Empty(t, faults)
		require.Equal(t, result.Pod, again.Pod)
		requirePatched(t, before, result.Pod)
		if _, asked := before.Annotations[wellknown.Inject]; !asked {
			require.Equal(t, before, result.Pod)
			return
		}
		requireValid(t, before, result.Pod)
		requireKept(t, before, result.Pod)
	})
}

// requirePatched applies the patch as the API server does, with its library, to a pod that has
// fields of a newer Kubernetes.
func requirePatched(t *testing.T, before, after *corev1.Pod) {
	t.Helper()
	operations, err := Patch(before, after)
	require.NoError(t, err)
	text, err := json.Marshal(operations)
	require.NoError(t, err)
	patch, err := jsonpatch.DecodePatch(text)
	require.NoError(t, err)
	patched, err := patch.Apply(newer(t, before, 0))
	require.NoError(t, err, "%s", text)
	require.JSONEq(t, string(newer(t, after, len(after.Spec.InitContainers)-len(before.Spec.InitContainers))), string(patched))
}

// newer is the pod as JSON, with fields that no Kubernetes has today in the pod's spec, and in each
// container but those that the webhook has added.
func newer(t *testing.T, pod *corev1.Pod, added int) []byte {
	t.Helper()
	value, err := plain(pod)
	require.NoError(t, err)
	spec := value.(map[string]any)["spec"].(map[string]any)
	spec["fieldOfTomorrow"] = "kept"
	own := func(list string, added int) {
		containers, _ := spec[list].([]any)
		for _, c := range containers[min(added, len(containers)):] {
			c.(map[string]any)["fieldOfTomorrow"] = c.(map[string]any)["name"]
		}
	}
	own("initContainers", added)
	own("containers", 0)
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return text
}

// requireValid holds what the API server asks for of names. What was twice in the pod may stay so.
func requireValid(t *testing.T, before, after *corev1.Pod) {
	t.Helper()
	volumes := map[string]int{}
	for _, v := range after.Spec.Volumes {
		volumes[v.Name]++
	}
	for _, v := range before.Spec.Volumes {
		volumes[v.Name]--
	}
	for name, n := range volumes {
		require.LessOrEqual(t, n, 1, "volume %s", name)
	}
	target := after.Spec.Containers[slices.IndexFunc(after.Spec.Containers, func(c corev1.Container) bool { return c.Name == after.Annotations[wellknown.Container] })]
	paths := map[string]bool{}
	for _, m := range target.VolumeMounts {
		require.False(t, paths[m.MountPath], "two mounts at %s", m.MountPath)
		paths[m.MountPath] = true
		if !slices.ContainsFunc(before.Spec.Containers, func(c corev1.Container) bool {
			return slices.ContainsFunc(c.VolumeMounts, func(own corev1.VolumeMount) bool { return own.MountPath == m.MountPath })
		}) {
			require.Equal(t, 1, volumes[m.Name], "volume %s of a new mount is new", m.Name)
		}
	}
	variables, numbers := map[string]bool{}, map[string]bool{}
	for _, v := range target.Env {
		require.False(t, variables[v.Name], "two variables %s", v.Name)
		variables[v.Name] = true
	}
	for _, p := range target.Ports {
		require.False(t, numbers[p.Name], "two ports %s", p.Name)
		numbers[p.Name] = true
	}
	require.True(t, numbers[agentPort], "the probes' port is there")
	require.NotNil(t, after.Spec.TerminationGracePeriodSeconds)
}

// requireKept holds that the webhook takes nothing away but the command and its own gate.
func requireKept(t *testing.T, before, after *corev1.Pod) {
	t.Helper()
	same(t, before.Spec.SecurityContext, after.Spec.SecurityContext)
	same(t, before.OwnerReferences, after.OwnerReferences)
	same(t, before.Spec.EphemeralContainers, after.Spec.EphemeralContainers)
	same(t, before.Spec.Volumes, after.Spec.Volumes[:len(before.Spec.Volumes)])
	same(t, before.Spec.InitContainers, after.Spec.InitContainers[len(after.Spec.InitContainers)-len(before.Spec.InitContainers):])
	for key, value := range before.Labels {
		same(t, value, after.Labels[key])
	}
	for key, value := range before.Annotations {
		same(t, value, after.Annotations[key])
	}
	if own := before.Spec.RuntimeClassName; own != nil {
		same(t, own, after.Spec.RuntimeClassName)
	}
	for n, c := range before.Spec.Containers {
		have := after.Spec.Containers[n]
		if c.Name != after.Annotations[wellknown.Container] {
			same(t, c, have)
			continue
		}
		same(t, c.Env, have.Env[:len(c.Env)])
		same(t, c.Ports, have.Ports[:len(c.Ports)])
		same(t, c.VolumeMounts, have.VolumeMounts[:len(c.VolumeMounts)])
		same(t, c.Image, have.Image)
		same(t, c.Resources, have.Resources)
		for _, probe := range [][2]*corev1.Probe{{c.LivenessProbe, have.LivenessProbe}, {c.StartupProbe, have.StartupProbe}, {c.ReadinessProbe, have.ReadinessProbe}} {
			if probe[0] != nil {
				same(t, probe[0], probe[1])
			}
		}
		if before.Annotations[wellknown.SecurityContext] == "" {
			same(t, c.SecurityContext, have.SecurityContext)
		}
		if s := have.SecurityContext; s != nil && s.Privileged != nil && *s.Privileged {
			require.Equal(t, s.Privileged, c.SecurityContext.Privileged, "nothing becomes privileged")
		}
	}
}

// same compares as Kubernetes does: no list is an empty list.
func same(t *testing.T, want, have any) {
	t.Helper()
	require.True(t, equality.Semantic.DeepEqual(want, have), "want %v, have %v", want, have)
}

// random makes pods of few words.
type random struct{ *rand.Rand }

func (r random) often() bool { return r.IntN(4) > 0 }
func (r random) now() bool   { return r.IntN(24) == 0 }

func pick[T any](r random, some ...T) T { return some[r.IntN(len(some))] }

func (r random) settings() Settings {
	return Settings{
		Image: "agent:1", ImageVolume: r.now(), Cluster: pick(r, "", "slurm", "slurm", "slurm"), Peers: pick(r, "", "controller:8443"), Authority: "slurmlet-ca",
		GracePeriod: pick[int64](r, 0, 600), RuntimeClass: pick(r, "", "writable"),
	}
}

func (r random) pod() *corev1.Pod {
	p := &corev1.Pod{}
	p.Name, p.GenerateName = pick(r, "", "node-0"), pick(r, "", "node-")
	for _, words := range [][]string{
		{wellknown.Container, "a", "b", "z"},
		{wellknown.Cluster, "one", "two", "No"},
		{wellknown.NodeSet, "cpu", "-"},
		{wellknown.Slurmctld, "ctl", "ctl:1,ctl:2", ":"},
		{wellknown.Keys, "none", "key", "K"},
		{wellknown.Cgroup, "off", "require", "all"},
		{wellknown.SecurityContext, ownSecurity, "other"},
		{"slurmlet.dev/a~b/c", "x"},
		{wellknown.Injected, "yes"},
	} {
		if r.now() {
			put(&p.Annotations, words[0], pick(r, words[1:]...))
		}
	}
	if r.now() {
		put(&p.Annotations, wellknown.Inject, "no")
	} else if r.often() {
		put(&p.Annotations, wellknown.Inject, pick(r, append(roleNames(), "slurmd", "slurmd", "slurmd")...))
	}
	for _, label := range []string{wellknown.Cluster, wellknown.NodeSet, wellknown.Role} {
		if r.now() {
			put(&p.Labels, label, pick(r, "one", "slurmd", "cpu"))
		}
	}
	for _, name := range []string{"a", "b"}[:pick(r, 0, 1, 1, 1, 1, 2)] {
		p.Spec.Containers = append(p.Spec.Containers, r.container(name))
	}
	for _, name := range []string{"first", installer}[:pick(r, 0, 0, 1, 1, 1, 2)] {
		p.Spec.InitContainers = append(p.Spec.InitContainers, r.container(name))
	}
	for range r.IntN(3) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: pick(r, "u", "v", "w", "x", "y", "z", programVolume, "slurmlet-keys")})
	}
	if r.now() {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: r.number(), RunAsNonRoot: r.truth(), FSGroup: r.number()}
	}
	if r.often() {
		p.Spec.TerminationGracePeriodSeconds = pick(r, new(int64(30)), new(int64(0)), new(int64(3600)))
	}
	for range r.IntN(3) {
		p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: pick(r, gate, "other")})
	}
	if r.now() {
		p.Spec.RuntimeClassName = pick(r, new("writable"), new("nvidia"))
	}
	if r.now() {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{TargetContainerName: "a"}}
	}
	p.Spec.HostNetwork, p.Spec.HostPID, p.Spec.ShareProcessNamespace = r.now(), r.now(), pick(r, r.truth(), nil, nil, nil)
	return p
}

func (r random) number() *int64 { return pick(r, nil, nil, new(int64(0)), new(int64(1000))) }
func (r random) truth() *bool   { return pick(r, nil, nil, nil, new(false), new(true)) }

func (r random) container(name string) corev1.Container {
	c := corev1.Container{Name: name, Image: name}
	if r.now() {
		c.Command, c.Args = []string{"sh", "-c", "x"}[:r.IntN(4)], []string{"-D"}[:r.IntN(2)]
	}
	for _, name := range []string{"A", "SLURMLET_LISTEN", "SLURMLET_GRACE_PERIOD", "SLURMLET_SLURMCTLD", "SLURMLET_SPOOL_DIR"} {
		if r.now() {
			c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: pick(r, "", "10s", ":9000", "/run/spool")})
		}
	}
	for _, port := range []corev1.ContainerPort{{Name: agentPort, ContainerPort: 8817}, {Name: agentPort, ContainerPort: 80}, {Name: "slurmd", ContainerPort: 7000}, {Name: "x", ContainerPort: 6818}} {
		if r.now() && !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.Name }) {
			c.Ports = append(c.Ports, port)
		}
	}
	for _, dir := range []string{"/", "/etc", "/etc/slurm", "/etc/slurm/", "/run", "/opt", "/opt/slurmlet", "/opt/slurmletx", podinfoDir, spoolDir} {
		if r.now() {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "v", MountPath: dir})
		}
	}
	if r.now() {
		c.SecurityContext = &corev1.SecurityContext{RunAsUser: r.number(), RunAsNonRoot: r.truth(), Privileged: r.truth(), ReadOnlyRootFilesystem: r.truth()}
	}
	for _, probe := range []**corev1.Probe{&c.StartupProbe, &c.LivenessProbe, &c.ReadinessProbe} {
		if r.now() {
			*probe = &corev1.Probe{PeriodSeconds: 7}
		}
	}
	if r.often() {
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
		c.Resources.Requests = pick(r, nil, c.Resources.Limits)
	}
	return c
}

// The fuzz world reaches both ends of every kind.
func TestTheFuzzWorldIsWide(t *testing.T) {
	refused, injected, left := 0, 0, 0
	for seed := range uint64(2000) {
		r := random{rand.New(rand.NewPCG(seed, 0))}
		before, s := r.pod(), r.settings()
		result, faults := Pod(before, s)
		switch {
		case len(faults) > 0:
			refused++
		case reflect.DeepEqual(before, result.Pod):
			left++
		default:
			injected++
		}
	}
	t.Log(refused, injected, left)
	for _, n := range []int{refused, injected, left} {
		assert.Greater(t, n, 100)
	}
}
