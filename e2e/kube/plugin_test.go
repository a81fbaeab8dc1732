//go:build e2e

package kube

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shell runs a line of a shell in which kubectl finds its plugin, and returns what it prints and its status.
func (c *cluster) shell(t *testing.T, line string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Env = append(os.Environ(), c.Environment()...)
	cmd.Env = append(cmd.Env, "PATH="+filepath.Clean(repository("bin"))+":"+c.Programs()+":"+os.Getenv("PATH"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// plugin runs kubectl slurm in the cluster's namespace, and wants it to succeed.
func (c *cluster) plugin(t *testing.T, args string) string {
	t.Helper()
	out, status := c.shell(t, c.pluginLine(args))
	require.Zero(t, status, "kubectl slurm %s: %s", args, out)
	return out
}

func (c *cluster) pluginLine(args string) string {
	verb, rest, _ := strings.Cut(args, " ")
	if c.namespace != "" {
		verb += " -n " + c.namespace
	}
	return "kubectl slurm " + verb + " " + rest
}

// says waits until an answer of kubectl slurm has all of the texts.
func (c *cluster) says(t *testing.T, args string, texts ...string) (answer string) {
	t.Helper()
	until(t, "kubectl slurm "+args+" says "+strings.Join(texts, ", "), func() (bool, string) {
		answer, _ = c.shell(t, c.pluginLine(args))
		for _, text := range texts {
			if !strings.Contains(answer, text) {
				return false, answer
			}
		}
		return true, ""
	})
	t.Log(answer)
	return answer
}

// cure runs the first command of an answer that begins so, as it is printed.
func (c *cluster) cure(t *testing.T, answer, begins string) {
	t.Helper()
	for line := range strings.Lines(answer) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, begins) {
			out, status := c.shell(t, line)
			require.Zero(t, status, "%s: %s", line, out)
			return
		}
	}
	require.Fail(t, "no command begins with "+begins, answer)
}

// kubectlSlurm: every verb of the plugin, with all rights and with a reader's.
func kubectlSlurm(t *testing.T, c *cluster) {
	c.says(t, "status", "Cluster slurm in namespace default", "slurmctld      Ready", "nodes cpu      2 of 2 Ready  2 idle", "configuration  live")
	c.plugin(t, "drain slurm-cpu-0 --reason 'disk is slow'")
	answer := c.says(t, "why slurm-cpu-0", "slurmlet drain: disk is slow (admin)")
	c.cure(t, answer, "kubectl slurm resume ")
	c.idle(t, "slurm-cpu-0")

	j := c.submit(t, "echo it is $(hostname)", "--hold", "-w", "slurm-cpu-1")
	c.cure(t, c.says(t, "why "+j.id, "holds the job"), "kubectl exec ")
	j.completes(t, "0")
	assert.Equal(t, "it is slurm-cpu-1\n", c.plugin(t, "logs "+j.id))
	assert.Contains(t, c.plugin(t, "logs slurmctld --tail 20"), " INFO ")

	// What is killed for its memory is told, and runs with more.
	const hungry = `perl -e '$x = "a" x (100 << 20)'`
	j = c.submit(t, hungry, "--mem=50")
	j.becomes(t, "OUT_OF_MEMORY")
	c.says(t, "why "+j.id, "had more memory than it asked for (50 MiB on each node)", "submit it with a larger --mem")
	c.submit(t, hungry, "--mem=300").completes(t, "0") // the perl of 24.11's image has the text twice

	assert.Equal(t, "slurm-cpu-1\n", c.plugin(t, "ssh slurm-cpu-1 -- hostname"))
	assert.Equal(t, "nobody\n", c.plugin(t, "login nobody -- id -un"))
	_, status := c.shell(t, "kubectl slurm ssh slurm-cpu-1 -- sh -c 'exit 3'")
	assert.Equal(t, 3, status)
	said, _ := c.shell(t, "kubectl slurm why slurm-cpu-7")
	assert.Contains(t, said, "Did you mean slurm-cpu-0, slurm-cpu-1?")

	c.kubectl(t, "create", "role", "slurm-reader", "--verb=get,list", "--resource=pods,pods/proxy")
	c.kubectl(t, "create", "rolebinding", "slurm-reader", "--role=slurm-reader", "--user=reader")
	c.says(t, "status --as reader", "slurmctld      Ready", "2 idle", "configuration  live", "you may not create pods/exec in namespace default")
	c.kubectl(t, "delete", "role/slurm-reader", "rolebinding/slurm-reader")
	kubectlTerminal(t, c)
}

// kubectlSlurmNodes: nodes that get no jobs because of their machine, their pod or an edit.
func kubectlSlurmNodes(t *testing.T, c *cluster) {
	pod := c.onSecond(t)
	c.kubectl(t, "cordon", second)
	answer := c.says(t, "why "+pod, "slurmlet cordon: machine kube-2 is cordoned", "kubectl uncordon kube-2")
	said, status := c.shell(t, "kubectl slurm resume "+pod)
	assert.Equal(t, 1, status)
	assert.Contains(t, said, "slurmlet ends that itself")
	j := c.submit(t, "true", "-w", pod)
	c.says(t, "why "+j.id, pod+": drained", "kubectl uncordon kube-2")
	c.cure(t, answer, "kubectl uncordon ")
	j.completes(t, "0")

	j = c.running(t, "sleep 20", "-w", pod)
	c.kubectl(t, "delete", "pod", pod, "--wait=false")
	c.says(t, "why "+pod, "The pod is being deleted since", "slurmlet deadline 60s")
	j.completes(t, "0")
	c.bothIdle(t)

	j = c.submit(t, "true", "--hold", "-w", "slurm-cpu-1") // a node that a job names keeps its record
	c.upgrade(t, "--set", "nodeSets.cpu.replicas=1")
	c.says(t, "why slurm-cpu-1", "and has no pod", "The node's pod is gone, and slurmctld has its record still", "the replicas of its node set")
	c.upgrade(t, "--set", "nodeSets.cpu.replicas=2")
	c.bothIdle(t)
	c.cure(t, c.says(t, "why "+j.id, "holds the job"), "kubectl exec ")
	j.completes(t, "0")

	c.upgrade(t, "--set", "slurm.extraConf=MaxTme=1")
	c.says(t, "status", "an edit is refused", "MaxTme")
	c.upgrade(t, "--set", "slurm.extraConf=")
	c.says(t, "status", "configuration  live")
}
