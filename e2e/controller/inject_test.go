//go:build e2e

package controller

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// webhook is the name of the chart's objects for injections.
const webhook = home + "." + home

// asking is a pod of any image that has Slurm in it.
const asking = `
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s, annotations: {slurmlet.dev/inject: %s}}
spec:
  automountServiceAccountToken: false
  containers: [{name: slurm, image: "registry.example/debian-with-slurmd:1", resources: {limits: {cpu: 2, memory: 4Gi}}}]
`

// plain is a pod that does not ask, and that each namespace takes.
const plain = `
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec:
  automountServiceAccountToken: false
  containers: [{name: web, image: "registry.example/web:1"}]
`

// TestInjection is the webhook's life: before the controller, with it, after its death, and without its
// configuration. kubectl is the user.
func TestInjection(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.namespace("hpc")
	b.installWebhook("--set", "inject.cluster=slurm")
	for _, c := range []struct {
		name string
		test func(*bed)
	}{
		{"before the controller runs, a pod that asks is refused, and another is not", func(b *bed) { b.refusedWithout("before") }},
		{"the controller lets the API server trust it", trusted},
		{"a pod gets the agent, and kubectl says what", injected},
		{"a dry run says the same, and leaves nothing", dryRun},
		{"the API server takes what each role gets", eachRole},
		{"a copy of an injected pod stays as it is", copies},
		{"the webhook takes its gate away", gates},
		{"a refusal names field, value and what is allowed", refusedRole},
		{"Pod Security", podSecurity},
		{"namespaces that are left out", leftOut},
		{"the certificates are kept, and nothing else is written", bundleKept},
		{"after the controller's death, a pod that asks is refused, and another is not", func(b *bed) {
			require.NoError(b, b.replicas[0].Stop(20*time.Second))
			b.refusedWithout("after")
		}},
		{"the API server holds it alone, after somebody has deleted the webhook", heldAlone},
	} {
		if !t.Run(c.name, func(t *testing.T) {
			outer := b.T
			b.T = t
			defer func() { b.T = outer }()
			c.test(b)
		}) {
			break // the next ones would fail for the same reason
		}
	}
	assert.NotContains(t, b.replicas[0].log(), "forbidden", "the chart gives the rights that the controller uses")
}

// installWebhook applies the webhook's objects of charts/slurmlet, and what Kubernetes' controller would
// make of the Service and a pod that is ready.
func (b *bed) installWebhook(values ...string) {
	render := exec.CommandContext(b.Context(), given.Helm, append([]string{
		"template", home, "../../charts/slurmlet", "--namespace", home, "--set", "image.registry=registry.example/slurmlet", "--kube-version", "1.37.1", "--show-only", "templates/inject.yaml", "--show-only", "templates/service.yaml",
	}, values...)...)
	var said bytes.Buffer
	render.Stderr = &said
	text, err := render.Output()
	require.NoError(b, err, said.String())
	why, err := b.kubectl(string(text)+endpoints, "apply", "-f", "-")
	require.NoError(b, err, why)
}

const endpoints = `
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: slurmlet-1, namespace: slurmlet, labels: {kubernetes.io/service-name: slurmlet}}
addressType: IPv4
endpoints: [{addresses: [10.88.0.1], conditions: {ready: true}}]
ports: [{name: peers, port: 8443}, {name: webhook, port: 9443}]
`

// kubectl runs it as the admin, and returns what it says to people.
func (b *bed) kubectl(stdin string, args ...string) (said string, err error) {
	cmd := exec.CommandContext(b.Context(), filepath.Join(given.Programs, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+b.file("admin"), "HOME="+b.dir)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(stdin), &stderr
	err = cmd.Run()
	return stderr.String(), err
}

// create creates a pod, and returns what kubectl said.
func (b *bed) create(pod string) string {
	b.Helper()
	said, err := b.kubectl(pod, "create", "-f", "-")
	require.NoError(b, err, "%s\n%s", said, pod)
	return said
}

// refused is what kubectl says of a pod that cannot be created.
func (b *bed) refused(pod string) string {
	b.Helper()
	said, err := b.kubectl(pod, "create", "-f", "-")
	require.Error(b, err, pod)
	return said
}

func (b *bed) get(name string) *corev1.Pod {
	b.Helper()
	pod, err := b.kube.CoreV1().Pods("hpc").Get(b.Context(), name, metav1.GetOptions{})
	require.NoError(b, err)
	return pod
}

// refusedWithout holds what is so without a controller.
func (b *bed) refusedWithout(when string) {
	b.Helper()
	began := time.Now()
	assert.Contains(b, b.refused(fmt.Sprintf(asking, "asking-"+when, "hpc", "slurmd")), `failed calling webhook "inject.slurmlet.dev"`)
	assert.Contains(b, b.refused(fmt.Sprintf(asking, "bad-"+when, "hpc", "no-role")), `failed calling webhook "inject.slurmlet.dev"`)
	assert.Less(b, time.Since(began), patience)
	b.create(fmt.Sprintf(plain, "plain-"+when, "hpc"))
}

func trusted(b *bed) {
	b.replica("SLURMLET_LOG_LEVEL=debug", "SLURMLET_WEBHOOK="+webhook, "SLURMLET_PEERS=slurmlet.slurmlet.svc:443", "SLURMLET_AGENT_IMAGE=registry.example/agent:1", "SLURMLET_INJECT_CLUSTER=slurm").ready()
	var said string
	b.eventually(patience, "a dry run of a pod is injected: "+said, func() (done bool) {
		text, err := b.kubectl(fmt.Sprintf(asking, "first", "hpc", "slurmd"), "create", "--dry-run=server", "-f", "-")
		said = text
		return err == nil
	})
}

func injected(b *bed) {
	said := b.create(fmt.Sprintf(asking, "node-0", "hpc", "slurmd"))
	assert.Contains(b, said, "Warning: container slurm runs slurmlet slurmd in place of the image's own command")
	assert.Contains(b, said, "Warning: terminationGracePeriodSeconds is 86400, not 30")
	pod := b.get("node-0")
	assert.Equal(b, []string{"/opt/slurmlet/slurmlet", "slurmd"}, pod.Spec.Containers[0].Command)
	assert.Equal(b, "slurmlet-install", pod.Spec.InitContainers[0].Name)
	assert.EqualValues(b, 86400, *pod.Spec.TerminationGracePeriodSeconds)
	assert.Equal(b, corev1.PodQOSGuaranteed, pod.Status.QOSClass)
	assert.Equal(b, "slurm", pod.Labels["slurmlet.dev/cluster"])
	assert.Equal(b, "slurmd", pod.Labels["slurmlet.dev/role"])
	b.eventually(patience, "the pod has an event", func() bool { return b.events(pod) == 1 })
	events, err := b.kube.CoreV1().Events("hpc").List(b.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID)})
	require.NoError(b, err)
	assert.Equal(b, []string{"Injected", corev1.EventTypeNormal}, []string{events.Items[0].Reason, events.Items[0].Type})
	assert.Equal(b, "The webhook gave the pod the agent: "+pod.Annotations["slurmlet.dev/injected"]+".", events.Items[0].Message)
}

func dryRun(b *bed) {
	said, err := b.kubectl(fmt.Sprintf(asking, "dry", "hpc", "login"), "create", "--dry-run=server", "-f", "-")
	require.NoError(b, err, said)
	assert.Contains(b, said, "Warning: container slurm runs slurmlet login")
	said, err = b.kubectl("", "get", "pod", "dry", "--namespace", "hpc")
	require.Error(b, err)
	assert.Contains(b, said, "NotFound")
}

func eachRole(b *bed) {
	for _, role := range []string{"slurmctld", "slurmd", "login", "slurmdbd", "slurmrestd"} {
		b.create(fmt.Sprintf(asking, "role-"+role, "hpc", role))
		b.create(strings.Replace(fmt.Sprintf(asking, "host-"+role, "hpc", role), "spec:", "spec:\n  hostNetwork: true", 1))
		b.create(strings.Replace(strings.Replace(fmt.Sprintf(asking, "generated", "hpc", role), "name: generated", "generateName: a-", 1), "name: slurm,", "name: slurm, securityContext: {readOnlyRootFilesystem: true},", 1))
	}
}

func copies(b *bed) {
	pod := b.get("node-0")
	again := pod.DeepCopy()
	again.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	again.ObjectMeta = metav1.ObjectMeta{Name: "node-copy", Namespace: "hpc", Labels: pod.Labels, Annotations: pod.Annotations}
	text, err := json.Marshal(again)
	require.NoError(b, err)
	assert.NotContains(b, b.create(string(text)), "Warning")
	assert.Equal(b, pod.Spec, b.get("node-copy").Spec)
}

func gates(b *bed) {
	b.create(strings.Replace(fmt.Sprintf(asking, "gated", "hpc", "slurmd"), "spec:", "spec:\n  schedulingGates: [{name: slurmlet.dev/inject}]", 1))
	assert.Empty(b, b.get("gated").Spec.SchedulingGates)
}

func refusedRole(b *bed) {
	assert.Contains(b, b.refused(fmt.Sprintf(asking, "bad", "hpc", "slurm")),
		`The Pod "bad" is invalid: metadata.annotations[slurmlet.dev/inject]: Unsupported value: "slurm": supported values: "slurmctld", "slurmd", "login", "slurmdbd", "slurmrestd"`)
}

// podSecurity creates injected pods in namespaces of each level.
func podSecurity(b *bed) {
	const user = "securityContext: {runAsNonRoot: true, runAsUser: 64030, fsGroup: 64030, seccompProfile: {type: RuntimeDefault}}\n  containers:"
	restricted := func(pod string) string {
		pod = strings.Replace(pod, "containers:", user, 1)
		return strings.Replace(pod, "resources:", "securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}, resources:", 1)
	}
	secured := func(pod string) string {
		return strings.Replace(pod, "slurmlet.dev/inject:", "slurmlet.dev/security-context: slurmlet, slurmlet.dev/inject:", 1)
	}
	for _, level := range []string{"baseline", "restricted"} {
		b.namespace(level)
		said, err := b.kubectl("", "label", "namespace", level, "pod-security.kubernetes.io/enforce="+level)
		require.NoError(b, err, said)
	}
	for _, role := range []string{"slurmctld", "slurmdbd", "slurmrestd"} {
		b.create(restricted(fmt.Sprintf(asking, role, "restricted", role)))
		b.create(fmt.Sprintf(asking, role, "baseline", role))
	}
	b.create(secured(fmt.Sprintf(asking, "slurmd", "baseline", "slurmd")))
	b.create(secured(fmt.Sprintf(asking, "login", "baseline", "login")))
	for _, role := range []string{"slurmd", "login"} {
		assert.Contains(b, b.refused(secured(fmt.Sprintf(asking, role, "restricted", role))), `violates PodSecurity "restricted`)
		assert.Contains(b, b.refused(restricted(fmt.Sprintf(asking, role, "restricted", role))), role+" starts processes as their users, so it must be root")
	}
}

func leftOut(b *bed) {
	_, err := b.kube.CoreV1().ServiceAccounts("kube-system").Create(b.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	require.NoError(b, err)
	for _, outside := range []string{"kube-system", home} {
		b.create(fmt.Sprintf(plain, "plain", outside))
		assert.Contains(b, b.refused(fmt.Sprintf(asking, "asking", outside, "slurmd")), "the annotation slurmlet.dev/inject asks for the agent, and no webhook has brought it")
	}
}

func bundleKept(b *bed) {
	configurations := b.kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	bundle := func() string {
		c, err := configurations.Get(b.Context(), webhook, metav1.GetOptions{})
		require.NoError(b, err)
		return string(c.Webhooks[0].ClientConfig.CABundle)
	}
	want := bundle()
	require.NotEmpty(b, want)
	patch := `[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}, {"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 7}]`
	_, err := configurations.Patch(b.Context(), webhook, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(b, err)
	b.eventually(patience, "the certificates are back", func() bool { return bundle() == want })
	c, err := configurations.Get(b.Context(), webhook, metav1.GetOptions{})
	require.NoError(b, err)
	assert.EqualValues(b, 7, *c.Webhooks[0].TimeoutSeconds)
}

func heldAlone(b *bed) {
	require.NoError(b, b.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(b.Context(), webhook, metav1.DeleteOptions{}))
	b.eventually(patience, "the API server has forgotten the webhook", func() bool {
		return strings.Contains(b.refused(fmt.Sprintf(asking, "alone", "hpc", "slurmd")), "no webhook has brought it")
	})
	b.create(fmt.Sprintf(plain, "alone", "hpc"))
}
