package nodesize

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

func TestTraitsThatTheRecordHas(t *testing.T) {
	traits := Traits{Features: Trait{"a,b", "x"}, Weight: Trait{"5", "x"}, Topology: Trait{"t:r", "x"}}
	require.Empty(t, traits.Update(&slurm.Node{Features: []string{"b", "a"}, Weight: 5, Topology: "t:r"}))
}

func TestTraitsOfMachine(t *testing.T) {
	machine, err := MachineTraits("m1", []string{"zone-b", "a100"}, "default:rack1", "7")
	require.NoError(t, err)
	const source = "Kubernetes node m1"
	assert.Equal(t, Traits{Features: Trait{"a100,zone-b", source}, Topology: Trait{"default:rack1", source}, Weight: Trait{"7", source}}, machine)
	own := Traits{Features: Trait{"big,a100", "labels"}, Weight: Trait{"3", "labels"}}
	assert.Equal(t, Traits{Features: Trait{"a100,big,zone-b", "labels and " + source}, Topology: Trait{"default:rack1", source}, Weight: Trait{"3", "labels"}}, own.On(machine))
	assert.Equal(t, own, own.On(Traits{}))
	assert.Equal(t, machine, Traits{}.On(machine))
	assert.Equal(t, "a100,zone-b", Traits{Features: Trait{"", "labels"}}.On(machine).Features.Value)

	some, err := MachineTraits("m1", []string{"a b"}, "x y", "7")
	assert.ErrorContains(t, err, `Kubernetes node m1: cannot use "a b"`)
	assert.ErrorContains(t, err, `cannot use "x y"`)
	assert.Equal(t, Traits{Weight: Trait{"7", source}}, some)
}
