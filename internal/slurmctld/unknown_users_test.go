package slurmctld

import (
	"log/slog"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/internal/pod/process"
)

func TestHeldJobs(t *testing.T) {
	for text, job := range map[string]string{
		"slurm_cred_create: refusing to create job 7 credential for invalid user nobody":   "7",
		"slurm_cred_create: refusing to create job 8 credential for invalid group nobody":  "8",
		"slurm_cred_create: refusing to create job x credential for invalid group nobody":  "",
		"slurm_cred_create: refusing to create job 8 credential for invalid group nobodys": "",
	} {
		assert.Equal(t, job, heldJob(process.Line{Level: slog.LevelError, Text: text}), text)
		assert.Empty(t, heldJob(process.Line{Level: slog.LevelInfo, Text: text}), text)
	}
	var n heldJobs
	for i := range mostHeldJobs + 1 {
		assert.True(t, n.add(strconv.Itoa(i)))
	}
	assert.Len(t, n.all(), mostHeldJobs)
	assert.False(t, n.add("1"), "it is explained once")
}
