//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// gpus: a pod that was given two GPUs, from a cluster that knows of none to jobs
// that share them. The nodes are NVIDIA's, without a driver.
func gpus(t *testing.T, c *cluster) {
	spec := c.Node(2)
	spec.CPU, spec.Env["SLURMLET_CPU_LIMIT"] = 3, "3000"
	spec.Devices = []sandbox.Device{{Path: "/dev/nvidia0", Major: 195}, {Path: "/dev/nvidia1", Major: 195, Minor: 1}}
	c.reconfigure(t, "sed -i s/^GresTypes/#GresTypes/ slurm.conf")
	require.NoError(t, c.Create(t.Context(), spec))
	c.waitReady(t, "node-2")
	assert.Empty(t, c.record(t, "node-2").Gres)
	until(t, "the agent tells what slurm.conf lacks", func() (bool, string) {
		fit := c.agent(t, "node-2").Node.Fit
		return fit != nil && strings.Contains(fmt.Sprint(fit.Mismatches), `GresTypes=: want gpu (slurm.conf), and "Include /run/slurmlet/gres.conf" in gres.conf: the node is registered without gpu:2`), fmt.Sprint(fit)
	})

	c.reconfigure(t, "sed -i s/^#GresTypes/GresTypes/ slurm.conf")
	until(t, "the agent tells what gres.conf lacks", func() (bool, string) {
		s := c.agent(t, "node-2")
		return strings.Contains(s.Reason, `gres/gpu count reported lower than configured (0 < 2): the cluster's gres.conf must say "Include /run/slurmlet/gres.conf"`), s.Reason
	})
	c.reconfigure(t, `echo "Include /run/slurmlet/gres.conf" > gres.conf`)
	c.waitReady(t, "node-0", "node-1", "node-2")
	until(t, "the record is as registered", func() (bool, string) {
		r := c.record(t, "node-2")
		return r.Gres == "gpu:2" && !r.Drained() && r.Is("IDLE"), r.Gres + " " + strings.Join(r.State, "+")
	})
	assert.Empty(t, c.record(t, "node-0").Gres, "a pod without devices")
	assert.Equal(t, []string{"Name=gpu File=/dev/nvidia[0-1] Flags=nvidia_gpu_env"}, c.agent(t, "node-2").Node.Gres.Lines)

	gpusAreShared(t, c)
	devicesAreNotHeld(t, c)
	gpuVanishes(t, c)

	c.removeNode(t, "node-2")
	c.reconfigure(t, "rm gres.conf")
	c.waitReady(t, sandbox.Slurmctld, "node-0", "node-1")
}

// reconfigure changes the cluster's configuration and has every daemon read it.
func (c *cluster) reconfigure(t *testing.T, script string) {
	t.Helper()
	c.run(t, sandbox.Slurmctld, "sh", "-ec", "cd /etc/slurm; "+script+"; slurmlet reload")
}

// gpusAreShared: two jobs have one each, a third waits for it.
func gpusAreShared(t *testing.T, c *cluster) {
	one := []string{"-w", "node-2", "--gres=gpu:1", "--mem=50", "-n1"}
	const script = `echo $CUDA_VISIBLE_DEVICES; until [ -e /shared/$SLURM_JOB_ID.end ]; do sleep 0.1; done`
	first, second := c.submit(t, script, one...), c.submit(t, script, one...)
	c.waitJob(t, first, "RUNNING")
	c.waitJob(t, second, "RUNNING")
	third := c.submit(t, "echo $CUDA_VISIBLE_DEVICES", one...)
	until(t, "the third job waits", func() (bool, string) {
		job := c.job(t, third)
		return job["JobState"] == "PENDING" && job["Reason"] == "Resources", job["JobState"] + " " + job["Reason"]
	})
	output := func(id string) string { return c.run(t, "login", "cat", "/shared/"+id+".out") }
	until(t, "the jobs tell their GPUs", func() (bool, string) {
		return output(first) != "" && output(second) != "", output(first) + output(second)
	})
	assert.ElementsMatch(t, []string{"0\n", "1\n"}, []string{output(first), output(second)})
	c.run(t, "login", "touch", "/shared/"+second+".end")
	c.waitJob(t, third, "COMPLETED")
	assert.Equal(t, output(second), output(third))
	c.run(t, "login", "touch", "/shared/"+first+".end")
	c.waitJob(t, first, "COMPLETED")
	assert.Equal(t, "0,1\n", c.as(t, "alice", "login", "srun", "-w", "node-2", "--gres=gpu:2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"))
}

// devicesAreNotHeld: a container that may load no eBPF program is told of where ConstrainDevices is set, and where an
// administrator looks first.
func devicesAreNotHeld(t *testing.T, c *cluster) {
	devices := func() string {
		if fit := c.agent(t, "node-2").Node.Fit; fit != nil {
			return fit.Devices
		}
		return ""
	}
	until(t, "the node says that jobs can open all devices", func() (bool, string) {
		return strings.Contains(devices(), "each job can open all of the container's"), devices()
	})
	assert.Contains(t, strings.Join(c.agent(t, "node-2").Node.Gres.Notes, "\n"), "/dev/shm has ")
	c.reconfigure(t, "cp cgroup.conf cgroup.old; sed -i /ConstrainDevices/d cgroup.conf; echo ConstrainDevices=yes >> cgroup.conf")
	const want = "ConstrainDevices=yes: want no (cgroup.conf), or CAP_SYS_ADMIN"
	until(t, "the node's agent tells of it", func() (bool, string) {
		s := c.agent(t, "node-2")
		return s.Node.Fit != nil && strings.Contains(fmt.Sprint(s.Node.Fit.Mismatches), want), fmt.Sprint(s.Node.Fit)
	})
	until(t, "slurmctld's agent tells of it", func() (bool, string) {
		misfits := fmt.Sprint(c.agent(t, sandbox.Slurmctld).Misfits)
		return strings.Contains(misfits, want) && strings.Contains(misfits, "node-2"), misfits
	})
	assert.Contains(t, devices(), "no job is held to its own")
	out, errs, code, err := c.ExecAs(t.Context(), "login", sandbox.How{User: "alice", Dir: "/tmp"}, "srun", "-w", "node-2", "-n1", "--mem=50", "sh", "-c", "sleep 1; : </dev/nvidia0")
	require.NoError(t, err)
	require.NotZero(t, code, "%s%s", out, errs)
	if strings.Contains(c.run(t, sandbox.Slurmctld, "scontrol", "-V"), "24.11") {
		assert.Contains(t, errs, "BPF load error (Operation not permitted)")
		assert.Contains(t, errs, "cannot open /dev/nvidia0: No such device or address", "no driver answers here, and nothing else refuses it")
	} else {
		assert.Contains(t, errs, "task 0 launch failed")
	}
	c.reconfigure(t, "mv cgroup.old cgroup.conf")
	until(t, "nobody tells of it any more", func() (bool, string) {
		misfits := fmt.Sprint(c.agent(t, sandbox.Slurmctld).Misfits, c.agent(t, "node-2").Node.Fit)
		return !strings.Contains(misfits, want), misfits
	})
}

// gpuVanishes: slurmd is not started with a device that is not there, and the
// record keeps what it says.
func gpuVanishes(t *testing.T, c *cluster) {
	c.run(t, "node-2", "sh", "-ec", "mv /dev/nvidia1 /dev/gone; pkill -9 slurmd")
	until(t, "the agent tells what is gone", func() (bool, string) {
		s := c.agent(t, "node-2")
		return strings.Contains(s.Reason, "/dev/nvidia1 is no device any more, and gpu:2 was to be registered with it"), s.Reason
	})
	assert.Equal(t, supervisor.Starting, c.agent(t, "node-2").State)
	until(t, "the metrics tell it", func() (bool, string) {
		now := c.numbers(t, "node-2")
		first, known := now[`slurmlet_node_gpu_present{gpu="nvidia0",type=""}`]
		second, knownToo := now[`slurmlet_node_gpu_present{gpu="nvidia1",type=""}`]
		return known && first == 1 && knownToo && second == 0, fmt.Sprint(first, known, second, knownToo)
	})
	assert.Equal(t, "gpu:2", c.record(t, "node-2").Gres)
	c.run(t, "node-2", "mv", "/dev/gone", "/dev/nvidia1")
	c.waitReady(t, "node-2")
}
