//go:build e2e

package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// policy is the name of the chart's ValidatingAdmissionPolicy.
const policy = "controller." + home + "." + home

// everything are the values that give the controller all rights that there are.
var everything = []string{"--set", "elastic.enabled=true,machines.cordon=taint,machines.cordonNamespaces={hpc},scaleIn.safeToEvict=true,configMaps={hpc/slurm}"}

// TestRights has the controller's own token do what its rights would let it do: without the policy each attack goes
// through, and with it each is refused by the policy's name, while what the controller needs goes on. All requests are
// dry runs, which admission judges like others.
func TestRights(t *testing.T) {
	t.Parallel()
	b := newBedWith(t, []string{home, "hpc"}, append(everything, "--set", "admissionPolicy.enabled=false")...)
	b.installWebhook(everything...)
	v := b.victims()
	b.run([]story{
		{"without the policy each attack goes through", func(b *bed) {
			for _, a := range attacks {
				assert.NoError(b, a.request(b.Context(), v), a.name)
			}
		}},
		{"with the policy each is refused by name", func(b *bed) {
			b.installPolicy(everything...)
			for _, a := range attacks {
				b.denies(a.name, a.request(b.Context(), v), a.says)
			}
		}},
		{"what the controller needs goes on", func(b *bed) {
			for _, a := range needs {
				assert.NoError(b, a.request(b.Context(), v), a.name)
			}
		}},
		{"the policy is not its own to change", func(b *bed) {
			for name, err := range ownRights(b.Context(), v) {
				assert.True(b, apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "denied request"), "%s: %v", name, err)
			}
		}},
		{"nobody else is touched", func(b *bed) {
			other := &victims{Interface: b.kube, bed: b}
			for _, a := range attacks {
				assert.NoError(b, a.request(b.Context(), other), a.name)
			}
		}},
		{"a pod with 10,000 annotations is marked", manyAnnotations},
		{"what the policy costs", policyCost},
	})
}

// TestRightsOff has no feature on: what no feature writes is refused, also where RBAC would allow it.
func TestRightsOff(t *testing.T) {
	t.Parallel()
	b := newBedWith(t, []string{home, "hpc"}, append(everything, "--set", "admissionPolicy.enabled=false")...) // more rights than the policy knows of
	b.installWebhook(everything...)
	b.installPolicy("--set", "inject.enabled=false,scaleIn.enabled=false,rolling.enabled=false")
	v := b.victims()
	for _, a := range needs {
		err := a.request(b.Context(), v)
		if strings.HasPrefix(a.name, "authority:") {
			assert.NoError(b, err, a.name)
		} else {
			b.denies(a.name, err, "may write nothing but CREATE secrets, UPDATE secrets, CREATE configmaps, UPDATE configmaps, as its chart's values say: not ")
		}
	}
}

// victims are the objects of an attack, and a client with the controller's own token.
type victims struct {
	kubernetes.Interface
	bed *bed
}

// victims makes a pod of kube-system, of a cluster a slurmctld, nodes of several owners, and one of a set that
// nobody owns, a Kubernetes node, and the objects of the authority.
func (b *bed) victims() *victims {
	b.Helper()
	for name, owner := range map[string]string{"n-0": "StatefulSet", "n-1": ""} {
		if owner != "" {
			b.owned(spec{"hpc", name, "slurm", "slurmd", "cpu", "", "m0", nil}, owner, "n", "u", "r")
			continue
		}
		b.pod(spec{"hpc", name, "slurm", "slurmd", "cpu", "", "", nil})
	}
	b.pod(spec{"hpc", "ctld-0", "slurm", "slurmctld", "", "", "", nil})
	elastic := b.pod(spec{"hpc", "e-0", "slurm", "slurmd", "gpu", "", "", nil})
	_, err := b.kube.CoreV1().Pods("hpc").Patch(b.Context(), elastic.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"slurmlet.dev/elastic":"gpu"}}}`), metav1.PatchOptions{})
	require.NoError(b, err)
	_, err = b.kube.CoreV1().ServiceAccounts("kube-system").Create(b.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	require.NoError(b, err)
	for _, account := range []string{"deployer", "slurm-slurmd"} {
		_, err = b.kube.CoreV1().ServiceAccounts("hpc").Create(b.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
		require.NoError(b, err)
	}
	b.pod(spec{namespace: "kube-system", name: "dns"})
	b.pod(spec{"kube-system", "ctld-0", "slurm", "slurmctld", "", "", "", nil})
	b.node("m0")
	_, err = b.kube.CoreV1().Secrets(home).Create(b.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "slurmlet-ca"}, Data: map[string][]byte{"a": []byte("b")}}, metav1.CreateOptions{})
	require.NoError(b, err)
	_, err = b.kube.CoreV1().ConfigMaps("hpc").Create(b.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "slurmlet-ca"}, Data: map[string]string{"ca.crt": "x", "other": "y"}}, metav1.CreateOptions{})
	require.NoError(b, err)
	path := b.file("stolen.kubeconfig")
	b.write(path, b.kubeconfig(b.token(home, home, nil, issuer)))
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(b, err)
	config.QPS = -1
	api, err := kubernetes.NewForConfig(config)
	require.NoError(b, err)
	return &victims{api, b}
}

// request is one that the controller's token makes, and the policy's answer if it is refused.
type request struct {
	name    string
	request func(context.Context, *victims) error
	says    string
}

var dry = []string{metav1.DryRunAll}

// webhookPatch changes the controller's own configuration.
func webhookPatch(patch string) func(context.Context, *victims) error {
	return func(ctx context.Context, v *victims) error {
		_, err := v.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(ctx, webhook, types.JSONPatchType, []byte(patch), metav1.PatchOptions{DryRun: dry})
		return err
	}
}

// statusPatch changes the status of a pod, and what comes with it.
func statusPatch(namespace, name, patch string) func(context.Context, *victims) error {
	return func(ctx context.Context, v *victims) error {
		_, err := v.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dry}, "status")
		return err
	}
}

func deletion(namespace, name string) func(context.Context, *victims) error {
	return func(ctx context.Context, v *victims) error {
		return v.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{DryRun: dry})
	}
}

// creation makes the pod of an elastic set, changed by the attacker.
func creation(namespace string, change func(*corev1.Pod)) func(context.Context, *victims) error {
	return func(ctx context.Context, v *victims) error {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "new", Labels: map[string]string{"slurmlet.dev/cluster": "slurm", "slurmlet.dev/role": "slurmd", "slurmlet.dev/elastic": "gpu"}},
			Spec: corev1.PodSpec{AutomountServiceAccountToken: new(false), Containers: []corev1.Container{{
				Name: "slurmd", Image: "slurm", SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SETUID", "CHOWN"}}},
			}}},
		}
		if change != nil {
			change(p)
		}
		_, err := v.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{DryRun: dry})
		return err
	}
}

// nodeUpdate changes a Kubernetes node as the controller does it.
func nodeUpdate(change func(*corev1.Node)) func(context.Context, *victims) error {
	return func(ctx context.Context, v *victims) error {
		n, err := v.CoreV1().Nodes().Get(ctx, "m0", metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(n)
		_, err = v.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{DryRun: dry})
		return err
	}
}

// annotate adds one.
func annotate(n *corev1.Node, key, value string) {
	n.Annotations = maps.Clone(n.Annotations)
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[key] = value
}

func secretCreation(name string, kind corev1.SecretType, annotations map[string]string) func(context.Context, *victims) error {
	return func(ctx context.Context, v *victims) error {
		_, err := v.CoreV1().Secrets(home).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Type: kind}, metav1.CreateOptions{DryRun: dry})
		return err
	}
}

func secretUpdate(change func(*corev1.Secret)) func(context.Context, *victims) error {
	return func(ctx context.Context, v *victims) error {
		s, err := v.bed.kube.CoreV1().Secrets(home).Get(ctx, "slurmlet-ca", metav1.GetOptions{}) // it may list it
		if err != nil {
			return err
		}
		change(s)
		_, err = v.CoreV1().Secrets(home).Update(ctx, s, metav1.UpdateOptions{DryRun: dry})
		return err
	}
}

// application applies the ConfigMap with the certificates.
func application(namespace string, labels, data map[string]string) func(context.Context, *victims) error {
	return func(ctx context.Context, v *victims) error {
		m := applycorev1.ConfigMap("slurmlet-ca", namespace).WithLabels(labels).WithData(data)
		_, err := v.CoreV1().ConfigMaps(namespace).Apply(ctx, m, metav1.ApplyOptions{FieldManager: "slurmlet-controller", Force: true, DryRun: dry})
		return err
	}
}

const (
	bundleAlone  = "slurmlet's controller may change caBundle alone in its MutatingWebhookConfiguration"
	nodesAlone   = "slurmlet's controller may mark pods alone that have the labels slurmlet.dev/cluster and slurmlet.dev/role=slurmd"
	noLabels     = "slurmlet's controller may change these annotations of a pod alone, and no labels: controller.kubernetes.io/pod-deletion-cost, cluster-autoscaler.kubernetes.io/safe-to-evict"
	conditions   = "slurmlet's controller may change the conditions slurmlet.dev/* alone in a pod's status"
	versionAlone = "slurmlet's controller may write a resourceVersion alone into a pod of slurmctld, as the annotation slurmlet.dev/config-version"
	configMapsAt = "slurmlet's controller may change pods of slurmctld in these namespaces alone (configMaps of its chart): hpc"
	goneAlone    = "slurmlet's controller may delete pods alone that have the labels slurmlet.dev/cluster and slurmlet.dev/role=slurmd, and"
	labelled     = "slurmlet's controller may create pods alone that have the labels slurmlet.dev/cluster, slurmlet.dev/elastic and slurmlet.dev/role=slurmd"
	elsewhere    = "slurmlet's controller may create no pods in these namespaces: kube-system, kube-public, kube-node-lease, slurmlet"
	accounts     = "slurmlet's controller may create pods with these service accounts alone (elastic.serviceAccounts of its chart): default, and <cluster>-slurmd"
	noHost       = "slurmlet's controller may create pods alone without the machine's namespaces (hostNetwork, hostPID, hostIPC) and without nodeName"
	noPaths      = "slurmlet's controller may create pods alone without hostPath, but for those that elastic.hostPaths of its chart names: none"
	unprivileged = "slurmlet's controller may create pods alone whose containers have no privileged, hostPort, hostProcess and other procMount"
	capabilities = "slurmlet's controller may create pods with these capabilities alone (elastic.capabilities of its chart adds some): AUDIT_WRITE, "
	nodeMarks    = "slurmlet's controller may change of a Node the annotations slurmlet.dev/drained-by-slurm and slurmlet.dev/drained-nodes, spec.unschedulable and the taint slurmlet.dev/drained alone"
	nodeSpec     = "slurmlet's controller may change of a Node's spec unschedulable and the taint slurmlet.dev/drained alone"
	nodeCordon   = "slurmlet's controller may cordon a Node with the annotation slurmlet.dev/drained-by-slurm alone, and uncordon one alone that has it"
	secretMade   = "slurmlet's controller may create the Secret slurmlet-ca of the type Opaque alone, without annotations"
	secretData   = "slurmlet's controller may change the data of the Secret slurmlet-ca alone"
	mapMade      = "slurmlet's controller may create the ConfigMap slurmlet-ca with the key ca.crt alone, without annotations"
	mapData      = "slurmlet's controller may change the key ca.crt and the label app.kubernetes.io/managed-by of the ConfigMap slurmlet-ca alone"
)

var managed = map[string]string{"app.kubernetes.io/managed-by": "slurmlet-controller"}

// attacks are what the rights would allow.
var attacks = []request{
	{"webhook: each Secret that is written", webhookPatch(`[{"op":"replace","path":"/webhooks/0/rules/0","value":{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["secrets"]}}]`), bundleAlone},
	{"webhook: all namespaces", webhookPatch(`[{"op":"remove","path":"/webhooks/0/namespaceSelector"}]`), bundleAlone},
	{"webhook: all pods", webhookPatch(`[{"op":"remove","path":"/webhooks/0/matchConditions"}]`), bundleAlone},
	{"webhook: another address", webhookPatch(`[{"op":"replace","path":"/webhooks/0/clientConfig","value":{"url":"https://evil.example"}}]`), bundleAlone},
	{"webhook: another Service", webhookPatch(`[{"op":"replace","path":"/webhooks/0/clientConfig/service/name","value":"evil"}]`), bundleAlone},
	{"webhook: a second one", webhookPatch(`[{"op":"copy","from":"/webhooks/0","path":"/webhooks/-"},{"op":"replace","path":"/webhooks/1/name","value":"evil.slurmlet.dev"}]`), bundleAlone},
	{"webhook: none", webhookPatch(`[{"op":"remove","path":"/webhooks/0"}]`), bundleAlone},
	{"webhook: labels", webhookPatch(`[{"op":"add","path":"/metadata/labels/a","value":"b"}]`), bundleAlone},
	{"status: labels of a pod in kube-system", statusPatch("kube-system", "dns", `{"metadata":{"labels":{"slurmlet.dev/cluster":"slurm","slurmlet.dev/role":"slurmd"}}}`), nodesAlone},
	{"status: annotations of a pod in kube-system", statusPatch("kube-system", "dns", `{"metadata":{"annotations":{"a":"b"}}}`), nodesAlone},
	{"status: the phase of a pod in kube-system", statusPatch("kube-system", "dns", `{"status":{"phase":"Failed"}}`), nodesAlone},
	{"status: a mark of slurmctld's pod", statusPatch("hpc", "ctld-0", `{"status":{"conditions":[{"type":"slurmlet.dev/Idle","status":"True"}]}}`), versionAlone},
	{"status: a label of slurmctld's pod", statusPatch("hpc", "ctld-0", `{"metadata":{"labels":{"app":"web"}}}`), versionAlone},
	{"status: another annotation of slurmctld's pod", statusPatch("hpc", "ctld-0", `{"metadata":{"annotations":{"a":"b"}}}`), versionAlone},
	{"status: any text in slurmctld's pod", statusPatch("hpc", "ctld-0", `{"metadata":{"annotations":{"slurmlet.dev/config-version":"evil"}}}`), versionAlone},
	{"status: slurmctld's pod of another namespace", statusPatch("kube-system", "ctld-0", `{"metadata":{"annotations":{"slurmlet.dev/config-version":"7"}}}`), configMapsAt},
	{"status: labels of a node's pod", statusPatch("hpc", "n-0", `{"metadata":{"labels":{"app":"web"}}}`), noLabels},
	{"status: no label of a node's pod", statusPatch("hpc", "n-0", `{"metadata":{"labels":{"slurmlet.dev/node-set":null}}}`), noLabels},
	{"status: another annotation", statusPatch("hpc", "n-0", `{"metadata":{"annotations":{"a":"b"}}}`), noLabels},
	{"status: a finalizer", statusPatch("hpc", "n-0", `{"metadata":{"finalizers":["example.com/x"]}}`), noLabels},
	{"status: another cost", statusPatch("hpc", "n-0", `{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"2147483647"}}}`), "slurmlet's controller may write -100, 0, 100, true and false alone into a pod's annotations"},
	{"status: the phase", statusPatch("hpc", "n-0", `{"status":{"phase":"Succeeded"}}`), conditions},
	{"status: the addresses", statusPatch("hpc", "n-0", `{"status":{"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}]}}`), conditions},
	{"status: Ready", statusPatch("hpc", "n-0", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`), conditions},
	{"status: another condition", statusPatch("hpc", "n-0", `{"status":{"conditions":[{"type":"DisruptionTarget","status":"True"}]}}`), conditions},
	{"deletion: a pod in kube-system", deletion("kube-system", "dns"), goneAlone},
	{"deletion: slurmctld's pod", deletion("hpc", "ctld-0"), goneAlone},
	{"deletion: a node's pod that no set owns", deletion("hpc", "n-1"), goneAlone},
	{"deletion: a node's pod at once", func(ctx context.Context, v *victims) error {
		return v.CoreV1().Pods("hpc").Delete(ctx, "n-0", metav1.DeleteOptions{GracePeriodSeconds: new(int64), DryRun: dry})
	}, "slurmlet's controller may delete pods alone with their own grace period, in which jobs end"},
	{"pods: without a cluster", creation("hpc", func(p *corev1.Pod) { p.Labels = nil }), labelled},
	{"pods: of another role", creation("hpc", func(p *corev1.Pod) { p.Labels["slurmlet.dev/role"] = "slurmctld" }), labelled},
	{"pods: of no set", creation("hpc", func(p *corev1.Pod) { delete(p.Labels, "slurmlet.dev/elastic") }), labelled},
	{"pods: in kube-system", creation("kube-system", nil), elsewhere},
	{"pods: in the controller's namespace", creation(home, func(p *corev1.Pod) { p.Spec.ServiceAccountName = home }), elsewhere},
	{"pods: another service account", creation("hpc", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "deployer" }), accounts},
	{"pods: hostNetwork", creation("hpc", func(p *corev1.Pod) { p.Spec.HostNetwork = true }), noHost},
	{"pods: hostPID", creation("hpc", func(p *corev1.Pod) { p.Spec.HostPID = true }), noHost},
	{"pods: hostIPC", creation("hpc", func(p *corev1.Pod) { p.Spec.HostIPC = true }), noHost},
	{"pods: on a machine of its choice", creation("hpc", func(p *corev1.Pod) { p.Spec.NodeName = "m0" }), noHost},
	{"pods: hostPath", creation("hpc", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
	}), noPaths},
	{"pods: privileged", creation("hpc", func(p *corev1.Pod) {
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	}), unprivileged},
	{"pods: a privileged init container", creation("hpc", func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "x", SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}}
	}), unprivileged},
	{"pods: hostPort", creation("hpc", func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 22, HostPort: 22}}
	}), unprivileged},
	{"pods: a capability", creation("hpc", func(p *corev1.Pod) {
		p.Spec.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"SETUID", "SYS_ADMIN"}
	}), capabilities},
	{"nodes: a label", nodeUpdate(func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }), nodeMarks},
	{"nodes: another annotation", nodeUpdate(func(n *corev1.Node) { annotate(n, "a", "b") }), nodeMarks},
	{"nodes: another taint", nodeUpdate(func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute})
	}), nodeSpec},
	{"nodes: another field", nodeUpdate(func(n *corev1.Node) { n.Spec.ProviderID = "x" }), nodeSpec},
	{"nodes: a cordon that says nothing", nodeUpdate(func(n *corev1.Node) { n.Spec.Unschedulable = true }), nodeCordon},
	{"secrets: another one", secretCreation("other", corev1.SecretTypeOpaque, nil), secretMade},
	{"secrets: another account's token", func(ctx context.Context, v *victims) error {
		// A name that is not taken: the API server makes one of the prefix.
		_, err := v.CoreV1().Secrets(home).Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "slurmlet-ca", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: corev1.SecretTypeServiceAccountToken,
		}, metav1.CreateOptions{DryRun: dry})
		return err
	}, secretMade},
	{"secrets: annotations", secretUpdate(func(s *corev1.Secret) { s.Annotations = map[string]string{"a": "b"} }), secretData},
	{"secrets: labels", secretUpdate(func(s *corev1.Secret) { s.Labels = map[string]string{"a": "b"} }), secretData},
	{"configmaps: another key in a new one", application("kube-system", managed, map[string]string{"dashboard.json": "x"}), mapMade},
	{"configmaps: another label of a new one", application("kube-system", map[string]string{"grafana_dashboard": "1"}, map[string]string{"ca.crt": "x"}), mapMade},
	{"configmaps: another key", application("hpc", managed, map[string]string{"ca.crt": "x", "other": "z"}), mapData},
	{"configmaps: another label", application("hpc", map[string]string{"grafana_dashboard": "1"}, map[string]string{"ca.crt": "x"}), mapData},
}

// needs are what the controller does.
var needs = []request{
	{name: "webhook: the certificates", request: webhookPatch(`[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"Cg=="}]`)},
	{name: "status: marks", request: statusPatch("hpc", "n-0", `{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"-100","cluster-autoscaler.kubernetes.io/safe-to-evict":"true"}},`+
		`"status":{"conditions":[{"type":"slurmlet.dev/Idle","status":"True"},{"type":"slurmlet.dev/Registered","status":"True"}]}}`)},
	{name: "status: the version of a ConfigMap", request: statusPatch("hpc", "ctld-0", `{"metadata":{"annotations":{"slurmlet.dev/config-version":"4711-2"}}}`)},
	{name: "deletion: a StatefulSet's pod", request: deletion("hpc", "n-0")},
	{name: "deletion: an elastic set's pod", request: deletion("hpc", "e-0")},
	{name: "pods: of an elastic set", request: creation("hpc", nil)},
	{name: "pods: with the chart's service account", request: creation("hpc", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "slurm-slurmd" })},
	{name: "nodes: a cordon", request: nodeUpdate(func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		annotate(n, "slurmlet.dev/drained-by-slurm", "cordon: n-0: disk")
	})},
	{name: "nodes: a taint", request: nodeUpdate(func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "slurmlet.dev/drained", Effect: corev1.TaintEffectNoSchedule})
		annotate(n, "slurmlet.dev/drained-by-slurm", "taint: n-0: disk")
		annotate(n, "slurmlet.dev/drained-nodes", "hpc/slurm/n-0")
	})},
	{name: "authority: another key", request: secretUpdate(func(s *corev1.Secret) { s.Data = map[string][]byte{"c": []byte("d")} })},
	{name: "authority: a new ConfigMap", request: application("kube-system", managed, map[string]string{"ca.crt": "x"})},
	{name: "authority: a ConfigMap", request: application("hpc", managed, map[string]string{"ca.crt": "z"})},
}

// ownRights are requests that would loosen the policy, or give other rights.
func ownRights(ctx context.Context, v *victims) map[string]error {
	empty := []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	one := metav1.PatchOptions{DryRun: dry}
	gone := metav1.DeleteOptions{DryRun: dry}
	admission, rbac := v.AdmissionregistrationV1(), v.RbacV1()
	all := map[string]error{}
	_, all["the policy"] = admission.ValidatingAdmissionPolicies().Patch(ctx, policy, types.MergePatchType, empty, one)
	_, all["the binding"] = admission.ValidatingAdmissionPolicyBindings().Patch(ctx, policy, types.MergePatchType, empty, one)
	all["no policy"] = admission.ValidatingAdmissionPolicies().Delete(ctx, policy, gone)
	all["no binding"] = admission.ValidatingAdmissionPolicyBindings().Delete(ctx, policy, gone)
	_, all["the ClusterRole"] = rbac.ClusterRoles().Patch(ctx, home+":"+home, types.MergePatchType, empty, one)
	_, all["the Role"] = rbac.Roles(home).Patch(ctx, home, types.MergePatchType, empty, one)
	_, all["another account's token"] = v.CoreV1().ServiceAccounts("hpc").CreateToken(ctx, "deployer", &authenticationv1.TokenRequest{}, metav1.CreateOptions{DryRun: dry})
	_, all["a pod itself"] = v.CoreV1().Pods("hpc").Patch(ctx, "n-0", types.MergePatchType, empty, one)
	_, all["a ConfigMap without a name"] = v.CoreV1().ConfigMaps("hpc").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "slurmlet-ca"}}, metav1.CreateOptions{DryRun: dry})
	return all
}

// denies holds that a request is refused by the policy's name, and that the answer says what is allowed.
func (b *bed) denies(name string, err error, says string) {
	b.Helper()
	if assert.Error(b, err, name) {
		assert.Contains(b, err.Error(), fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: ", policy, policy), name)
		assert.Contains(b, err.Error(), says, name)
		assert.True(b, apierrors.IsForbidden(err), name)
	}
}

// manyAnnotations: the policy compares annotations one by one, and Kubernetes bounds the work of an expression.
func manyAnnotations(b *bed) {
	annotations := map[string]string{}
	for n := range 10_000 { // 256 KiB are the most
		annotations[fmt.Sprintf("%020d", n)] = "x"
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	require.NoError(b, err)
	_, err = b.kube.CoreV1().Pods("hpc").Patch(b.Context(), "n-0", types.MergePatchType, text, metav1.PatchOptions{})
	require.NoError(b, err)
	for _, a := range needs {
		if strings.HasPrefix(a.name, "status:") {
			assert.NoError(b, a.request(b.Context(), b.stolen()))
		}
	}
}

// stolen is a client with the controller's own token.
func (b *bed) stolen() *victims {
	config, err := clientcmd.BuildConfigFromFlags("", b.file("stolen.kubeconfig"))
	require.NoError(b, err)
	api, err := kubernetes.NewForConfig(config)
	require.NoError(b, err)
	return &victims{api, b}
}

// policyCost prints kube-apiserver's own times: of the condition, which every writer of such an object pays, and of the
// policy, which the controller pays.
func policyCost(b *bed) {
	text, err := b.kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	require.NoError(b, err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, policy) && (strings.Contains(line, "_sum{") || strings.Contains(line, "_count{")) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	slices.Sort(lines)
	b.Log(strings.Join(lines, "\n"))
	assert.NotEmpty(b, lines)
}
