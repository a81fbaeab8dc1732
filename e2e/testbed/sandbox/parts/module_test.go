package parts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRequiredVersions(t *testing.T) {
	const goMod = "module m\n\nrequire k8s.io/kubernetes v1.37.1 // indirect\n\nrequire (\n\ta.example/b v0.1.0\n\ta.example/b/v2 v2.0.0\n)\n\nreplace a.example/c => a.example/c v9.9.9\n"
	for path, want := range map[string]string{
		"k8s.io/kubernetes": "v1.37.1", "a.example/b": "v0.1.0", "a.example/b/v2": "v2.0.0", "a.example/c": "", "m": "",
	} {
		assert.Equal(t, want, required(goMod, path), path)
	}
	assert.Contains(t, kubernetesFlags(goMod), "version.gitVersion=v1.37.1 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37 ")
}

func TestKubernetesIsPinned(t *testing.T) {
	dir, err := findModule("kube")
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	assert.Regexp(t, `^v1\.\d+\.\d+$`, required(string(text), "k8s.io/kubernetes"))
	_, err = findModule("beer")
	assert.EqualError(t, err, "cannot find .ci/beer/go.mod: be in slurmlet's repository")
}

func TestEverySourceCounts(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "pause"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module m"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pause", "main.go"), []byte("package main"), 0o644))
	all, err := sources(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"/go.mod", "module m", "/pause/main.go", "package main"}, all)
}
