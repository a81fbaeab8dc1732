package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDependencies: the agent is small and holds no Kubernetes credential, so it has no use for a client either.
func TestDependencies(t *testing.T) {
	t.Parallel()
	list, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	require.Contains(t, string(list), "github.com/slurmlet/slurmlet/agent\n")
	for dependency := range strings.Lines(string(list)) {
		require.False(t, strings.HasPrefix(dependency, "k8s.io/") || strings.HasPrefix(dependency, "sigs.k8s.io/"), dependency)
	}
}
