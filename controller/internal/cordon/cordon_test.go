package cordon

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/slurmlet/slurmlet/controller/internal/machines"
	"github.com/slurmlet/slurmlet/internal/peers"
)

func TestPlan(t *testing.T) {
	node := func(state peers.State, drain string) peers.NodeReport {
		return peers.NodeReport{Name: "n", State: state, Drain: drain}
	}
	for _, c := range []struct {
		name    string
		mode    Mode
		machine machines.Machine
		nodes   []peers.NodeReport
		want    action
	}{
		{"nobody has drained", Cordon, machines.Machine{}, []peers.NodeReport{node(peers.Idle, "")}, nothing},
		{"an admin has drained", Cordon, machines.Machine{}, []peers.NodeReport{node(peers.Idle, "bad DIMM")}, mark},
		{"one of two", Taint, machines.Machine{}, []peers.NodeReport{node(peers.Busy, "bad DIMM"), node(peers.Idle, "")}, mark},
		{"the agent has drained", Cordon, machines.Machine{}, []peers.NodeReport{node(peers.Idle, "slurmlet: pod is terminating")}, nothing},
		{"a cordon has drained", Cordon, machines.Machine{}, []peers.NodeReport{node(peers.Idle, "slurmlet cordon: machine m1 is cordoned")}, nothing},
		{"slurmctld misses a slurmd", Cordon, machines.Machine{}, []peers.NodeReport{node(peers.Absent, "Not responding")}, nothing},
		{"a slurmd has not come in time", Taint, machines.Machine{}, []peers.NodeReport{node(peers.Absent, "ResumeTimeout reached : Not responding")}, nothing},
		{"slurmctld misses one that an admin has drained", Cordon, machines.Machine{}, []peers.NodeReport{node(peers.Absent, "disk : Not responding")}, mark},
		{"an admin of Kubernetes was first", Cordon, machines.Machine{Unschedulable: true}, []peers.NodeReport{node(peers.Idle, "bad DIMM")}, nothing},
		{"a taint beside an admin's cordon", Taint, machines.Machine{Unschedulable: true}, []peers.NodeReport{node(peers.Idle, "bad DIMM")}, mark},
		{"marked already", Cordon, machines.Machine{Unschedulable: true, Mark: "cordon: x"}, []peers.NodeReport{node(peers.Idle, "bad DIMM")}, nothing},
		{"somebody has uncordoned it", Cordon, machines.Machine{Mark: "cordon: x"}, []peers.NodeReport{node(peers.Idle, "bad DIMM")}, nothing},
		{"resumed", Cordon, machines.Machine{Unschedulable: true, Mark: "cordon: x"}, []peers.NodeReport{node(peers.Busy, "")}, unmark},
		{"the record is gone with its drain", Cordon, machines.Machine{Unschedulable: true, Mark: "cordon: x"}, []peers.NodeReport{node(peers.Absent, "")}, nothing},
		{"one is resumed, and nobody tells of the other", Cordon, machines.Machine{Unschedulable: true, Mark: "cordon: x"}, []peers.NodeReport{node(peers.Idle, ""), node("", "")}, nothing},
		{"one is drained, and nobody tells of the other", Cordon, machines.Machine{}, []peers.NodeReport{node(peers.Idle, "bad DIMM"), node("", "")}, mark},
		{"nobody tells", Taint, machines.Machine{}, []peers.NodeReport{node("", "")}, nothing},
		{"no node is left", Cordon, machines.Machine{Unschedulable: true, Mark: "cordon: x"}, nil, nothing},
		{"somebody else's cordon", Cordon, machines.Machine{Unschedulable: true}, []peers.NodeReport{node(peers.Idle, "")}, nothing},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := plan(c.mode, c.machine, c.nodes)
			assert.Equal(t, c.want, got)
		})
	}
}

// TestChange holds that only the controller's own marks go.
func TestChange(t *testing.T) {
	others := []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}
	for _, mode := range []Mode{Cordon, Taint} {
		n := &corev1.Node{Spec: corev1.NodeSpec{Taints: others}}
		change(n, mode, mark, "n: bad DIMM")
		assert.Equal(t, string(mode)+": n: bad DIMM", n.Annotations[machines.Annotation])
		assert.Equal(t, mode == Cordon, n.Spec.Unschedulable)
		assert.Len(t, n.Spec.Taints, map[Mode]int{Cordon: 1, Taint: 2}[mode])
		n.Spec.Unschedulable = true // somebody cordons it, too
		change(n, mode, unmark, "")
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
