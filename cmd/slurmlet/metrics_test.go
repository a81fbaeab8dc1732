package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// measures: these lines are in /metrics.
func measures(lines ...string) condition {
	return func(c *container) error {
		text, _, err := c.get("/metrics")
		for _, line := range lines {
			if err == nil && !strings.Contains("\n"+string(text), "\n"+line+"\n") {
				err = fmt.Errorf("want %s, have\n%s", line, text)
			}
		}
		return err
	}
}

// notMeasured: nothing of this text is in /metrics.
func notMeasured(what string) condition {
	return func(c *container) error {
		text, _, err := c.get("/metrics")
		if err == nil && bytes.Contains(text, []byte(what)) {
			err = fmt.Errorf("want nothing of %s, have\n%s", what, text)
		}
		return err
	}
}

// TestMetrics scrapes as Prometheus does, before there is a slurmd and when it serves. Nobody asks slurmctld for it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	c := start(t, given{role: "slurmd", noSlurmctld: true, files: map[string]string{"config": unfit}, env: []string{"SLURMLET_LISTEN=" + port, "SLURMLET_SPOOL_DIR=/var/spool/slurmd"}})
	c.await(phase{name: "it waits", want: []condition{is(supervisor.Starting, reaching, "connection refused")}})
	require.Zero(t, scrape(t, port)["slurmlet_ready"])

	openSlurmctld(c)
	c.await(phase{name: "it is Ready", want: []condition{isReady, measures("slurmlet_node_misfits 1")}})
	mark(c)
	for range 10 {
		found := scrape(t, port)
		require.InDelta(t, 1, found["slurmlet_ready"], 0)
		require.InDelta(t, time.Now().Unix(), found["slurmlet_daemon_start_time_seconds"], 60)
	}
	require.NoError(t, calls(0)(c))
}

// scrape has the first sample of each metric.
func scrape(t *testing.T, address string) map[string]float64 {
	t.Helper()
	response, err := http.Get("http://" + address + "/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", response.Header.Get("Content-Type"))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(response.Body)
	require.NoError(t, err)
	first := map[string]float64{}
	for name, family := range families {
		first[name] = family.Metric[0].GetGauge().GetValue() + family.Metric[0].GetCounter().GetValue()
	}
	return first
}
