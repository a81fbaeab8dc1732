package monitoring

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// promtool runs Debian's and returns what it says.
func promtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	dir, err := parts.Prometheus(t.Context(), t.Logf)
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "promtool"), args...).CombinedOutput()
	return string(out), err
}

// TestRulesAreValid: alerts.yaml as it is, for a Prometheus without its operator.
func TestRulesAreValid(t *testing.T) {
	needsHelm(t)
	out, err := promtool(t, "check", "rules", filepath.Join(chart, "alerts.yaml"))
	require.NoError(t, err, out)
}

var (
	grafanasVariable = regexp.MustCompile(`\$__[a-z_]+`)
	anyVariable      = regexp.MustCompile(`\$[a-z_]+`)
)

// TestQueriesAreValid: Prometheus' parser takes every query of the panels and the triggers, with a value for each
// of Grafana's variables.
func TestQueriesAreValid(t *testing.T) {
	needsHelm(t)
	var all []any
	add := func(q query) {
		expr := anyVariable.ReplaceAllString(grafanasVariable.ReplaceAllString(q.Expr, "5m"), "x")
		all = append(all, map[string]any{"record": fmt.Sprintf("query:%d", len(all)), "expr": expr})
	}
	for name, d := range dashboardFiles(t) {
		for _, q := range d.queries(name) {
			add(q)
		}
	}
	for _, q := range triggers(t) {
		add(q)
	}
	require.Greater(t, len(all), 100)
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "queries", "rules": all}}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "queries.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	out, err := promtool(t, "check", "rules", file)
	require.NoError(t, err, out)
}

func needsHelm(t *testing.T) string {
	t.Helper()
	helm := os.Getenv("HELM")
	if helm == "" {
		t.Skip("HELM is not set: run make charts")
	}
	return helm
}

// rendered are the rules that the chart makes for the cluster slurm in the namespace hpc.
func rendered(t *testing.T) ruleFile {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), needsHelm(t), "template", "slurm", chart, "--namespace", "hpc", "--set", "image.registry=registry.example/slurmlet", "--show-only", "templates/prometheusrule.yaml",
		"--set", "prometheusRule.enabled=true,accounting.enabled=true,cgroup.runtimeClassName=writable")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, said.String())
	var object struct{ Spec ruleFile }
	require.NoError(t, yaml.Unmarshal(out, &object))
	require.Len(t, object.Spec.rules(), len(alerts(t)), "the chart leaves some out")
	return object.Spec
}

// only has one alert, because promtool computes all of them at each minute of each case.
func (f ruleFile) only(name string) (one ruleFile) {
	for _, group := range f.Groups {
		group.Rules = slices.DeleteFunc(slices.Clone(group.Rules), func(r rule) bool { return r.Alert != name })
		if len(group.Rules) > 0 {
			one.Groups = append(one.Groups, group)
		}
	}
	return one
}

// written is the file in the words of Prometheus.
func (f ruleFile) written() any {
	var groups []any
	for _, group := range f.Groups {
		var rules []any
		for _, r := range group.Rules {
			one := map[string]any{"alert": r.Alert, "expr": r.Expr, "labels": r.Labels, "annotations": r.Annotations}
			if r.For != "" {
				one["for"] = r.For
			}
			rules = append(rules, one)
		}
		groups = append(groups, map[string]any{"name": group.Name, "rules": rules})
	}
	return map[string]any{"groups": groups}
}

// ours are the labels that every series of a test has, others are those of another cluster.
const (
	ours   = `namespace="hpc",slurmlet_dev_cluster="slurm"`
	others = `namespace="other",slurmlet_dev_cluster="slurm"`
)

// TestAlerts: each alert fires by its cause, for this cluster alone, and not without it.
func TestAlerts(t *testing.T) {
	rules, dir := rendered(t), t.TempDir()
	tests := map[string][]any{}
	tried := map[string]map[bool]bool{}
	for _, c := range cases {
		if tried[c.alert] == nil {
			tried[c.alert] = map[bool]bool{}
		}
		tried[c.alert][c.fires > 0] = true
		tests[c.alert] = append(tests[c.alert], c.test(ours, c.fires))
		if c.fires > 0 && !c.absent {
			tests[c.alert] = append(tests[c.alert], c.test(others, 0))
		}
	}
	files := []string{"test", "rules", testFile(t, dir, "healthy", rules, healthy())}
	for _, r := range alerts(t) {
		assert.True(t, tried[r.Alert][true] && tried[r.Alert][false], "%s: one case must fire, and one must not", r.Alert)
		files = append(files, testFile(t, dir, r.Alert, rules.only(r.Alert), tests[r.Alert]...))
	}
	out, err := promtool(t, files...)
	require.NoError(t, err, out)
}

// testFile writes rules and their tests for promtool.
func testFile(t *testing.T, dir, name string, rules ruleFile, tests ...any) string {
	t.Helper()
	write := func(suffix string, content any) string {
		text, err := yaml.Marshal(content)
		require.NoError(t, err)
		file := filepath.Join(dir, name+suffix)
		require.NoError(t, os.WriteFile(file, text, 0o644))
		return file
	}
	return write(".test.yaml", map[string]any{"rule_files": []string{write(".yaml", rules.written())}, "evaluation_interval": "1m", "tests": tests})
}

// instance is one case: series, each with the values of successive minutes in promtool's words,
// and how many alerts fire after a time.
type instance struct {
	alert, why string
	after      time.Duration
	fires      int
	series     []string
	// absent: the alert fires where there is nothing, so another cluster's series cannot keep it silent.
	absent bool
}

var series = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? (.*)$`)

func (c instance) test(cluster string, fires int) any {
	name := fmt.Sprintf("%s: %s (%s)", c.alert, c.why, cluster)
	return promtoolTest(name, c.series, cluster, c.after, fmt.Sprintf(`ALERTS{alertname=%q,alertstate="firing"}`, c.alert), fires)
}

func promtoolTest(name string, all []string, cluster string, after time.Duration, expr string, fires int) any {
	var input []any
	for _, one := range all {
		part := series.FindStringSubmatch(one)
		input = append(input, map[string]any{"series": fmt.Sprintf("%s{%s}", part[1], strings.Trim(cluster+","+part[2], ",")), "values": part[3]})
	}
	expected := []any{}
	if fires > 0 {
		expected = []any{map[string]any{"labels": "{}", "value": fires}}
	}
	return map[string]any{
		"name": name, "interval": "1m", "input_series": input,
		"promql_expr_test": []any{map[string]any{"expr": "count(" + expr + ")", "eval_time": after.String(), "exp_samples": expected}},
	}
}

// healthy: nothing is reported of a cluster in which nothing happens.
func healthy() any {
	return promtoolTest("a healthy cluster", healthySeries, ours, 12*time.Hour, `ALERTS`, 0)
}
