//go:build e2e

package monitoring

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// settings are what those inside the namespaces are told by those outside.
type settings struct {
	native.Given
	// Full: what takes minutes happens too.
	Full bool
	// Slow: it is the cluster of the troubles that take minutes.
	Slow bool
	// Prometheus is the program.
	Prometheus string
	Rules      ruleFile
	Dashboards map[string]dashboardFile
	// Foreign are queries of others: dashboards and autoscalers.
	Foreign []query
	// Triggers are those of the chart's examples.
	Triggers []trigger
	// Recorded are the expositions that the agents' own tests hold.
	Recorded []string
}

func TestMain(m *testing.M) { native.TestMain(m, inside) }

// TestPrometheus: Debian's Prometheus scrapes the agents of a real cluster and has data for each
// query of each dashboard and each alert.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	s := newSettings(t)
	s.Dashboards, s.Foreign = dashboardFiles(t), slices.Concat(foreign(t), triggers(t))
	for _, path := range autoscaled(t) {
		s.Triggers = append(s.Triggers, triggersOf(t, path)...)
	}
	for _, pattern := range expositions {
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, path := range paths {
			s.Recorded = append(s.Recorded, absolute(t, path))
		}
	}
	versions, limit := parts.Versions(), 3*time.Minute
	if s.Full = os.Getenv("SLURMLET_E2E_FULL") != ""; s.Full {
		limit = 10 * time.Minute
	} else {
		versions = versions[len(versions)-1:]
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			s := s
			s.Given = native.For(t, version)
			native.Play(t, limit, s)
		})
	}
}

// newSettings are those of every cluster.
func newSettings(t *testing.T) settings {
	t.Helper()
	program, err := parts.Prometheus(t.Context(), t.Logf)
	require.NoError(t, err)
	return settings{Prometheus: filepath.Join(program, "prometheus"), Rules: alertFile(t)}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	return path
}
