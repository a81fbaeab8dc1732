package nodesize

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd/devices"
)

// gpuMachine is a container with two GPUs, and a choice among them.
func gpuMachine(t *testing.T, text string) (string, devices.Choice) {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "dev"), 0o700))
	for _, name := range []string{"nvidia0", "nvidia1"} {
		require.NoError(t, os.Symlink("/dev/null", filepath.Join(root, "dev", name)))
	}
	choice, err := devices.ParseChoice(text)
	require.NoError(t, err)
	return root, choice
}

func TestGresConf(t *testing.T) {
	for text, lines := range map[string]string{
		"auto":               "Name=gpu File=/dev/nvidia[0-1] Flags=nvidia_gpu_env\n",
		"gpu:h200:1,shmem:2": "Name=gpu Type=h200 File=/dev/nvidia0 Flags=nvidia_gpu_env\nName=shmem Count=2\n",
		"none":               "",
	} {
		root, choice := gpuMachine(t, text)
		path := filepath.Join(t.TempDir(), "gres.conf")
		g, err := FindGres(root, choice)
		require.NoError(t, err)
		require.NoError(t, g.Write(path))
		written, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, "# slurmlet writes this at its start: the devices of this container (gres.conf(5)).\n"+lines, string(written), text)
		left, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		assert.Len(t, left, 1)
	}
}

func TestMoreGresThanThereIs(t *testing.T) {
	root, choice := gpuMachine(t, "gpu:h200:3")
	_, err := FindGres(root, choice)
	require.EqualError(t, err, `SLURMLET_GRES: cannot use "gpu:h200:3": gpu:h200:3: the container has not that many: gpu:2 was found`)
}

func TestDeviceVanishes(t *testing.T) {
	root, choice := gpuMachine(t, "auto")
	g, err := FindGres(root, choice)
	require.NoError(t, err)
	require.NoError(t, g.Check(root))
	require.NoError(t, os.Remove(filepath.Join(root, "dev/nvidia1")))
	require.EqualError(t, g.Check(root), "/dev/nvidia1 is no device any more, and gpu:2 was to be registered with it")
}

// recorded is the record of a node with one CPU.
func recorded(gres string, types ...string) *slurm.Node {
	return &slurm.Node{CPUs: 1, CPUsEffective: 1, RealMemory: 448, Gres: gres, NodeDetail: &slurm.NodeDetail{GresTypes: types}}
}

// A cluster that does not know what was registered is told of; the record fits all the same.
func TestUnknownGres(t *testing.T) {
	s := Size{CPUs: 1, RealMemory: 448, Gres: "gpu:h200:2"}
	assert.Equal(t, "CPUs=1 RealMemory=448 Gres=gpu:h200:2", s.Conf())
	for _, c := range []struct {
		gres  string
		types []string
		want  string
	}{
		{"gpu:h200:2(S:0-1)", nil, ""},
		{"gpu:h200:1", nil, "Gres is gpu:h200:1, not gpu:h200:2"},
		{"", nil, "Gres is none, not gpu:h200:2"},
		{"", []string{"gpu"}, "Gres is none, not gpu:h200:2"},
		{"", []string{""}, ""},
		{"", []string{"shmem"}, ""},
	} {
		n := recorded(c.gres, c.types...)
		assert.Equal(t, c.want, s.Diff(n), "%+v", c)
	}
	assert.Equal(t, "Gres is gpu:1, not none", Size{CPUs: 1, RealMemory: 448}.Diff(recorded("gpu:1")), "an earlier pod's GPU")
}

func TestMismatchOfGres(t *testing.T) {
	pod := given(t, "0-3", plain, 1.5, "")
	s, err := NewSize(pod, 0)
	require.NoError(t, err)
	wanted := Gres{Plan: devices.Plan{Gres: devices.Recorded("gpu:a:1,gpu:b:1,shmem:1")}}
	for types, want := range map[string][]Mismatch{
		"gpu,shmem": nil,
		"gpu":       {{"GresTypes=gpu", `shmem (slurm.conf), and "Include /run/slurmlet/gres.conf" in gres.conf`, "the node is registered without gpu:a:1,gpu:b:1,shmem:1"}},
		"":          {{"GresTypes=", `gpu,shmem (slurm.conf), and "Include /run/slurmlet/gres.conf" in gres.conf`, "the node is registered without gpu:a:1,gpu:b:1,shmem:1"}},
	} {
		p := podOf(s, pod, all...)
		p.Gres = wanted
		have := Mismatches(p, cluster(t, "24.11", "GresTypes="+types))
		assert.Equal(t, want, have)
	}
}
