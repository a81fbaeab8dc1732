package inject

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAnnotationsThatTheAgentReads: the webhook says of none of them that nobody reads it.
func TestAnnotationsThatTheAgentReads(t *testing.T) {
	pod := parsePod(t, `{metadata: {name: a, annotations: {slurmlet.dev/inject: slurmd, slurmlet.dev/features: a, slurmlet.dev/weight: "1",
  slurmlet.dev/topology: "default:a", slurmlet.dev/grace-period: 30s, slurmlet.dev/deadline: "2030-01-02T15:04:05Z"}},
  spec: {containers: [{name: slurm}]}}`)
	result, faults := Pod(pod, settings)
	require.Empty(t, faults)
	for _, did := range result.Did {
		assert.NotContains(t, did, "nobody reads")
	}
}
