//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// alertFires has promtool try an alert of the chart with a metric of a node: it fires after the value has become what
// it is, and not before.
func alertFires(t *testing.T, alert, metric string, was, is float64) {
	t.Helper()
	dir, err := parts.Prometheus(t.Context(), t.Logf)
	require.NoError(t, err)
	rules, err := filepath.Abs("../charts/slurm/alerts.yaml")
	require.NoError(t, err)
	expr := fmt.Sprintf(`count(ALERTS{alertname=%q,alertstate="firing"})`, alert)
	text, err := json.Marshal(map[string]any{"rule_files": []string{rules}, "tests": []any{map[string]any{
		"interval": "1m",
		"input_series": []any{map[string]any{
			"series": metric + `{namespace="hpc",pod="node",slurmlet_dev_cluster="slurm",slurmlet_dev_node_set="cpu"}`,
			"values": fmt.Sprintf("%vx10 %vx10", was, is),
		}},
		"promql_expr_test": []any{
			map[string]any{"expr": expr, "eval_time": "9m"},
			map[string]any{"expr": expr, "eval_time": "15m", "exp_samples": []any{map[string]any{"labels": "{}", "value": 1}}},
		},
	}}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "test.yaml") // JSON is YAML
	require.NoError(t, os.WriteFile(file, text, 0o600))
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "promtool"), "test", "rules", file).CombinedOutput()
	t.Logf("%s: %v, and then %v", metric, was, is)
	assert.NoError(t, err, string(out))
}
