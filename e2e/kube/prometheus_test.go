//go:build e2e

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/prometheus"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// scrapedByPrometheus: Debian's Prometheus scrapes the pods with the configurations that its operator makes of
// the chart's PodMonitor, and computes the chart's alerts. Debian builds it without the discovery of
// pods: a file has what that would tell of them.
func scrapedByPrometheus(t *testing.T, c *cluster) {
	bin, err := parts.Prometheus(t.Context(), t.Logf)
	require.NoError(t, err)
	monitor, dir := c.monitor(t), t.TempDir()
	var jobs []any
	discovered := filepath.Join(dir, "pods.json")
	text, err := json.Marshal(c.discover(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(discovered, text, 0o600))
	for i, endpoint := range monitor.Spec.PodMetricsEndpoints {
		jobs = append(jobs, scrapeConfig(i, monitor, endpoint, discovered, c.proxy(t)))
	}
	rules, err := filepath.Abs(filepath.Join(chart, "alerts.yaml"))
	require.NoError(t, err)
	p := startPrometheus(t, filepath.Join(bin, "prometheus"), dir, map[string]any{
		"global": map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": []string{rules}, "scrape_configs": jobs,
	})
	until(t, "each pod is scraped", func() (bool, string) {
		up, err := p.ask(`count by (slurmlet_dev_role) (up{slurmlet_dev_cluster="` + release + `"} == 1)`)
		return err == nil && up["slurmctld"] == "1" && up["slurmd"] == "2" && up["login"] == "1", fmt.Sprint(up, err)
	})
	until(t, "slurmctld's agent tells of the cluster", func() (bool, string) {
		nodes, err := p.ask(`sum by (slurmlet_dev_role) (slurm_nodes{slurmlet_dev_cluster="` + release + `"}) and on () slurmlet_cluster_up == 1`)
		return err == nil && nodes["slurmctld"] == "2", fmt.Sprint(nodes, err)
	})
	until(t, "all alerts are computed", func() (bool, string) {
		faults, count, err := p.rules()
		return err == nil && count > 0 && len(faults) == 0, fmt.Sprint(count, faults, err)
	})
}

// targetGroup is one of Prometheus' files of targets.
type targetGroup struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// discover tells of all pods what Prometheus' discovery of them does: each port, with the pod's labels.
func (c *cluster) discover(t *testing.T) (groups []targetGroup) {
	t.Helper()
	for _, p := range c.selected(t, nil) {
		labels := map[string]string{"__meta_kubernetes_namespace": p.Metadata.Namespace, "__meta_kubernetes_pod_name": p.Metadata.Name}
		for label, value := range p.Metadata.Labels {
			labels[meta(label)] = value
		}
		for _, container := range p.Spec.Containers {
			for _, port := range container.Ports {
				one := maps.Clone(labels)
				one["__meta_kubernetes_pod_container_port_name"] = port.Name
				groups = append(groups, targetGroup{[]string{fmt.Sprintf("%s:%d", p.Status.PodIP, port.ContainerPort)}, one})
			}
		}
	}
	return groups
}

// meta is the name under which Prometheus knows a pod's label before it has relabeled the target.
func meta(label string) string {
	return "__meta_kubernetes_pod_label_" + strings.NewReplacer(".", "_", "/", "_", "-", "_").Replace(label)
}

// scrapeConfig is what Prometheus' operator makes of an endpoint of a PodMonitor.
func scrapeConfig(number int, m podMonitor, e metricsEndpoint, discovered, proxy string) map[string]any {
	var relabel []any
	for label, value := range m.Spec.Selector.MatchLabels {
		relabel = append(relabel, map[string]any{"source_labels": []string{meta(label)}, "regex": value, "action": "keep"})
	}
	relabel = append(relabel, map[string]any{"source_labels": []string{"__meta_kubernetes_pod_container_port_name"}, "regex": e.Port, "action": "keep"})
	for to, from := range map[string]string{"namespace": "__meta_kubernetes_namespace", "pod": "__meta_kubernetes_pod_name"} {
		relabel = append(relabel, map[string]any{"source_labels": []string{from}, "target_label": to})
	}
	for _, label := range m.Spec.PodTargetLabels {
		relabel = append(relabel, map[string]any{"source_labels": []string{meta(label)}, "target_label": strings.TrimPrefix(meta(label), "__meta_kubernetes_pod_label_")})
	}
	for _, r := range e.Relabelings {
		relabel = append(relabel, map[string]any{"source_labels": r.SourceLabels, "regex": r.Regex, "action": r.Action})
	}
	return map[string]any{
		"job_name": fmt.Sprintf("podMonitor/%d", number), "metrics_path": e.Path, "proxy_url": proxy, "relabel_configs": relabel,
		"file_sd_configs": []any{map[string]any{"files": []string{discovered}}},
	}
}

// proxy leads into the network of the bed, which this machine has no route to.
func (c *cluster) proxy(t *testing.T) string {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return c.Dial(ctx, address) }}
	server := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, Rewrite: func(*httputil.ProxyRequest) {}})
	t.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
	})
	return server.URL
}

// prometheusAt is a Prometheus that answers at an address.
type prometheusAt struct{ prometheus.Server }

func startPrometheus(t *testing.T, program, dir string, config any) prometheusAt {
	t.Helper()
	p, stop, err := prometheus.Start(t.Context(), program, dir, config)
	require.NoError(t, err)
	t.Cleanup(stop)
	return prometheusAt{p}
}

// ask returns a query's values by the role.
func (p prometheusAt) ask(query string) (map[string]string, error) {
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  []any
		}
	}
	err := p.Ask("query", url.Values{"query": {query}}, &data)
	values := map[string]string{}
	for _, r := range data.Result {
		if len(r.Value) == 2 {
			values[r.Metric["slurmlet_dev_role"]] = fmt.Sprint(r.Value[1])
		}
	}
	return values, err
}

// rules tells how many there are, and those that are not computed.
func (p prometheusAt) rules() (faults []string, count int, err error) {
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	err = p.Ask("rules", nil, &data)
	for _, group := range data.Groups {
		for _, r := range group.Rules {
			if count++; r.Health != "ok" {
				faults = append(faults, r.Name+": "+r.Health+" "+r.LastError)
			}
		}
	}
	return slices.Compact(faults), count, err
}
