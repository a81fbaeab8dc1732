//go:build e2e

package kube

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// job is one by its number.
type job struct {
	c  *cluster
	id string
}

// submit submits a batch script with sbatch's options.
func (c *cluster) submit(t *testing.T, script string, options ...string) job {
	t.Helper()
	args := append([]string{"exec", "-i", "slurm-login-0", "--", "sbatch", "--parsable", "--chdir=/tmp", "--output=/tmp/%j.out"}, options...)
	out, err := c.KubectlOn(t.Context(), "#!/bin/sh\n"+script+"\n", args...)
	require.NoError(t, err)
	return job{c, strings.TrimSpace(out)}
}

// running submits one and waits until it is.
func (c *cluster) running(t *testing.T, script string, options ...string) job {
	t.Helper()
	j := c.submit(t, script, options...)
	j.becomes(t, "RUNNING")
	return j
}

// is one of the pairs of the job's record.
func (j job) is(t *testing.T, key string) string {
	t.Helper()
	for pair := range strings.FieldsSeq(j.c.ask(t, "scontrol -o show job "+j.id)) {
		if value, found := strings.CutPrefix(pair, key+"="); found {
			return value
		}
	}
	return ""
}

func (j job) becomes(t *testing.T, state string) {
	t.Helper()
	until(t, "job "+j.id+" is "+state, func() (bool, string) {
		saw := j.is(t, "JobState")
		if slices.Contains([]string{"CANCELLED", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT"}, saw) {
			require.Equal(t, state, saw, j.output(t))
		}
		return saw == state, saw
	})
}

// completes says that the job was not lost, and how often it had to begin again.
func (j job) completes(t *testing.T, restarts string) {
	t.Helper()
	j.becomes(t, "COMPLETED")
	assert.Equal(t, restarts, j.is(t, "Restarts"))
	assert.Equal(t, "0:0", j.is(t, "ExitCode"))
}

// output is what the job has written, on the first of its nodes.
func (j job) output(t *testing.T) string {
	t.Helper()
	return j.c.kubectl(t, "exec", j.is(t, "BatchHost"), "--", "cat", "/tmp/"+j.id+".out")
}

// slurm runs a script where users work.
func (c *cluster) slurm(t *testing.T, script string) string {
	t.Helper()
	return c.kubectl(t, "exec", "slurm-login-0", "--", "sh", "-c", script)
}

// ask is slurm, when slurmctld may be away: the error is the answer then.
func (c *cluster) ask(t *testing.T, script string) string {
	t.Helper()
	out, err := c.Kubectl(t.Context(), "exec", "slurm-login-0", "--", "sh", "-c", script)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(out)
}

// node is what sinfo says of one: state, CPUs and MiB; nothing where it has no record.
func (c *cluster) node(t *testing.T, name string) string {
	t.Helper()
	return c.ask(t, "sinfo -h -N -p all -n "+name+" -o '%T %c %m'")
}

func (c *cluster) idle(t *testing.T, name string) {
	t.Helper()
	until(t, name+" is idle", func() (bool, string) {
		saw := c.node(t, name)
		return strings.HasPrefix(saw, "idle "), saw
	})
}

// gone waits for the end of a pod that is not made again. Its record is gone by then, unless slurmlet's controller was the last
// to hear that the set is smaller.
func (c *cluster) gone(t *testing.T, pod string) {
	t.Helper()
	c.kubectl(t, "wait", "--for=delete", "pod/"+pod, "--timeout", limit.String())
	until(t, "the record of "+pod+" is gone", func() (bool, string) {
		saw := c.node(t, pod)
		return saw == "", saw
	})
}

func (c *cluster) bothIdle(t *testing.T) {
	t.Helper()
	c.kubectl(t, "rollout", "status", set, "--timeout", limit.String())
	c.idle(t, "slurm-cpu-0")
	c.idle(t, "slurm-cpu-1")
}

// jobLimits: nodes are of their pods' size, and the kernel holds a job to its own.
func jobLimits(t *testing.T, c *cluster) {
	assert.Equal(t, "idle 1 448", c.node(t, "slurm-cpu-0"))
	before := c.restarts(t)
	assert.Contains(t, c.slurm(t, `srun --mem=50 perl -e '$x = "a" x (100 << 20)' 2>&1 || true`), "Out Of Memory")
	assert.Equal(t, before, c.restarts(t), "the container lives on")
	assert.Equal(t, "slurm-cpu-0", c.slurm(t, "srun -w slurm-cpu-0 hostname"))
}

// restarts are how often the nodes' containers have been started again.
func (c *cluster) restarts(t *testing.T) string {
	t.Helper()
	return c.kubectl(t, "get", "pods", "-l", "slurmlet.dev/role=slurmd", "-o", "jsonpath={.items[*].status.containerStatuses[0].restartCount}")
}

// rendezvous: the tasks of a job meet on the first of its hosts, as torchrun's
// do, by the name that Slurm tells.
func rendezvous(t *testing.T, c *cluster) {
	script, err := os.ReadFile(filepath.Join("testdata", "rendezvous.sh"))
	require.NoError(t, err)
	j := c.submit(t, string(script), "-N2")
	j.completes(t, "0")
	assert.Contains(t, j.output(t), "met: slurm-cpu-0 slurm-cpu-1")

	t.Run("by a name that DNS has been asked for too early", func(t *testing.T) {
		ask := func() error {
			_, err := c.Kubectl(t.Context(), "exec", "slurm-cpu-0", "--", "getent", "hosts", "slurm-cpu-2")
			return err
		}
		require.Error(t, ask(), "slurm-cpu-2 is not there yet")
		c.kubectl(t, "scale", set, "--replicas=3")
		c.idle(t, "slurm-cpu-2")
		t.Logf("DNS knows of the new node: %v", ask() == nil)
		j := c.submit(t, "MEET=slurm-cpu-2\n"+string(script), "-w", "slurm-cpu-[0,2]")
		j.completes(t, "0")
		assert.Contains(t, j.output(t), "met: slurm-cpu-0 slurm-cpu-2")
		t.Log(j.output(t))
		c.kubectl(t, "scale", set, "--replicas=2")
		c.gone(t, "slurm-cpu-2")
	})
}
