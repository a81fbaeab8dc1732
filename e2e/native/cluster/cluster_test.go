//go:build e2e

package cluster

import (
	"testing"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// settings are what those inside the namespaces are told by those outside.
type settings struct {
	native.Given
	// Cost is for TestCost. Metrics says that slurmctld has metrics itself.
	Cost, Metrics bool
}

func TestMain(m *testing.M) { native.TestMain(m, inside) }

// TestCluster: what the agent collects is what Slurm's commands print.
func TestCluster(t *testing.T) {
	native.Newest(t, func(t *testing.T, g native.Given) {
		t.Parallel() // it waits most of the time
		native.Play(t, native.Whole, settings{Given: g, Metrics: g.Version >= "25.11"})
	})
}
