//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// slack is how long a resize or an exit may take beyond the end of the last job: less than 2 s
// when nothing else runs, which "make bench" shows; but a test's machine is busy.
const slack = time.Minute

// resizedInPlace: the pod grows and shrinks while a job runs on it.
func resizedInPlace(t *testing.T, c *cluster) {
	for _, size := range []struct {
		takes  string // the job's CPUs: in the end more than the pod will have
		cpu    float64
		memory int64
		cpus   int
		real   int64
	}{{"1", 2, 640 << 20, 2, 576}, {"2", 1, 512 << 20, 1, 448}} {
		id := c.submit(t, waits+"; echo untouched", "-w", "node-0", "--no-requeue", "-c", size.takes)
		c.waitJob(t, id, "RUNNING")
		restarts := c.agent(t, "node-0").Main.PID
		require.NoError(t, c.Resize(t.Context(), "node-0", size.cpu, size.memory))
		until(t, "the agent notices", func() (bool, string) {
			s := c.agent(t, "node-0")
			return s.State == supervisor.Resizing && strings.Contains(s.Reason, "jobs run on it"), string(s.State) + " " + s.Reason
		})
		assert.Equal(t, "RUNNING", c.job(t, id)["JobState"])
		assert.Equal(t, restarts, c.agent(t, "node-0").Main.PID, "slurmd is left alone as long as jobs run")
		c.let(t, id)
		until(t, "the node is Ready with the new size", func() (bool, string) {
			<-time.After(time.Second) // a status more costs the pod's one CPU what is measured here
			s := c.agent(t, "node-0")
			return s.State == supervisor.Ready && s.Node.Size.CPUs == size.cpus, string(s.State) + " " + s.Reason
		})
		ready := c.agent(t, "node-0").Since
		record := c.record(t, "node-0")
		assert.Equal(t, []any{size.cpus, size.real}, []any{record.CPUs, record.RealMemory})
		assert.False(t, record.Drained(), record.Reason)
		job := c.waitJob(t, id, "COMPLETED")
		assert.Equal(t, "0", job["Restarts"])
		out := strings.Fields(c.run(t, "login", "cat", "/shared/"+id+".out"))
		require.Len(t, out, 2)
		var end float64
		_, err := fmt.Sscan(out[0], &end)
		require.NoError(t, err)
		took := ready.Sub(time.Unix(0, int64(end*1e9)))
		t.Logf("resized to %v CPUs: Ready with it %v after the job's end", size.cpu, took.Round(10*time.Millisecond))
		assert.Less(t, took, slack)
	}
	assert.Zero(t, c.pod(t, "node-0").Restarts)
}

// described: labels and annotations, at the start and live.
func described(t *testing.T, c *cluster) {
	spec := c.Node(2)
	annotate := func(text string) map[string]sandbox.File {
		return map[string]sandbox.File{
			"labels":      {Data: []byte("app=\"slurm\"\nslurmlet.dev/features=\"label\"\n")},
			"annotations": {Data: []byte(text)},
		}
	}
	volume := func(files map[string]sandbox.File) {
		for i := range spec.Volumes {
			if spec.Volumes[i].Name == sandbox.PodInfo {
				spec.Volumes[i].Files = files
			}
		}
	}
	edit := func(text string) {
		require.NoError(t, c.SetFiles(t.Context(), spec.Name, sandbox.PodInfo, annotate(text)))
	}
	has := func(features string, weight int) {
		t.Helper()
		until(t, "the record follows", func() (bool, string) {
			r := c.record(t, spec.Name)
			if r == nil {
				return false, "no record"
			}
			return strings.Join(r.Features, ",") == features && r.Weight == weight, fmt.Sprint(r.Features, r.Weight)
		})
	}
	// A bad list at the start: nothing is registered, and an edit mends it.
	volume(annotate("slurmlet.dev/features=\"a&b\"\n"))
	require.NoError(t, c.Create(t.Context(), spec))
	until(t, "the agent tells what is wrong", func() (bool, string) {
		s := c.agent(t, spec.Name)
		return strings.Contains(s.Reason, `cannot use "a&b"`), s.Reason
	})
	assert.Nil(t, c.record(t, spec.Name))
	edit("slurmlet.dev/features=\"red,blue\"\nslurmlet.dev/weight=\"7\"\n")
	c.waitReady(t, spec.Name)
	has("blue,red", 7)
	assert.Equal(t, spec.Name+"\n", c.as(t, "alice", "login", "srun", "--constraint=red&blue", "hostname"))
	// Live, with a job on it.
	id := c.submit(t, waits, "-w", spec.Name)
	c.waitJob(t, id, "RUNNING")
	edit("slurmlet.dev/weight=\"9\"\n")
	has("label", 9)
	// What cannot be used changes nothing.
	edit("slurmlet.dev/weight=\"heavy\"\n")
	until(t, "the agent tells what is wrong", func() (bool, string) {
		fault := c.agent(t, spec.Name).Node.Fault
		return strings.Contains(fault, `cannot use "heavy"`), fault
	})
	has("label", 9)
	assert.Equal(t, supervisor.Ready, c.agent(t, spec.Name).State)
	edit("")
	has("label", 1)
	assert.Empty(t, c.agent(t, spec.Name).Node.Fault)
	c.let(t, id)
	c.waitJob(t, id, "COMPLETED")
	// Topology is known to Slurm from 25.05 on.
	edit("slurmlet.dev/topology=\"nosuch:nowhere\"\n")
	until(t, "slurmctld's refusal is told", func() (bool, string) {
		refusal := c.agent(t, spec.Name).Node.Refusal
		return refusal != "", refusal
	})
	t.Log(c.agent(t, spec.Name).Node.Refusal)
	c.removeNode(t, spec.Name)
}
