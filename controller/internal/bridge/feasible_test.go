package bridge

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

func gated(spec corev1.PodSpec) *corev1.Pod {
	spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: wellknown.Gate}}
	return &corev1.Pod{Spec: spec}
}

func groupWith(pods ...*corev1.Pod) *group {
	g := &group{pods: map[types.UID]*corev1.Pod{}}
	for i, p := range pods {
		p.UID = types.UID(fmt.Sprint(i))
		g.pods[p.UID] = p
	}
	return g
}

func TestFits(t *testing.T) {
	node := func(labels map[string]string, taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m1", Labels: labels}, Spec: corev1.NodeSpec{Taints: taints}}
	}
	zone := corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a", "b"}}
	affine := corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}},
	}}}}
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		node *corev1.Node
		want bool
	}{
		"nothing is asked":           {corev1.PodSpec{}, node(nil), true},
		"a label that is there":      {corev1.PodSpec{NodeSelector: map[string]string{"disk": "ssd"}}, node(map[string]string{"disk": "ssd"}), true},
		"a label that is not there":  {corev1.PodSpec{NodeSelector: map[string]string{"disk": "ssd"}}, node(map[string]string{"disk": "hdd"}), false},
		"an affinity that holds":     {affine, node(map[string]string{"zone": "b"}), true},
		"an affinity that does not":  {affine, node(map[string]string{"zone": "c"}), false},
		"a taint":                    {corev1.PodSpec{}, node(nil, corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}), false},
		"a taint that is tolerated":  {corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}}, node(nil, corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoExecute}), true},
		"a taint that is a wish":     {corev1.PodSpec{}, node(nil, corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectPreferNoSchedule}), true},
		"a machine that is not well": {corev1.PodSpec{}, node(nil, corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoSchedule}), true},
		"the taint of the bridge":    {corev1.PodSpec{}, node(nil, corev1.Taint{Key: wellknown.Bridge, Effect: corev1.TaintEffectNoSchedule}), true},
	} {
		wants, _ := wantsOf(groupWith(gated(c.spec)))
		assert.Equal(t, c.want, wants[0].fits(c.node), name)
	}
}

func TestWantsOfAGroup(t *testing.T) {
	ssd, hdd := corev1.PodSpec{NodeSelector: map[string]string{"disk": "ssd"}}, corev1.PodSpec{NodeSelector: map[string]string{"disk": "hdd"}}
	placed := &corev1.Pod{}
	one, key := wantsOf(groupWith(gated(ssd), gated(ssd), placed))
	assert.Len(t, one, 1)
	two, other := wantsOf(groupWith(gated(hdd), gated(ssd)))
	assert.Len(t, two, 2)
	_, same := wantsOf(groupWith(gated(ssd), gated(hdd)))
	assert.Equal(t, other, same)
	assert.NotEqual(t, key, other)
}

func TestShortList(t *testing.T) {
	var half, all []string
	for i := range 10_000 {
		if all = append(all, fmt.Sprintf("gpu-%04d", i)); i%2 == 0 {
			half = append(half, all[i])
		}
	}
	assert.Equal(t, "gpu-[0000-9999]", shortList(all))
	list := shortList(half)
	assert.Contains(t, list, "9998", "all 5,000 fit")
	assert.LessOrEqual(t, len(list), mostExcluded)
	var odd []string
	for i := range 5_000 {
		odd = append(odd, fmt.Sprintf("%x-host-of-the-cluster", i*7919))
	}
	assert.LessOrEqual(t, len(shortList(odd)), mostExcluded)
	assert.NotEmpty(t, shortList(odd))
	assert.Empty(t, shortList(nil))
}

// TestExcluded: Slurm judges of a job that may have none of the nodes that are there.
func TestExcluded(t *testing.T) {
	for name, c := range map[string]struct {
		unfit   unfit
		avoided []string
		want    []string
		none    bool
	}{
		"no node is there":                     {unfit{}, nil, nil, false},
		"all fit":                              {unfit{of: 3}, nil, nil, false},
		"some do not":                          {unfit{names: []string{"n3", "n1"}, of: 3}, nil, []string{"n1", "n3"}, false},
		"none does":                            {unfit{names: []string{"n1", "n2"}, of: 2}, nil, []string{"n1", "n2"}, true},
		"one is avoided":                       {unfit{names: []string{"n1"}, of: 3}, []string{"n1", "n2"}, []string{"n1", "n2"}, false},
		"the last one that fits is to avoid":   {unfit{names: []string{"n1"}, of: 2}, []string{"n2"}, []string{"n1"}, false},
		"none fits, and one was to be avoided": {unfit{names: []string{"n1", "n2"}, of: 2}, []string{"n2"}, []string{"n1", "n2"}, true},
	} {
		names, none := c.unfit.with(c.avoided)
		assert.Equal(t, c.want, names, name)
		assert.Equal(t, c.none, none, name)
	}
}

// TestNobodyWaits: what no pod of a group asks for is on no node, and none is unfit.
func TestNobodyWaits(t *testing.T) {
	assert.Zero(t, (&Bridge{}).unfit(newTerm(t.Context()), groupWith(&corev1.Pod{}), time.Now()))
}
