package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const chart = "../../../charts/slurm"

// query is PromQL, and where it stands.
type query struct{ Where, Expr string }

// dashboardFile is what the tests read of a dashboard, as Grafana does.
type dashboardFile struct {
	Templating struct{ List []input }
	Panels     []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

// input is a variable of a dashboard.
type input struct {
	Name, Type, Definition string
	IncludeAll             bool `json:"includeAll"`
}

func dashboardFiles(t *testing.T) map[string]dashboardFile {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(chart, "dashboards", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	all := map[string]dashboardFile{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var d dashboardFile
		require.NoError(t, json.Unmarshal(text, &d), path)
		all[strings.TrimSuffix(filepath.Base(path), ".json")] = d
	}
	return all
}

func (d dashboardFile) queries(name string) (all []query) {
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, query{name + ": " + p.Title, target.Expr})
		}
	}
	return all
}

// foreign are what other people's dashboards and autoscalers ask for.
func foreign(t *testing.T) (all []query) {
	t.Helper()
	text, err := os.ReadFile("testdata/slurm-exporter.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		where, expr, found := strings.Cut(strings.TrimSpace(line), "\t")
		require.Equal(t, !strings.HasPrefix(line, "#"), found, line)
		if found {
			all = append(all, query{where, expr})
		}
	}
	return all
}

// autoscaled are the chart's examples of values with autoscaling.
func autoscaled(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(chart, "ci", "autoscaling*-values.yaml"))
	require.NoError(t, err)
	require.Len(t, paths, 2, "Slurm's names, and slurm-exporter's")
	return paths
}

// triggersOf are those of KEDA that values have.
func triggersOf(t *testing.T, path string) (all []trigger) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var values struct {
		NodeSets map[string]struct {
			Autoscaling struct{ Triggers []trigger }
		} `yaml:"nodeSets"`
	}
	require.NoError(t, yaml.Unmarshal(text, &values))
	for _, s := range values.NodeSets {
		all = append(all, s.Autoscaling.Triggers...)
	}
	require.NotEmpty(t, all, path)
	return all
}

// triggers are what KEDA asks for by the examples.
func triggers(t *testing.T) (all []query) {
	t.Helper()
	for _, path := range autoscaled(t) {
		for _, one := range triggersOf(t, path) {
			all = append(all, query{filepath.Base(path), one.Metadata["query"]})
		}
	}
	return all
}

// rule is one of alerts.yaml.
type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []rule
	}
}

func (f ruleFile) rules() (all []rule) {
	for _, group := range f.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

func alerts(t *testing.T) []rule {
	t.Helper()
	return alertFile(t).rules()
}

func alertFile(t *testing.T) (f ruleFile) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chart, "alerts.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &f))
	require.NotEmpty(t, f.rules())
	return f
}

// selector is a metric with its matchers, as they stand in a query.
type selector struct{ name, matchers string }

func (s selector) String() string { return s.name + s.matchers }

// Every metric of ours begins with slurm; the labels that do are those of the pods.
var selectors = regexp.MustCompile(`\b((?:slurm|up\b)[a-z0-9_]*)(\{[^}]*\})?`)

func selectorsOf(expr string) (all []selector) {
	for _, found := range selectors.FindAllStringSubmatchIndex(expr, -1) {
		s := selector{name: expr[found[2]:found[3]]}
		if found[4] >= 0 {
			s.matchers = expr[found[4]:found[5]]
		}
		if !strings.HasPrefix(s.name, "slurmlet_dev_") {
			all = append(all, s)
		}
	}
	return all
}
