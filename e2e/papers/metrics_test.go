package papers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMetricsPage: the page lists every metric that the golden files have, with its labels and its help.
func TestMetricsPage(t *testing.T) {
	all, err := ReadMetrics(root)
	require.NoError(t, err)
	text, missing := MetricsPage(all)
	require.Empty(t, missing, "metricGroups has no section for these")
	comparePage(t, metricsPage, text, "TestMetricsPage")
}

// TestCommandsPage: the page lists every command that `slurmlet help` prints.
func TestCommandsPage(t *testing.T) {
	text, err := CommandsPage(root)
	require.NoError(t, err)
	comparePage(t, commandsPage, text, "TestCommandsPage")
}

// comparePage compares a page with what it is made from, or writes it.
func comparePage(t *testing.T, page, text, test string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(filepath.Join(root, page), []byte(text), 0o644))
	}
	have, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	assert.Equal(t, text, string(have), "run go test ./e2e/papers -run %s -update", test)
}

func TestReadMetrics(t *testing.T) {
	all := map[string]Metric{}
	readMetrics("# HELP a One\n# TYPE a gauge\na{b=\"x\\\"y\",c=\"\"} 1\n# HELP d_seconds Two.\n# TYPE d_seconds histogram\nd_seconds_bucket{e=\"f\",le=\"1\"} 2\nd_seconds_sum{e=\"f\"} 2\n", all)
	assert.Equal(t, map[string]Metric{"a": {"a", []string{"b", "c"}, "One"}, "d_seconds": {"d_seconds", []string{"e"}, "Two"}}, all)
}
