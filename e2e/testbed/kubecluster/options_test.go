package kubecluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDefaults(t *testing.T) {
	o, err := Options{Binary: "/bin/sh"}.complete()
	require.NoError(t, err)
	assert.Equal(t, []any{"default", 2, 2, 6144}, []any{o.Name, o.Nodes, o.CPUs, o.Memory})
}

func TestEverythingWrongIsToldAtOnce(t *testing.T) {
	_, err := Options{Name: "../etc", Nodes: 17, CPUs: 9, Memory: 100, Binary: "/does/not/exist"}.complete()
	for _, want := range []string{
		`name "../etc": want a-z, 0-9 and -, at most 32 characters`, "nodes 17: want 1 to 16", "cpus 9: want 1 to 8",
		"memory 100 MiB: want 512 or more", "cannot find slurmlet-sandbox",
	} {
		assert.ErrorContains(t, err, want)
	}
}

func TestReadyNodes(t *testing.T) {
	n, err := readyNodes([]byte(`{"items": [
		{"status": {"conditions": [{"type": "DiskPressure", "status": "True"}, {"type": "Ready", "status": "True"}]}},
		{"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
		{"status": {}}]}`))
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	_, err = readyNodes([]byte("no"))
	assert.ErrorContains(t, err, "cannot read the list of nodes")
}
