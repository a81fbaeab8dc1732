package slurm

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// What squeue shows in one word, and what Slurm's JSON has in whole.
func TestJobStates(t *testing.T) {
	for _, c := range []struct {
		state    JobState
		base     string
		flags    []string
		hasNodes bool
	}{
		{ParseJobState("PENDING"), "PENDING", nil, false},
		{ParseJobState("RUNNING"), "RUNNING", nil, true},
		{ParseJobState("STOPPED"), "RUNNING", []string{"STOPPED"}, true},
		{ParseJobState("SPECIAL_EXIT"), "PENDING", []string{"SPECIAL_EXIT"}, false},
		{ParseJobState("COMPLETING"), "", []string{"COMPLETING"}, false},
		{ParseJobState("of a later Slurm"), "", nil, false},
		{JobState{"SUSPENDED"}, "SUSPENDED", nil, true},
		{JobState{"COMPLETING", "FAILED", "LATER"}.Ordered(), "FAILED", []string{"COMPLETING", "LATER"}, false},
	} {
		assert.Equal(t, c.base, c.state.Base(), "%v", c.state)
		assert.ElementsMatch(t, c.flags, c.state.Flags(), "%v", c.state)
		assert.Equal(t, c.hasNodes, c.state.HasNodes(), "%v", c.state)
	}
	for flag, base := range jobFlags {
		assert.NotContains(t, jobBases, flag)
		assert.True(t, base == "" || slices.Contains(jobBases, base), flag)
	}
}
