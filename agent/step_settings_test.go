package agent

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurmd/cgroups"
	"github.com/slurmlet/slurmlet/internal/slurmd/jobs"
)

func TestStepSettings(t *testing.T) {
	c, err := FromEnv(Slurmd, []string{"SLURMLET_SLURMCTLD=ctl", "SLURMLET_NODE_NAME=n1"})
	require.NoError(t, err)
	assert.Equal(t, []any{cgroups.OOMGroupClear, int64(32 << 20), jobs.DeadStepsEnd}, []any{c.OOMGroup, c.OOMHeadroom, c.DeadSteps})
	_, err = FromEnv(Slurmd, []string{
		"SLURMLET_SLURMCTLD=ctl", "SLURMLET_NODE_NAME=n1",
		"SLURMLET_OOM_GROUP=no", "SLURMLET_OOM_HEADROOM=a little", "SLURMLET_DEAD_STEPS=bury",
	})
	require.Error(t, err)
	for _, want := range []string{
		`SLURMLET_OOM_GROUP: cannot use "no": want clear or keep`,
		`SLURMLET_OOM_HEADROOM: cannot use "a little": want a whole number of bytes, or one with Ki, Mi, Gi or Ti`,
		`SLURMLET_DEAD_STEPS: cannot use "bury": want end, requeue or keep`,
	} {
		assert.Contains(t, err.Error(), want)
	}
}
