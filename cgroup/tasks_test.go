package cgroup

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sleeper is a process whose state /proc tells.
func sleeper(t *testing.T) (pid string) {
	cmd := exec.Command("sleep", "60")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return strconv.Itoa(cmd.Process.Pid)
}

func stopped(t *testing.T, pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/status")
	require.NoError(t, err)
	return strings.Contains(string(text), "State:\tT")
}

// TestHoldSteps: slurmstepd tells nobody any more, and what it runs lives on.
func TestHoldSteps(t *testing.T) {
	stepd, task, slurmd, telling := sleeper(t), sleeper(t), sleeper(t), sleeper(t)
	s := newSlurm(t, map[string]string{
		scope + "/job_5/step_batch/user/cgroup.events":       "populated 1\n",
		scope + "/job_6/step_batch/slurm/cgroup.procs":       telling + "\n",
		scope + "/job_6/step_batch/user/cgroup.events":       "populated 0\n",
		scope + "/job_5/step_batch/slurm/cgroup.procs":       stepd + "\n",
		scope + "/job_5/step_batch/user/task_0/cgroup.procs": task + "\n",
		scope + "/system/slurm/cgroup.procs":                 slurmd + "\n",
	})
	NewFS(s.root).HoldSteps("/" + scope)
	require.Eventually(t, func() bool { return stopped(t, stepd) }, time.Minute, time.Millisecond)
	assert.False(t, stopped(t, task))
	assert.False(t, stopped(t, slurmd))
	assert.False(t, stopped(t, telling), "its tasks have ended")
}
