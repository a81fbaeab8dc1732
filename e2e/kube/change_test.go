//go:build e2e

package kube

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// changeConf: the kubelet delivers a changed ConfigMap, and slurmctld's agent
// makes it live on all nodes, while a job runs and no pod is restarted.
func changeConf(t *testing.T, c *cluster) {
	j := c.running(t, "sleep 40", "-N2")
	before := c.pods(t)
	changed := time.Now()
	c.upgrade(t, "--set", "slurm.conf.KillWait=17")
	until(t, "slurm.conf is live", func() (bool, string) {
		saw := c.ask(t, "scontrol show config | grep KillWait")
		return strings.HasSuffix(saw, "= 17 sec"), saw
	})
	for _, node := range []string{"slurm-cpu-0", "slurm-cpu-1"} {
		until(t, node+" has it", func() (bool, string) {
			saw, _ := c.Kubectl(t.Context(), "exec", node, "--", "grep", "KillWait", "/var/spool/slurmd/conf-cache/slurm.conf")
			return saw == "KillWait=17\n", saw
		})
	}
	delivered, live := c.delivered(t), c.live(t)
	t.Logf("delivered by the kubelet after %v, live on all nodes %v later", delivered.Sub(changed).Round(time.Second/10), live.Sub(delivered).Round(time.Second/10))
	assert.WithinRange(t, live, delivered, delivered.Add(30*time.Second))
	j.completes(t, "0")
	assert.Equal(t, before, c.pods(t), "pods are restarted")
}

// moment is what a command in a pod prints: seconds since 1970.
func (c *cluster) moment(t *testing.T, pod string, command ...string) time.Time {
	t.Helper()
	return printedTime(t, c.kubectl(t, append([]string{"exec", pod, "--"}, command...)...))
}

// removeSet: a node set goes with its partition, and not before its jobs are over.
func removeSet(t *testing.T, c *cluster) {
	c.upgrade(t, "--set", "nodeSets.extra.replicas=1,nodeSets.extra.terminationGracePeriodSeconds=300")
	until(t, "its partition has a node", func() (bool, string) {
		saw := c.ask(t, "sinfo -h -p extra -o '%D %T'")
		return saw == "1 idle", saw
	})
	j := c.running(t, "sleep 60", "-p", "extra") // longer than the edit takes
	c.runHelm(t, append([]string{"upgrade", release, chart}, c.ofBed()...)...)
	until(t, "slurmctld's agent waits for the job", func() (bool, string) {
		saw := c.kubectl(t, "exec", "slurm-slurmctld-0", "--", "slurmlet", "status")
		return strings.Contains(saw, "job "+j.id+" is in it"), saw
	})
	j.completes(t, "0")
	c.gone(t, "slurm-extra-0")
	until(t, "its partition is gone", func() (bool, string) {
		saw := c.ask(t, "sinfo -h -o %R | sort -u | xargs")
		return saw == "all cpu fleet", saw
	})
	c.bothIdle(t)
}

// delivered is when the kubelet has put the ConfigMap's files in place.
func (c *cluster) delivered(t *testing.T) time.Time {
	t.Helper()
	return c.moment(t, "slurm-slurmctld-0", "stat", "-c", "%.Y", "/etc/slurm/..data")
}

// live is when slurmctld's agent has last said that a configuration is.
func (c *cluster) live(t *testing.T) (last time.Time) {
	t.Helper()
	for line := range strings.Lines(c.kubectl(t, "logs", "slurm-slurmctld-0")) {
		var said struct {
			Time time.Time
			Msg  string
		}
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "the configuration is live" {
			last = said.Time
		}
	}
	return last
}

// pods are the release's, with their containers' images and restarts.
func (c *cluster) pods(t *testing.T) string {
	t.Helper()
	return c.kubectl(t, "get", "pods", "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.spec.containers[0].image} {.status.containerStatuses[0].restartCount}{"\n"}{end}`)
}

// changeImage: nodes get another image one by one, each after its job, while
// slurmctld gets its own.
func changeImage(t *testing.T, c *cluster) {
	for _, machine := range c.Nodes() {
		for _, role := range []string{"slurmctld", "slurmd", "login"} {
			image := "localhost/slurmlet/" + role
			_, err := c.Exec(t.Context(), machine, "/opt/kubernetes/ctr", "-n", "k8s.io", "images", "tag", image+":dev-"+c.version, image+":next-"+c.version)
			require.NoError(t, err)
		}
	}
	j := c.running(t, "sleep 20", "-N2")
	c.upgrade(t, "--set", "image.tag=next")
	c.kubectl(t, "rollout", "status", "statefulset/slurm-login", "--timeout", limit.String())
	j.completes(t, "0")
	c.bothIdle(t)
	assert.Equal(t, 4, strings.Count(c.pods(t), ":next-"+c.version))
}
