package cordon

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/slurmlet/slurmlet/controller/internal/machines"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

func TestPlan(t *testing.T) {
	here := func(name string, state wire.State, drain string) node {
		return node{"hpc/slurm", true, wire.NodeReport{Name: name, State: state, Drain: drain}}
	}
	n := func(state wire.State, drain string) node { return here("n", state, drain) }
	elsewhere := func(elastic string, state wire.State, drain string) node {
		return node{"hpc/slurm", false, wire.NodeReport{Name: "n", State: state, Drain: drain, Elastic: elastic}}
	}
	cordoned := machines.Machine{Unschedulable: true, Mark: "cordon: x", Drained: "hpc/slurm/n"}
	byHand := machines.Machine{Mark: "cordon: x", Drained: "hpc/slurm/n"}
	for _, c := range []struct {
		name    string
		mode    Mode
		machine machines.Machine
		nodes   []node
		want    action
		drained string
	}{
		{"nobody has drained", Cordon, machines.Machine{}, []node{n(wire.Idle, "")}, nothing, ""},
		{"an admin has drained", Cordon, machines.Machine{}, []node{n(wire.Idle, "bad DIMM")}, mark, "hpc/slurm/n"},
		{"one of two", Taint, machines.Machine{}, []node{n(wire.Busy, "bad DIMM"), here("b", wire.Idle, "")}, mark, "hpc/slurm/n"},
		{"both", Taint, machines.Machine{}, []node{n(wire.Busy, "bad DIMM"), here("b", wire.Idle, "x")}, mark, "hpc/slurm/b,hpc/slurm/n"},
		{"the agent has drained", Cordon, machines.Machine{}, []node{n(wire.Idle, "slurmlet: pod is terminating")}, nothing, ""},
		{"a full disk of a pod has drained", Cordon, machines.Machine{}, []node{n(wire.Idle, "slurmlet disk: job 7 has filled the pod's disk")}, nothing, ""},
		{"a cordon has drained", Cordon, machines.Machine{}, []node{n(wire.Idle, "slurmlet cordon: machine m1 is cordoned")}, nothing, ""},
		{"slurmctld misses a slurmd", Cordon, machines.Machine{}, []node{n(wire.Absent, "Not responding")}, nothing, ""},
		{"a slurmd has not come in time", Taint, machines.Machine{}, []node{n(wire.Absent, "ResumeTimeout reached : Not responding")}, nothing, ""},
		{"slurmctld misses one that an admin has drained", Cordon, machines.Machine{}, []node{n(wire.Absent, "disk : Not responding")}, mark, "hpc/slurm/n"},
		{"an admin of Kubernetes was first", Cordon, machines.Machine{Unschedulable: true}, []node{n(wire.Idle, "bad DIMM")}, nothing, ""},
		{"a taint beside an admin's cordon", Taint, machines.Machine{Unschedulable: true}, []node{n(wire.Idle, "bad DIMM")}, mark, "hpc/slurm/n"},
		{"marked already", Cordon, cordoned, []node{n(wire.Idle, "bad DIMM")}, nothing, ""},
		{"somebody has uncordoned it", Cordon, byHand, []node{n(wire.Idle, "bad DIMM")}, nothing, ""},
		{"and another node is drained then", Cordon, byHand, []node{n(wire.Idle, "bad DIMM"), here("b", wire.Idle, "x")}, mark, "hpc/slurm/b,hpc/slurm/n"},
		{"and the node is resumed then", Cordon, byHand, []node{n(wire.Idle, "")}, unmark, ""},
		{"resumed", Cordon, cordoned, []node{n(wire.Busy, "")}, unmark, ""},
		{"resumed, and the agent drains", Cordon, cordoned, []node{n(wire.Busy, "slurmlet: pod is terminating")}, unmark, ""},
		{"the record is gone with its drain", Cordon, cordoned, []node{n(wire.Absent, "")}, nothing, ""},
		{"its pod is gone", Cordon, cordoned, []node{elsewhere("", wire.Absent, "")}, nothing, ""},
		{"its pod is gone, and another node is idle", Cordon, cordoned, []node{here("b", wire.Idle, ""), elsewhere("", wire.Absent, "")}, nothing, ""},
		{"it has registered on another machine", Cordon, cordoned, []node{here("b", wire.Idle, ""), elsewhere("", wire.Idle, "")}, nothing, ""},
		{"its pod is gone, and nobody tells of it", Cordon, cordoned, []node{here("b", wire.Idle, ""), elsewhere("", "", "")}, nothing, ""},
		{"an elastic one without a pod is resumed", Cordon, cordoned, []node{here("b", wire.Idle, ""), elsewhere("cpu", wire.Absent, "")}, unmark, ""},
		{"an elastic one without a pod is drained", Cordon, cordoned, []node{elsewhere("cpu", wire.Absent, "bad DIMM")}, nothing, ""},
		{"a drain elsewhere marks nothing here", Cordon, machines.Machine{}, []node{elsewhere("cpu", wire.Idle, "bad DIMM")}, nothing, ""},
		{"one is resumed, and nobody tells of another", Cordon, cordoned, []node{n(wire.Idle, ""), here("b", "", "")}, unmark, ""},
		{"nobody tells of the drained one", Cordon, cordoned, []node{n("", ""), here("b", wire.Idle, "")}, nothing, ""},
		{"one of two is resumed", Cordon, machines.Machine{Unschedulable: true, Mark: "cordon: x", Drained: "hpc/slurm/b,hpc/slurm/n"}, []node{n(wire.Idle, ""), here("b", wire.Idle, "x")}, amend, "hpc/slurm/b"},
		{"its namespace counts no more", Cordon, machines.Machine{Unschedulable: true, Mark: "cordon: x", Drained: "former/slurm/n"}, nil, unmark, ""},
		{"one is drained, and nobody tells of the other", Cordon, machines.Machine{}, []node{n(wire.Idle, "bad DIMM"), here("b", "", "")}, mark, "hpc/slurm/n"},
		{"nobody tells", Taint, machines.Machine{}, []node{n("", "")}, nothing, ""},
		{"somebody else's cordon", Cordon, machines.Machine{Unschedulable: true}, []node{n(wire.Idle, "")}, nothing, ""},
		{"a mark that names no node", Cordon, machines.Machine{Unschedulable: true, Mark: "cordon: x"}, []node{n(wire.Idle, ""), here("b", "", "")}, nothing, ""},
		{"a mark that names no node, and all are resumed", Cordon, machines.Machine{Unschedulable: true, Mark: "cordon: x"}, []node{n(wire.Idle, "")}, unmark, ""},
		{"a mark that names no node, and none is left", Cordon, machines.Machine{Unschedulable: true, Mark: "cordon: x"}, nil, nothing, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, drained, _ := plan(c.mode, c.machine, c.nodes)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.drained, strings.Join(drained, ","))
		})
	}
}

// TestChange holds that only the controller's own marks go.
func TestChange(t *testing.T) {
	others := []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}
	for _, mode := range []Mode{Cordon, Taint} {
		n := &corev1.Node{Spec: corev1.NodeSpec{Taints: others}}
		change(n, mode, mark, []string{"hpc/slurm/n"}, "n: bad DIMM")
		assert.Equal(t, string(mode)+": n: bad DIMM", n.Annotations[machines.Annotation])
		assert.Equal(t, mode == Cordon, n.Spec.Unschedulable)
		assert.Equal(t, "hpc/slurm/n", n.Annotations[machines.DrainedAnnotation])
		assert.Len(t, n.Spec.Taints, map[Mode]int{Cordon: 1, Taint: 2}[mode])
		n.Spec.Unschedulable = false // somebody uncordons it
		other := map[Mode]Mode{Cordon: Taint, Taint: Cordon}[mode]
		change(n, other, amend, []string{"hpc/slurm/b"}, "b: x")
		assert.False(t, n.Spec.Unschedulable)
		change(n, other, mark, []string{"hpc/slurm/b", "hpc/slurm/n"}, "b: x; n: bad DIMM")
		assert.Equal(t, string(mode)+": b: x; n: bad DIMM", n.Annotations[machines.Annotation], "a mark stays of its kind")
		assert.Equal(t, "hpc/slurm/b,hpc/slurm/n", n.Annotations[machines.DrainedAnnotation])
		assert.Equal(t, mode == Cordon, n.Spec.Unschedulable)
		assert.Len(t, n.Spec.Taints, map[Mode]int{Cordon: 1, Taint: 2}[mode])
		n.Spec.Unschedulable = true // somebody cordons it, too
		change(n, mode, unmark, nil, "")
		assert.Equal(t, mode == Taint, n.Spec.Unschedulable)
		assert.Equal(t, others, n.Spec.Taints)
		assert.Empty(t, n.Annotations)
	}
}

func TestParseMode(t *testing.T) {
	for text, want := range map[string]Mode{"": Off, "off": Off, "cordon": Cordon, "taint": Taint} {
		got, err := ParseMode(text)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := ParseMode("yes")
	assert.EqualError(t, err, `want off, cordon or taint, not "yes"`)
}

func TestParseNamespaces(t *testing.T) {
	for text, want := range map[string][]string{"none": nil, "hpc": {"hpc"}, "hpc,lab": {"hpc", "lab"}} {
		got, err := ParseNamespaces(text)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, text := range []string{"", "hpc,", "*", "hpc/slurm"} {
		_, err := ParseNamespaces(text)
		assert.Error(t, err, text)
	}
}
