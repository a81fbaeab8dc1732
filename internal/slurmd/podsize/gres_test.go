package podsize

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/gres"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
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

func TestMismatchOfGres(t *testing.T) {
	pod := given(t, "0-3", plain, 1.5, "")
	s, err := nodesize.NewSize(pod, 0)
	require.NoError(t, err)
	wanted := Gres{Plan: devices.Plan{Gres: gres.Recorded("gpu:a:1,gpu:b:1,shmem:1")}}
	for types, want := range map[string][]slurm.Mismatch{
		"gpu,shmem": nil,
		"gpu":       {{Setting: "GresTypes=gpu", Instead: `shmem (slurm.conf), and "Include /run/slurmlet/gres.conf" in gres.conf`, Why: "the node is registered without gpu:a:1,gpu:b:1,shmem:1"}},
		"":          {{Setting: "GresTypes=", Instead: `gpu,shmem (slurm.conf), and "Include /run/slurmlet/gres.conf" in gres.conf`, Why: "the node is registered without gpu:a:1,gpu:b:1,shmem:1"}},
	} {
		p := podOf(s, pod, all...)
		p.Gres = wanted
		have := Mismatches(p, cluster(t, "24.11", "GresTypes="+types))
		assert.Equal(t, want, have)
	}
}
