package monitoring

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/slurmlet/slurmlet/e2e/testbed/prometheus"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// trigger is one of a ScaledObject. It asks as KEDA's prometheus scaler does, whose package holds all scalers of
// KEDA, and whose module needs some 350 others (pkg/scalers/prometheus_scaler.go, 2.21).
type trigger struct {
	Type       string
	MetricType string `yaml:"metricType"`
	Metadata   map[string]string
}

// value is what the query has at a time. It is an error where KEDA leaves the number of replicas as it is.
func (t trigger) value(ctx context.Context, at time.Time) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/api/v1/query?query=%s&time=%s",
		t.Metadata["serverAddress"], url.QueryEscape(t.Metadata["query"]), at.UTC().Format(time.RFC3339)), nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return 0, fmt.Errorf("prometheus query api returned error. status: %d", answer.StatusCode)
	}
	var reply struct {
		Data struct {
			Result []struct{ Value []any }
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&reply); err != nil {
		return 0, err
	}
	ignoreNull, err := strconv.ParseBool(t.Metadata["ignoreNullValues"])
	if err != nil {
		ignoreNull = true
	}
	switch result := reply.Data.Result; {
	case len(result) > 1:
		return 0, errors.New("prometheus query returned multiple elements")
	case len(result) == 1 && len(result[0].Value) == 2:
		v, err := strconv.ParseFloat(fmt.Sprint(result[0].Value[1]), 64)
		if err != nil || !math.IsInf(v, 0) && !math.IsNaN(v) {
			return v, err
		}
	}
	if ignoreNull {
		return 0, nil
	}
	return 0, errors.New("prometheus metrics 'prometheus' target may be lost, the result is empty")
}

// scaledObject is what the tests read of KEDA's kind.
type scaledObject struct {
	Kind string
	Spec struct {
		Min      int `yaml:"minReplicaCount"`
		Max      int `yaml:"maxReplicaCount"`
		Triggers []trigger
	}
}

// scaledObjects are those that the chart makes of values.
func scaledObjects(t *testing.T, values string) (all []scaledObject) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), needsHelm(t), "template", "slurm", chart, "--namespace", "hpc", "--set", "image.registry=registry.example/slurmlet", "--show-only", "templates/nodes.yaml", "--values", values)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, said.String())
	for d := yaml.NewDecoder(bytes.NewReader(out)); ; {
		var object scaledObject
		if err := d.Decode(&object); errors.Is(err, io.EOF) {
			return all
		} else {
			require.NoError(t, err)
		}
		if object.Kind == "ScaledObject" {
			all = append(all, object)
		}
	}
}

// replicas is what the HorizontalPodAutoscaler makes of a value by its defaults: AverageValue, which KEDA takes
// where a trigger has no metricType, and a tolerance of a tenth (pkg/controller/podautoscaler).
func (s scaledObject) replicas(t *testing.T, value float64, current int) int {
	t.Helper()
	require.Empty(t, s.Spec.Triggers[0].MetricType)
	threshold, err := strconv.ParseFloat(s.Spec.Triggers[0].Metadata["threshold"], 64)
	require.NoError(t, err)
	wanted := current
	if ratio := value / (threshold * float64(current)); ratio < 0.9 || ratio > 1.1 {
		wanted = int(math.Ceil(value / threshold))
	}
	return min(max(wanted, s.Spec.Min), s.Spec.Max)
}

// demand is how the partition cpu stands at a time, and how many replicas there should be then.
type demand struct {
	why                         string
	alloc, mixed, pending, held int
	current, wanted             int
	// unknown: Prometheus has no metrics of the cluster, and neither value nor number change.
	unknown bool
}

var demands = []demand{
	{why: "nothing runs", current: 10, wanted: 2},
	{why: "all nodes have jobs", alloc: 6, mixed: 1, current: 7, wanted: 7},
	{why: "jobs wait", alloc: 6, mixed: 1, pending: 5, current: 7, wanted: 12},
	{why: "jobs are held", alloc: 6, pending: 5, held: 4, current: 6, wanted: 7},
	{why: "more jobs wait than there may be nodes", pending: 5000, current: 2, wanted: 50},
	{why: "the HorizontalPodAutoscaler leaves a tenth as it is", alloc: 20, pending: 2, current: 20, wanted: 20},
	{why: "some nodes have no jobs any more", alloc: 3, current: 12, wanted: 3},
	{why: "Prometheus has no metrics", unknown: true, current: 12, wanted: 12},
}

// demandedAt is the time of a demand. Prometheus looks back five minutes.
func demandedAt(i int) time.Time {
	return time.Now().Add(-24 * time.Hour).Truncate(24 * time.Hour).Add(time.Duration(i) * 10 * time.Minute)
}

// history is what Prometheus has scraped: the demands by Slurm's names and by slurm-exporter's, and a full cluster
// beside this one.
func history() []byte {
	var text bytes.Buffer
	for _, name := range []struct {
		native, exporter string
		of               func(demand) int
	}{
		{"nodes_alloc", "nodes_allocated_total", func(d demand) int { return d.alloc }},
		{"nodes_mixed", "nodes_mixed_total", func(d demand) int { return d.mixed }},
		{"jobs_pending", "jobs_pending_total", func(d demand) int { return d.pending }},
		{"jobs_hold", "jobs_hold_total", func(d demand) int { return d.held }},
	} {
		for _, metric := range []string{name.native, name.exporter} {
			for i, d := range demands {
				sample := func(labels string, value int) {
					fmt.Fprintf(&text, "slurm_partition_%s{partition=\"cpu\",%s} %d %d\n", metric, labels, value, demandedAt(i).Unix())
				}
				sample(`namespace="other",slurmlet_dev_cluster="other"`, 100)
				if !d.unknown {
					sample(ours, name.of(d))
				}
			}
		}
	}
	return append(text.Bytes(), "# EOF\n"...)
}

// TestKEDA: what KEDA and the HorizontalPodAutoscaler make of the chart's ScaledObjects. Debian's Prometheus
// answers; each demand has a time of its own.
func TestKEDA(t *testing.T) {
	needsHelm(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "history"), history(), 0o600))
	out, err := promtool(t, "tsdb", "create-blocks-from", "openmetrics", filepath.Join(dir, "history"), filepath.Join(dir, "data"))
	require.NoError(t, err, out)
	bin, err := parts.Prometheus(t.Context(), t.Logf)
	require.NoError(t, err)
	server, stop, err := prometheus.Start(t.Context(), filepath.Join(bin, "prometheus"), dir, map[string]any{})
	require.NoError(t, err)
	t.Cleanup(stop)
	for _, path := range autoscaled(t) {
		objects := scaledObjects(t, path)
		require.Len(t, objects, 1, path)
		require.Equal(t, triggersOf(t, path), objects[0].Spec.Triggers, "the chart leaves triggers as they are")
		require.Len(t, objects[0].Spec.Triggers, 1)
		asks := objects[0].Spec.Triggers[0]
		require.Equal(t, "prometheus", asks.Type)
		asks.Metadata["serverAddress"] = "http://" + string(server)
		for i, d := range demands {
			t.Run(filepath.Base(path)+"/"+d.why, func(t *testing.T) {
				value, err := asks.value(t.Context(), demandedAt(i))
				if d.unknown {
					require.ErrorContains(t, err, "the result is empty")
					return
				}
				require.NoError(t, err)
				assert.Equal(t, d.wanted, objects[0].replicas(t, value, d.current), "the value is %v", value)
			})
		}
	}
}
