package charts

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurmd/devices"
)

// TestTraitsAreRefusedAsTheAgentRefusesThem: what an agent ends with is refused before there is a pod, because a
// rollout would lose a node to it. What the agent takes, the schema takes.
func TestTraitsAreRefusedAsTheAgentRefusesThem(t *testing.T) {
	schema := compiled(t, chart)
	words := []string{
		"default:rack1", "block:b1,tree:s1", "rack1", "a b", `"a"`, "a\nb", "NodeName=x", "default:a NodeName=x", "a=b", "a+b", "a/b", "a@b", "ä", "a;b", "a&b", "0",
	}
	for _, word := range words {
		_, topology := nodesize.MachineTraits("m", nil, word, "")
		_, feature := nodesize.MachineTraits("m", []string{word}, "", "")
		for key, refused := range map[string]error{"topology": topology, "features": feature} {
			var value any = word
			if key == "features" {
				value = []any{word}
			}
			values := map[string]any{"nodeSets": map[string]any{"cpu": map[string]any{key: value}}}
			assert.Equal(t, refused != nil, schema.Validate(values) != nil, "%s: %q: %v", key, word, refused)
		}
	}
	for _, weight := range []string{"0", "1", "4294967293", "4294967294", "-1"} {
		_, refused := nodesize.MachineTraits("m", nil, "", weight)
		values := map[string]any{"nodeDefaults": map[string]any{"weight": json.Number(weight)}}
		assert.Equal(t, refused != nil, schema.Validate(values) != nil, "weight: %s: %v", weight, refused)
	}
	for _, gres := range []string{"auto", "none", "gpu:h200:8", "gpu:2,shmem:1", "gpu 2", "gpu\nNodeName=x", `gpu:"h200"`, "gpu=2"} {
		_, refused := devices.ParseChoice(gres)
		values := map[string]any{"nodeDefaults": map[string]any{"gres": gres}}
		assert.Equal(t, refused != nil, schema.Validate(values) != nil, "gres: %q: %v", gres, refused)
	}
}
