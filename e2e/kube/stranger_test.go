//go:build e2e

package kube

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// siege keeps 2,000 half-sent requests on a port, until its time is over: what is hung up is
// opened again.
const siege = `
trap '' PIPE
ulimit -n 4096
end=$((SECONDS + $2)) opened=0
while [ $SECONDS -lt $end ]; do
	for i in $(seq 2000); do
		[ -z "${held[i]}" ] || exec {held[i]}>&-
		if exec {fd}<>/dev/tcp/$1/8817; then
			held[i]=$fd opened=$((opened + 1))
			printf 'GET /status HTTP/1.1\r\nHost: x\r\nX' >&$fd
		else
			held[i]=
		fi
		[ $SECONDS -lt $end ] || break
	done
done 2>/dev/null
echo $opened
`

// besieged: a user of the login pod has 2,000 half-sent requests on every agent's port. No container
// is started again, jobs run on and others come, and the kubelets' probes are answered.
func besieged(t *testing.T, c *cluster) {
	lasts := 30 * time.Second
	if os.Getenv("SLURMLET_E2E_FULL") != "" {
		lasts = 5 * time.Minute
	}
	before := c.allRestarts(t)
	j := c.running(t, fmt.Sprintf("sleep %.0f", lasts.Seconds()+5), "-w", "slurm-cpu-0")
	ctx, cancel := context.WithTimeout(t.Context(), lasts+limit)
	defer cancel()
	var all sync.WaitGroup
	for _, pod := range c.selected(t, map[string]string{"slurmlet.dev/cluster": release}) { // MariaDB's has none
		all.Go(func() {
			out, err := c.KubectlOn(ctx, siege, "exec", "-i", "slurm-login-0", "--", "bash", "-s", pod.Status.PodIP, fmt.Sprintf("%.0f", lasts.Seconds()))
			assert.NoError(t, err)
			t.Logf("%s: %s half-sent requests", pod.Metadata.Labels["slurmlet.dev/role"], strings.TrimSpace(out))
		})
	}
	over := make(chan struct{})
	go func() {
		all.Wait()
		close(over)
	}()
	for ended := false; !ended; {
		c.submit(t, "true", "-w", "slurm-cpu-1").completes(t, "0")
		select {
		case <-over:
			ended = true
		case <-time.After(10 * time.Second):
		}
	}
	j.completes(t, "0")
	require.Equal(t, before, c.allRestarts(t))
	c.bothIdle(t)
}

// allRestarts is how often each container of the release was started again.
func (c *cluster) allRestarts(t *testing.T) string {
	t.Helper()
	return c.kubectl(t, "get", "pods", "-l", "slurmlet.dev/cluster="+release, "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[*].restartCount}{"\n"}{end}`)
}
