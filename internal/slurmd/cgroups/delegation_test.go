package cgroups

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/cgroup"
)

// What is not enforced, and what would change it, is told also where somebody has
// chosen it, or the chart has.
func TestNoCgroupIsToldWithItsCure(t *testing.T) {
	d, err := delegate(cgroup.NewFS(t.TempDir()), cgroup.Off, "n1")
	require.NoError(t, err)
	assert.Contains(t, d.String(), "no cgroup of the agent's holds a job to its memory, cores or devices")
	assert.Contains(t, d.Advice, "SLURMLET_CGROUP=require")
	assert.Contains(t, d.Advice, "allowed_annotations")
	assert.Contains(t, d.String(), d.Advice)
}
