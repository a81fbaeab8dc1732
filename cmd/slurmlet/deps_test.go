package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDependencies: the agent is small and holds no Kubernetes credential, so it has no use for a client either. What reads
// its metrics in tests costs it a third of its size. A template calls methods by name, so with one the linker keeps
// every exported method of the program: slurmlet-web has html/template.
func TestDependencies(t *testing.T) {
	t.Parallel()
	list, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	require.Contains(t, string(list), "github.com/slurmlet/slurmlet/agent\n")
	for dependency := range strings.Lines(string(list)) {
		for _, unwanted := range []string{"k8s.io/", "sigs.k8s.io/", "github.com/prometheus/", "google.golang.org/protobuf/", "html/template", "text/template"} {
			require.False(t, strings.HasPrefix(dependency, unwanted), dependency)
		}
	}
}
