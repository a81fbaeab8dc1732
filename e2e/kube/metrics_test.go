//go:build e2e

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// metrics: the chart's PodMonitor leads to every agent. The Prometheus operator
// reads from it what is read here, and Prometheus asks the pods as is done here.
func metrics(t *testing.T, c *cluster) {
	monitor := c.monitor(t)
	roles := map[string]int{}
	for _, pod := range c.selected(t, monitor.Spec.Selector.MatchLabels) {
		for _, label := range monitor.Spec.PodTargetLabels {
			_, found := pod.Metadata.Labels[label]
			assert.True(t, found || label == "slurmlet.dev/node-set", label)
		}
		endpoint := monitor.endpointOf(t, pod)
		families := c.scrape(t, pod.target(endpoint.Port)+endpoint.Path)
		role := labelOf(families["slurmlet_build_info"], "role")
		roles[role]++
		assert.Equal(t, pod.Metadata.Labels["slurmlet.dev/role"], role)
		require.NotNil(t, families["slurmlet_ready"], role)
		assert.InDelta(t, 1, families["slurmlet_ready"].Metric[0].GetGauge().GetValue(), 0, role)
	}
	assert.Equal(t, map[string]int{"slurmctld": 1, "slurmd": 2, "login": 1}, roles)
}

// podMonitor is what a PodMonitor says of where to ask.
type podMonitor struct {
	Spec struct {
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		PodTargetLabels     []string          `yaml:"podTargetLabels"`
		PodMetricsEndpoints []metricsEndpoint `yaml:"podMetricsEndpoints"`
	}
}

// metricsEndpoint is of the pods whose role its relabeling keeps, or does not drop.
type metricsEndpoint struct {
	Port, Path  string
	Relabelings []struct {
		SourceLabels  []string `yaml:"sourceLabels"`
		Regex, Action string
	}
}

// endpointOf is the one at which Prometheus asks a pod.
func (m podMonitor) endpointOf(t *testing.T, p pod) (found metricsEndpoint) {
	t.Helper()
	count := 0
	for _, e := range m.Spec.PodMetricsEndpoints {
		require.Len(t, e.Relabelings, 1)
		require.Equal(t, []string{"__meta_kubernetes_pod_label_slurmlet_dev_role"}, e.Relabelings[0].SourceLabels)
		if (e.Relabelings[0].Action == "keep") == (p.Metadata.Labels["slurmlet.dev/role"] == e.Relabelings[0].Regex) {
			found = e
			count++
		}
	}
	require.Equal(t, 1, count, "no pod is asked twice")
	return found
}

func (c *cluster) monitor(t *testing.T) (m podMonitor) {
	t.Helper()
	manifest := c.runHelm(t, append([]string{"template", release, chart, "--show-only", "templates/podmonitor.yaml", "--set", "podMonitor.enabled=true"}, c.ofBed()...)...)
	require.NoError(t, yaml.Unmarshal([]byte(manifest), &m))
	return m
}

type pod struct {
	Metadata struct {
		Name, Namespace string
		Labels          map[string]string
	}
	Spec struct {
		Containers []struct {
			Ports []struct {
				Name          string
				ContainerPort int
			}
		}
	}
	Status struct{ PodIP string }
}

// selected are the pods with these labels.
func (c *cluster) selected(t *testing.T, labels map[string]string) []pod {
	t.Helper()
	var selector []string
	for key, value := range labels {
		selector = append(selector, key+"="+value)
	}
	var pods struct{ Items []pod }
	require.NoError(t, json.Unmarshal([]byte(c.kubectl(t, "get", "pods", "--selector="+strings.Join(selector, ","), "-o", "json")), &pods))
	return pods.Items
}

// target is the address of a port that a container names.
func (p pod) target(port string) string {
	for _, container := range p.Spec.Containers {
		for _, known := range container.Ports {
			if known.Name == port {
				return fmt.Sprintf("http://%s:%d", p.Status.PodIP, known.ContainerPort)
			}
		}
	}
	return "http://" + p.Status.PodIP + ":no-port-" + port
}

func (c *cluster) scrape(t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	client := http.Client{Timeout: limit, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, address string) (net.Conn, error) { return c.Dial(ctx, address) },
	}}
	answer, err := client.Get(url)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode, url)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	require.NoError(t, err, url)
	return families
}

// labelOf is a label of a family's first sample.
func labelOf(family *dto.MetricFamily, name string) string {
	for _, metric := range family.GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == name {
				return label.GetValue()
			}
		}
	}
	return ""
}
