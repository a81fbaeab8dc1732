//go:build e2e

package kube

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var edits = flag.Int("edits", 0, "how many `edits` TestEdits makes, half of them under load; 0: it does not run")

// mostOfDelivery is how long the kubelet may take for 99 of 100 edits, from kubectl's start. It looks at its volumes by
// itself once a minute. How long slurmctld and its nodes then take depends on what else the machine does.
const mostOfDelivery = 5 * time.Second

// TestEdits measures how soon an edit by kubectl is live on all nodes. The controller has the kubelet deliver it.
func TestEdits(t *testing.T) {
	if *edits == 0 {
		t.Skip("-edits is 0")
	}
	c := up(t)
	controller(t, c)
	c.install(t)
	e := c.edits(t)
	e.measure(t, "idle", *edits/2)
	stop := c.load(t)
	e.measure(t, "under load", *edits-*edits/2)
	stop()
}

// changeConfAtOnce: the kubelet delivers an edit at once, because the controller has changed slurmctld's pod. A job runs,
// and no pod is restarted.
func changeConfAtOnce(t *testing.T, c *cluster) {
	j := c.running(t, "sleep 30", "-N2")
	before := c.pods(t)
	c.edits(t).measure(t, "with a job", 3)
	assert.NotEmpty(t, c.configVersion(t))
	j.completes(t, "0")
	assert.Equal(t, before, c.pods(t), "pods are restarted")
	c.upgrade(t, "--force-conflicts", "--set", "slurm.overwriteEdits=true")
	until(t, "slurmctld has the values", func() (bool, string) {
		saw := c.ask(t, "scontrol show config | grep KillWait")
		return strings.HasSuffix(saw, "= 17 sec"), saw
	})
	c.upgrade(t, "--set", "slurm.overwriteEdits=false")
}

// edited is the ConfigMap, and what slurmctld's agent logs of it.
type edited struct {
	*cluster
	conf string
	live <-chan line
	n    int
}

// line is one of the agent's log: the time that it has, and when it came.
type line struct{ Time, came time.Time }

// edits follows the agent's log until the test's end.
func (c *cluster) edits(t *testing.T) *edited {
	t.Helper()
	text := c.field(t, "configmap/slurm", `.data.slurm\.conf`) + "\n"
	live := make(chan line, 16)
	c.follow(t, func(text string) {
		if strings.Contains(text, `"the configuration is live"`) {
			l := line{came: time.Now()}
			_ = json.Unmarshal([]byte(text), &l) // it has no time then
			live <- l
		}
	}, "logs", "--follow", "--tail=0", "slurm-slurmctld-0")
	return &edited{c, regexp.MustCompile(`(?m)^KillWait=.*\n`).ReplaceAllString(text, ""), live, 0}
}

// edit changes the ConfigMap by kubectl, and returns how long it took until the kubelet had delivered it, and until it was
// live. The bed's machines have this one's clock: clock is how long the agent's line took.
func (e *edited) edit(t *testing.T) (delivered, live, clock time.Duration) {
	t.Helper()
	e.n++
	patch, err := json.Marshal(map[string]any{"data": map[string]string{"slurm.conf": fmt.Sprintf("%sKillWait=%d\n", e.conf, 100+e.n)}})
	require.NoError(t, err)
	began := time.Now()
	e.kubectl(t, "patch", "configmap", "slurm", "--patch", string(patch))
	select {
	case said := <-e.live:
		return e.delivered(t).Sub(began), said.came.Sub(began), said.came.Sub(said.Time)
	case <-time.After(limit):
		require.Fail(t, "the edit is not live")
	}
	return 0, 0, 0
}

// measure makes n edits one after the other, and prints their times.
func (e *edited) measure(t *testing.T, how string, n int) {
	t.Helper()
	var arrived, took, clocks []time.Duration
	again := 0
	for range n {
		delivered, live, clock := e.edit(t)
		arrived, took, clocks = append(arrived, delivered), append(took, live), append(clocks, clock)
		if strings.Contains(e.configVersion(t), "-") {
			again++
		}
	}
	assert.Equal(t, fmt.Sprintf("KillWait = %d sec", 100+e.n), strings.Join(strings.Fields(e.ask(t, "scontrol show config | grep KillWait")), " "))
	t.Logf("Slurm %s, %d edits %s are live: p50 %v, p99 %v, slowest %v", e.version, n, how, share(took, 50), share(took, 99), share(took, 100))
	t.Logf("the kubelet had delivered them: p50 %v, p99 %v, slowest %v; %d needed more than one change of the annotation",
		share(arrived, 50), share(arrived, 99), share(arrived, 100), again)
	t.Logf("log lines took %v to %v", share(clocks, 1), share(clocks, 100))
	assert.LessOrEqual(t, share(arrived, 99), mostOfDelivery)
}

// share is the time within which so many of 100 are.
func share(times []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[(len(sorted)*percent+99)/100-1].Round(10 * time.Millisecond)
}

// configVersion is the annotation that the controller has given slurmctld's pod.
func (c *cluster) configVersion(t *testing.T) string {
	t.Helper()
	return c.field(t, "pod/slurm-slurmctld-0", `.metadata.annotations.slurmlet\.dev/config-version`)
}

// load has jobs begin and end on all CPUs of the nodes, and somebody read all pods again and again.
func (c *cluster) load(t *testing.T) (stop func()) {
	t.Helper()
	j := c.submit(t, "sleep 3", "--array=1-1000")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = c.Kubectl(ctx, "get", "pods", "--all-namespaces", "-o", "yaml")
		}
	}()
	return func() {
		cancel()
		<-done
		c.ask(t, "scancel "+j.id)
		c.bothIdle(t)
	}
}
