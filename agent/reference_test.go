package agent

import (
	"bytes"
	"cmp"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// TestReference holds the table of docs/reference/settings.md to the variables, or writes it.
func TestReference(t *testing.T) {
	const path, head = "../docs/reference/settings.md", "| variable | role | default | meaning |\n|---|---|---|---|\n"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	before, table, found := strings.Cut(string(text), head)
	require.True(t, found)
	_, after, _ := strings.Cut(table, "\n\n")
	var want strings.Builder
	for _, v := range variables {
		require.NotEmpty(t, v.text, v.name)
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", v.name, cmp.Or(v.rolesInWords(), "all"), v.fallbackInWords(), v.text)
	}
	if *update {
		if after != "" {
			after = "\n" + after
		}
		require.NoError(t, os.WriteFile(path, []byte(before+head+want.String()+after), 0o644))
		return
	}
	require.Equal(t, strings.TrimRight(want.String(), "\n"), strings.TrimRight(strings.TrimSuffix(table, after), "\n"), "variables.go (expected) and %s (actual); -update writes it", path)
}

// inWords are the defaults that depend on the machine or the role.
var inWords = map[string]string{
	"SLURMLET_NODE_NAME":    "the host name",
	"SLURMLET_CONF_SOURCES": "`SLURMLET_CONF_DIR`",
	"SLURMLET_DAEMON":       "the role's name, looked up in PATH",
}

func (v variable) rolesInWords() string {
	var roles []string
	for _, r := range v.roles {
		roles = append(roles, string(r))
	}
	return strings.Join(roles, ", ")
}

func (v variable) fallbackInWords() string {
	if slices.ContainsFunc(v.roles, v.required) {
		return "required"
	}
	return cmp.Or(inWords[v.name], v.fallback, "none")
}

// required: a role does not do without.
func (v variable) required(role Role) bool {
	enough := []string{"SLURMLET_NODE_NAME=n1", "SLURMLET_CONTROLLER=ctl"}
	without := slices.DeleteFunc(enough, func(entry string) bool { return strings.HasPrefix(entry, v.name+"=") })
	_, err := FromEnv(role, without)
	return v.fallback == "" && err != nil
}

// TestReferenceOfMetrics: every metric that the statuses of TestMetrics have, and
// the reading of TestUsageMetrics, is explained by its HELP, and no other. What
// the daemons, the container and each job use is explained with what all jobs use.
func TestReferenceOfMetrics(t *testing.T) {
	want := map[string]string{}
	for _, s := range statuses {
		for name, family := range families(t, s) {
			want[name+labels(family)] = family.GetHelp()
		}
	}
	usage := usageFamilies(t)
	for name, family := range usage {
		if twin := twin(name); twin != "" {
			require.Contains(t, usage, twin, name)
			continue
		}
		want[name+labels(family)] = family.GetHelp()
	}
	have := map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^\t(slurmlet_\S+) +(.*)$`).FindAllStringSubmatch(packageComment(t), -1) {
		have[found[1]] = found[2]
	}
	require.Equal(t, want, have, "metrics_table.go and usage_table.go (expected), by the statuses of metrics_test.go and usage.prom, and doc.go (actual): the same metrics, labels and texts")
}

func labels(family *dto.MetricFamily) string {
	var names []string
	for _, pair := range family.GetMetric()[0].GetLabel() {
		names = append(names, pair.GetName())
	}
	if names == nil {
		return ""
	}
	return "{" + strings.Join(names, ",") + "}"
}

func packageComment(t *testing.T) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	require.NoError(t, err)
	return file.Doc.Text()
}

// usageFamilies are the metrics of the golden file of internal/slurmd/usage.
func usageFamilies(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	text, err := os.ReadFile("../internal/slurmd/usage/testdata/usage.prom")
	require.NoError(t, err)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	require.NoError(t, err)
	return all
}

// twin is the metric of all jobs that tells the same as another one.
func twin(name string) string {
	for _, prefix := range []string{"node_daemons_", "node_container_", "job_"} {
		if rest, found := strings.CutPrefix(name, "slurmlet_"+prefix); found {
			return "slurmlet_node_jobs_" + rest
		}
	}
	return ""
}
