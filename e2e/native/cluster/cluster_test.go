//go:build e2e

package cluster

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// settings are what those inside the namespaces are told by those outside.
type settings struct {
	Root, Slurmlet string
	// Cost is for TestCost. Metrics says that slurmctld has metrics itself.
	Cost, Metrics bool
}

func TestMain(m *testing.M) {
	native.Run(inside)
	os.Exit(m.Run())
}

// TestCluster: what the agent collects is what Slurm's commands print.
func TestCluster(t *testing.T) {
	slurmlet, err := native.FindSlurmlet("../../../bin/slurmlet")
	require.NoError(t, err)
	for _, version := range parts.Versions() {
		root, err := parts.Root(t.Context(), version, t.Logf)
		require.NoError(t, err)
		t.Run(version, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			require.NoError(t, native.Enter(ctx, settings{Root: root, Slurmlet: slurmlet, Metrics: version >= "25.11"}), "the cluster's own words are above")
		})
	}
}
