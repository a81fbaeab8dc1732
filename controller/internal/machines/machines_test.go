package machines

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func node(labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m1", Labels: labels}}
}

func TestWords(t *testing.T) {
	labels := map[string]string{"topology.kubernetes.io/zone": "eu-1a", "rack": "r7", "type": "p5.48xlarge", "price": "12", "empty": ""}
	for _, c := range []struct {
		name             string
		settings         Settings
		features         []string
		topology, weight string
	}{
		{"nothing is asked for", Settings{}, nil, "", ""},
		{"values", Settings{Features: "zone-{topology.kubernetes.io/zone}, {type}", Topology: "default:{rack}", Weight: "{price}"}, []string{"p5.48xlarge", "zone-eu-1a"}, "default:r7", "12"},
		{"a label that the machine lacks", Settings{Features: "a-{none}, {rack}", Topology: "default:{none}", Weight: "{none}"}, []string{"r7"}, "", ""},
		{"an empty label with a word for all values", Settings{Features: "{empty|*=worker}"}, []string{"worker"}, "", ""},
		{"words", Settings{Features: "{type|p5.48xlarge=h100|m7i.large=cpu}", Weight: "{type|m7i.large=1|*=90}"}, []string{"h100"}, "", "90"},
		{"a value without a word", Settings{Features: "{type|m7i.large=cpu}"}, nil, "", ""},
		{"several places", Settings{Topology: "block:{rack},tree:{topology.kubernetes.io/zone}"}, nil, "block:r7,tree:eu-1a", ""},
		{"several labels of one word", Settings{Features: "{rack}-{type}"}, []string{"r7-p5.48xlarge"}, "", ""},
		{"the first weight counts", Settings{Weight: "{none},{price},7"}, nil, "", "12"},
		{"a word twice", Settings{Features: "{rack},{rack}"}, []string{"r7"}, "", ""},
		{"a word without a label", Settings{Features: "kubernetes"}, []string{"kubernetes"}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules, err := Parse(c.settings)
			require.NoError(t, err)
			m := rules.Of(node(labels))
			assert.Empty(t, m.Faults)
			assert.Equal(t, c.features, m.Self.Features)
			assert.Equal(t, []string{c.topology, c.weight}, []string{m.Self.Topology, m.Self.Weight})
			assert.Equal(t, "m1", m.Self.Machine)
		})
	}
}

func TestALabelThatIsNoWeight(t *testing.T) {
	rules, err := Parse(Settings{Weight: "{price}", Features: "{price}"})
	require.NoError(t, err)
	for _, price := range []string{"cheap", "4294967294", "99999999999999999999999"} {
		m := rules.Of(node(map[string]string{"price": price}))
		assert.Empty(t, m.Self.Weight)
		require.Len(t, m.Faults, 1)
		assert.Contains(t, m.Faults[0], "weight: {price}: ")
		assert.Equal(t, []string{price}, m.Self.Features, "everything else goes on")
	}
}

func TestAnEmptyLabel(t *testing.T) {
	rules, err := Parse(Settings{Features: "{role},a-{rack},{role|gpu=gpu},{rack}", Topology: "default:{role}"})
	require.NoError(t, err)
	m := rules.Of(node(map[string]string{"role": "", "rack": "r7"}))
	assert.Equal(t, []string{"features: {role}: the label role is empty", "features: {role|gpu=gpu}: the label role is empty", "topology: default:{role}: the label role is empty"}, m.Faults)
	assert.Equal(t, []string{"a-r7", "r7"}, m.Self.Features, "everything else goes on")
	assert.Empty(t, m.Self.Topology)
}

func TestPassedLabels(t *testing.T) {
	rules, err := Parse(Settings{Labels: "rack, topology.kubernetes.io/*"})
	require.NoError(t, err)
	m := rules.Of(node(map[string]string{"rack": "r7", "topology.kubernetes.io/zone": "a", "topology.kubernetes.iox/zone": "b", "other": "c"}))
	assert.Equal(t, map[string]string{"rack": "r7", "topology.kubernetes.io/zone": "a"}, m.Self.Labels)
}

func TestDrain(t *testing.T) {
	usual, err := Parse(Usual)
	require.NoError(t, err)
	own, err := Parse(Settings{Taints: "a=b:NoSchedule,c", Conditions: "DiskPressure,GPU=Unknown"})
	require.NoError(t, err)
	silent, err := Parse(Settings{Conditions: "usual,Ready=Unknown"})
	require.NoError(t, err)
	for _, c := range []struct {
		name  string
		rules *Rules
		node  corev1.Node
		want  string
	}{
		{"a healthy machine", usual, corev1.Node{Status: conditions(corev1.NodeReady, corev1.ConditionTrue)}, ""},
		{"a new machine, which has no conditions yet", usual, corev1.Node{}, ""},
		{"cordoned", own, corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}, "machine m1 is cordoned"},
		{"cordoned by the controller", usual, corev1.Node{ObjectMeta: marked("cordon"), Spec: corev1.NodeSpec{Unschedulable: true}}, ""},
		{"tainted by the controller, and cordoned by somebody", usual, corev1.Node{ObjectMeta: marked("taint"), Spec: corev1.NodeSpec{Unschedulable: true}}, "machine m1 is cordoned"},
		{"tainted by the controller", usual, corev1.Node{ObjectMeta: marked("taint"), Spec: taints(corev1.Taint{Key: Taint, Effect: "NoSchedule"})}, ""},
		{"not ready", usual, corev1.Node{Status: conditions(corev1.NodeReady, corev1.ConditionFalse)}, "machine m1 is not ready"},
		{"silent", usual, corev1.Node{Status: conditions(corev1.NodeReady, corev1.ConditionUnknown)}, ""},
		{"silent, where somebody wants that", silent, corev1.Node{Status: conditions(corev1.NodeReady, corev1.ConditionUnknown)}, "machine m1 does not answer Kubernetes"},
		{"readiness that no setting names", own, corev1.Node{Status: conditions(corev1.NodeReady, corev1.ConditionFalse)}, ""},
		{"node-problem-detector", usual, corev1.Node{Status: conditions("KernelDeadlock", corev1.ConditionTrue)}, "machine m1 has the condition KernelDeadlock"},
		{"node-problem-detector, without a problem", usual, corev1.Node{Status: conditions("KernelDeadlock", corev1.ConditionFalse)}, ""},
		{"a status", own, corev1.Node{Status: conditions("GPU", corev1.ConditionUnknown)}, "machine m1 has the condition GPU=Unknown"},
		{
			"the cluster autoscaler", usual,
			corev1.Node{Spec: taints(corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Value: "1700000000", Effect: "NoSchedule"})},
			"machine m1 has the taint ToBeDeletedByClusterAutoscaler=1700000000:NoSchedule",
		},
		{"a candidate of the cluster autoscaler", usual, corev1.Node{Spec: taints(corev1.Taint{Key: "DeletionCandidateOfClusterAutoscaler", Effect: "PreferNoSchedule"})}, ""},
		{"Karpenter", usual, corev1.Node{Spec: taints(corev1.Taint{Key: "karpenter.sh/disrupted", Effect: "NoSchedule"})}, "machine m1 has the taint karpenter.sh/disrupted:NoSchedule"},
		{"a taint for tenants", usual, corev1.Node{Spec: taints(corev1.Taint{Key: "nvidia.com/gpu", Effect: "NoSchedule"})}, ""},
		{"another value", own, corev1.Node{Spec: taints(corev1.Taint{Key: "a", Value: "x", Effect: "NoSchedule"})}, ""},
		{"another effect", own, corev1.Node{Spec: taints(corev1.Taint{Key: "a", Value: "b", Effect: "NoExecute"})}, ""},
		{"any value and effect", own, corev1.Node{Spec: taints(corev1.Taint{Key: "c", Value: "b", Effect: "NoExecute"})}, "machine m1 has the taint c=b:NoExecute"},
		{
			"several, in one order", own,
			corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "c", Effect: "NoExecute"}, {Key: "a", Value: "b", Effect: "NoSchedule"}}}},
			"machine m1 has the taint a=b:NoSchedule, has the taint c:NoExecute, is cordoned",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.node.Name = "m1"
			assert.Equal(t, c.want, c.rules.Of(&c.node).Self.Drain)
		})
	}
}

func marked(how string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Annotations: map[string]string{Annotation: how + ": n: bad DIMM"}}
}

func taints(all ...corev1.Taint) corev1.NodeSpec { return corev1.NodeSpec{Taints: all} }

func conditions(kind corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeStatus {
	return corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: kind, Status: status}}}
}

func TestOutOfService(t *testing.T) {
	rules, err := Parse(Usual)
	require.NoError(t, err)
	n := node(nil)
	assert.False(t, rules.Of(n).OutOfService)
	n.Spec = taints(corev1.Taint{Key: "node.kubernetes.io/out-of-service", Value: "nodeshutdown", Effect: "NoExecute"})
	assert.True(t, rules.Of(n).OutOfService)
}

func TestSettingsWithFaults(t *testing.T) {
	_, err := Parse(Settings{
		Labels: "ok, a b, */*, /x", Features: "a b, {x, {}, y}, a{b|c}, {b|x=}, {b|x=y|x=z}, f&g", Topology: "rack1, :a, default:{r|x=a b}",
		Weight: "x, 4294967295, {a|b=c}, 1{a}", Taints: "a:Sometimes, b c", Conditions: "Ready=Maybe, a b",
	})
	require.Error(t, err)
	for _, want := range []string{
		`labels: cannot use "a b"`, `labels: cannot use "*/*"`, `labels: cannot use "/x"`,
		`features: cannot use "a b": "a b" has characters`, `features: cannot use "{x, {}, y}`, `features: cannot use "a{b|c}": "c": want value=word`,
		`features: cannot use "{b|x=}": "x=": want value=word`, `features: cannot use "{b|x=y|x=z}": "x=z": the value has a word already`, `features: cannot use "f&g"`,
		`topology: cannot use "rack1": "rack1" is no place in a topology: want topology:unit[:…], as in default:rack1`, `topology: cannot use ":a"`,
		`topology: cannot use "default:{r|x=a b}": "a b" has characters`,
		`weight: cannot use "x": "x" has characters that Slurm does not take there: want digits`, `weight: cannot use "4294967295"`, `weight: cannot use "{a|b=c}"`,
		`taints: cannot use "a:Sometimes": "Sometimes" is no effect: want NoSchedule, PreferNoSchedule, NoExecute`, `taints: cannot use "b c"`,
		`conditions: cannot use "Ready=Maybe": "Maybe" is no status: want True, False, Unknown`, `conditions: cannot use "a b"`,
	} {
		assert.ErrorContains(t, err, want)
	}
	assert.NotContains(t, err.Error(), `"ok"`)
	assert.NotContains(t, err.Error(), `"1{a}"`)
}

// FuzzRules holds that settings that were taken make words that Slurm takes, whatever labels a machine has.
func FuzzRules(f *testing.F) {
	f.Add("{a|x=y|*=z}-1", "default:{a}", "{a|x=1}", "a", "x")
	f.Add("{a}", "a:{a}:b,c:{a}", "5", "topology.kubernetes.io/zone", "eu-1a")
	f.Fuzz(func(t *testing.T, features, place, weights, key, value string) {
		rules, err := Parse(Settings{Features: features, Topology: place, Weight: weights})
		if err != nil || validation.IsQualifiedName(key) != nil || validation.IsValidLabelValue(value) != nil {
			return
		}
		m := rules.Of(node(map[string]string{key: value}))
		for _, word := range m.Self.Features {
			assert.NotEmpty(t, word)
			assert.NoError(t, feature.whole(word))
		}
		if m.Self.Topology != "" {
			for word := range strings.SplitSeq(m.Self.Topology, ",") {
				assert.NoError(t, topology.whole(word))
			}
		}
		if m.Self.Weight != "" {
			assert.NoError(t, weight.whole(m.Self.Weight))
		}
		assert.True(t, m.Equal(rules.Of(node(map[string]string{key: value}))))
	})
}
