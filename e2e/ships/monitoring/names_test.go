package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/papers"
)

// expositions are what the agents' code writes: its tests hold these files.
var expositions = []string{"../../../agent/testdata/metrics/*.prom", "../../../internal/slurmd/usage/testdata/usage.prom", "../../../internal/slurmctld/clusterview/series/testdata/native-users.prom"}

// exporterExposition is what they write by slurm-exporter's names.
const exporterExposition = "../../../internal/slurmctld/clusterview/series/testdata/exporter.prom"

// scrapeLabels are those that Prometheus gives to what it scrapes, as the PodMonitor says.
var scrapeLabels = []string{"namespace", "pod", "slurmlet_dev_cluster", "slurmlet_dev_role", "slurmlet_dev_node_set"}

// exposed are the names of all series that agents have, with their labels.
func exposed(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{"up": nil}
	for _, pattern := range append(slices.Clone(expositions), exporterExposition) {
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, paths, pattern)
		for _, path := range paths {
			addExposed(t, path, all)
		}
	}
	return all
}

func addExposed(t *testing.T, path string, all map[string][]string) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(file)
	require.NoError(t, err, path)
	for name, family := range families {
		for _, metric := range family.Metric {
			var labels []string
			for _, pair := range metric.Label {
				labels = append(labels, pair.GetName())
			}
			if metric.Histogram == nil {
				all[name] = append(all[name], labels...)
				continue
			}
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				all[name+suffix] = append(all[name+suffix], append(labels, "le")...)
			}
		}
	}
}

// TestQueriesAskForMetricsThatThereAre: of every alert, of every panel and variable, and of every trigger.
func TestQueriesAskForMetricsThatThereAre(t *testing.T) {
	known := exposed(t)
	for _, q := range everyQuery(t) {
		found := selectorsOf(q.Expr)
		assert.NotEmpty(t, found, "%s asks for no metric: %s", q.Where, q.Expr)
		for _, s := range found {
			labels, ok := known[s.name]
			if !assert.True(t, ok, "%s asks for %s, which no agent has", q.Where, s.name) {
				continue
			}
			for _, match := range matcher.FindAllStringSubmatch(s.matchers, -1) {
				assert.Contains(t, slices.Concat(labels, scrapeLabels), match[1], "%s: %s has no label %s", q.Where, s, match[1])
			}
		}
	}
}

var matcher = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)

func everyQuery(t *testing.T) (all []query) {
	t.Helper()
	for _, r := range alerts(t) {
		all = append(all, query{r.Alert, r.Expr})
	}
	all = append(all, triggers(t)...)
	for name, d := range dashboardFiles(t) {
		all = append(all, d.queries(name)...)
		for _, v := range d.Templating.List {
			if v.Type == "query" {
				all = append(all, query{name + ": $" + v.Name, v.Definition})
			}
		}
	}
	return all
}

// TestRunbooks: every alert has a section of its name, and there is no other one. It says what
// happened and what to do, and how bad it is.
func TestRunbooks(t *testing.T) {
	paper, err := papers.Read("../../..", "docs/alerts.md")
	require.NoError(t, err)
	var sections, names []string
	for _, line := range paper.Lines {
		if name, found := strings.CutPrefix(line, "## Slurm"); found && !strings.Contains(name, " ") {
			sections = append(sections, "Slurm"+name)
		}
	}
	for _, r := range alerts(t) {
		names = append(names, r.Alert)
		assert.True(t, paper.Anchors()[strings.ToLower(r.Alert)], r.Alert)
		assert.NotEmpty(t, r.Annotations["summary"], r.Alert)
		assert.Greater(t, len(r.Annotations["description"]), 80, "%s says what happened and what to do", r.Alert)
		assert.Contains(t, []string{"info", "warning", "critical"}, r.Labels["severity"], r.Alert)
	}
	assert.Equal(t, names, sections, "alerts.yaml (expected) and docs/alerts.md (actual): the same alerts in the same order")
}

// TestEverySelectorIsOfAClusterInTheAlerts: what a PrometheusRule has in its place must be in every selector.
func TestEverySelectorIsOfAClusterInTheAlerts(t *testing.T) {
	for _, r := range alerts(t) {
		for _, s := range selectorsOf(r.Expr) {
			assert.Contains(t, s.matchers, `slurmlet_dev_cluster!=""`, "%s: %s", r.Alert, s)
		}
	}
}

func TestSelectorsOf(t *testing.T) {
	have := selectorsOf(`count by (namespace, slurmlet_dev_cluster) (up{a="b"} == 0 unless slurmlet_state{state="x"} == 1) > slurm_nodes - supper`)
	assert.Equal(t, []selector{{"up", `{a="b"}`}, {"slurmlet_state", `{state="x"}`}, {"slurm_nodes", ""}}, have)
}
