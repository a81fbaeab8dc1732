package agent

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// TestReference holds the package comment's list of variables and the table of
// them together: the names in their order, and each one's roles and default.
func TestReference(t *testing.T) {
	var want, have []string
	for _, v := range variables {
		want = append(want, v.name+" ("+v.reference()+")")
	}
	// A line ends with the roles and the default in brackets.
	line := regexp.MustCompile(`(?m)^\t(SLURMLET_[A-Z_]+) .*(\((?:[^()]*; )?default: [^()]*\)|\([a-z, ]+: required\))$`)
	for _, found := range line.FindAllStringSubmatch(packageComment(t), -1) {
		have = append(have, found[1]+" "+found[2])
	}
	require.Equal(t, want, have, "variables.go (expected) and doc.go (actual): the same variables in the same order, with roles and default")
}

// inWords are the defaults that depend on the machine or the role.
var inWords = map[string]string{
	"SLURMLET_NODE_NAME":    "the host name",
	"SLURMLET_CONF_SOURCES": "SLURMLET_CONF_DIR",
	"SLURMLET_DAEMON":       "the role's name, looked up in PATH",
}

func (v variable) reference() string {
	var roles []string
	required := false
	for _, r := range v.roles {
		roles = append(roles, string(r))
		required = required || v.required(r)
	}
	if required {
		return strings.Join(roles, ", ") + ": required"
	}
	fallback := "default: " + cmp.Or(inWords[v.name], v.fallback, "none")
	if roles == nil {
		return fallback
	}
	return strings.Join(roles, ", ") + "; " + fallback
}

// required: a role does not do without.
func (v variable) required(role Role) bool {
	enough := []string{"SLURMLET_NODE_NAME=n1", "SLURMLET_CONTROLLER=ctl"}
	without := slices.DeleteFunc(enough, func(entry string) bool { return strings.HasPrefix(entry, v.name+"=") })
	_, err := FromEnv(role, without)
	return v.fallback == "" && err != nil
}

// TestReferenceOfExits: every exit status of package exitcode is explained, and no other.
func TestReferenceOfExits(t *testing.T) {
	var want, have []string
	file, err := parser.ParseFile(token.NewFileSet(), "../internal/kit/exitcode/exitcode.go", nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		if value, ok := n.(*ast.BasicLit); ok && value.Kind == token.INT {
			want = append(want, value.Value)
		}
		return true
	})
	for _, found := range regexp.MustCompile(`(?m)^\t(\d+) `).FindAllStringSubmatch(packageComment(t), -1) {
		have = append(have, found[1])
	}
	require.Equal(t, want, have, "internal/kit/exitcode/exitcode.go (expected) and doc.go (actual): the same numbers in the same order")
	require.Contains(t, want, strconv.Itoa(ExitConfig))
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
	require.Equal(t, want, have, "metrics_table.go and usage_table.go (expected), by the statuses of metrics_test.go and usage_test.go, and doc.go (actual): the same metrics, labels and texts")
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
