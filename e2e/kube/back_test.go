//go:build e2e

package kube

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// badImage: an upgrade to images that nobody has takes slurmctld and the login pod down. helm rollback alone brings
// all back, and no job is lost.
func badImage(t *testing.T, c *cluster) {
	runs := c.running(t, "sleep 30", "-N2")
	waits := c.submit(t, "true", "-N2")
	before := c.field(t, "statefulset/slurm-slurmctld", ".status.currentRevision")
	began := time.Now()
	c.upgrade(t, "--set", "image.tag=nope,image.pullPolicy=IfNotPresent")
	until(t, "slurmctld's image cannot be pulled", func() (bool, string) {
		// Of the first container that waits: the one that makes the hosts file.
		saw, _ := c.Kubectl(t.Context(), "get", "pod", "slurm-slurmctld-0", "-o", "jsonpath={.status..state.waiting.reason}")
		return strings.Contains(saw, "ErrImagePull") || strings.Contains(saw, "ImagePullBackOff"), saw
	})
	c.says(t, "why slurmctld", "cannot be pulled", "correct image.registry, image.tag")
	back := time.Now()
	c.runHelm(t, "rollback", release)
	c.kubectl(t, "rollout", "status", "statefulset/slurm-slurmctld", "--timeout", limit.String())
	answered := time.Now()
	c.kubectl(t, "rollout", "status", "statefulset/slurm-login", "--timeout", limit.String())
	c.bothIdleAfter(t, runs, waits)
	t.Logf("slurmctld serves again %v after helm rollback, all pods are Ready and both jobs over after %v; slurmctld was away for at most %v",
		answered.Sub(back).Round(time.Second/10), time.Since(back).Round(time.Second/10), answered.Sub(began).Round(time.Second/10))
	assert.Equal(t, before, c.field(t, "statefulset/slurm-slurmctld", ".status.updateRevision"), "it is what was there before")
	assert.NotContains(t, c.pods(t), "nope")
}

// bothIdleAfter waits for the ends of jobs, and for both nodes.
func (c *cluster) bothIdleAfter(t *testing.T, jobs ...job) {
	t.Helper()
	for _, j := range jobs {
		j.completes(t, "0")
	}
	c.bothIdle(t)
}

// halfUpgrade: helm upgrade is refused before it changes anything where somebody has edited the ConfigMap, and goes on
// when it is told to replace the edit.
func halfUpgrade(t *testing.T, c *cluster) {
	killWait := func() string { return c.ask(t, "scontrol show config | grep KillWait") }
	before := killWait()
	text, err := json.Marshal(map[string]any{"data": map[string]string{"slurm.conf": c.field(t, "configmap/slurm", `.data.slurm\.conf`) + "\nKillWait=19\n"}})
	require.NoError(t, err)
	c.kubectl(t, "patch", "configmap", "slurm", "--patch", string(text))
	until(t, "slurmctld has the edit", func() (bool, string) {
		saw := killWait()
		return strings.HasSuffix(saw, "= 19 sec"), saw
	})
	generation := func() string { return c.field(t, "statefulset/slurm-slurmctld", ".metadata.generation") }
	one, pods := generation(), c.pods(t)
	said := c.helmFails(t, "upgrade", release, chart, "--reuse-values", "--set", "podDefaults.logLevel=debug")
	assert.Contains(t, said, "kubectl-patch has edited slurm.conf of the ConfigMap slurm")
	assert.Equal(t, one, generation(), "the upgrade has changed something")
	c.upgrade(t, "--force-conflicts", "--set", "slurm.overwriteEdits=true")
	until(t, "slurmctld has the values", func() (bool, string) {
		saw := killWait()
		return saw == before, saw
	})
	c.bothIdle(t)
	assert.Equal(t, pods, c.pods(t), "pods are restarted")
	c.upgrade(t, "--set", "slurm.overwriteEdits=false")
}

// helmFails is what a helm says that ends with an error.
func (c *cluster) helmFails(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.helm, args...)
	cmd.Env = append(os.Environ(), c.Environment()...)
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "%s", out)
	return string(out)
}
