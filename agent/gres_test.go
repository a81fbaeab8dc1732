package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/devices"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// gpuMachine is a container with two GPUs, and a plan for them.
func gpuMachine(t *testing.T, choice string) (string, Config) {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "dev"), 0o700))
	for _, name := range []string{"nvidia0", "nvidia1"} {
		require.NoError(t, os.Symlink("/dev/null", filepath.Join(root, "dev", name)))
	}
	c := Config{RunDir: t.TempDir()}
	var err error
	c.Gres, err = devices.ParseChoice(choice)
	require.NoError(t, err)
	return root, c
}

func TestGresConf(t *testing.T) {
	for choice, lines := range map[string]string{
		"auto":               "Name=gpu File=/dev/nvidia[0-1] Flags=nvidia_gpu_env\n",
		"gpu:h200:1,shmem:2": "Name=gpu Type=h200 File=/dev/nvidia0 Flags=nvidia_gpu_env\nName=shmem Count=2\n",
		"none":               "",
	} {
		root, c := gpuMachine(t, choice)
		g, err := findGres(root, c)
		require.NoError(t, err)
		require.NoError(t, g.write(c))
		text, err := os.ReadFile(gresConf(c))
		require.NoError(t, err)
		assert.Equal(t, "# slurmlet writes this at its start: the devices of this container (gres.conf(5)).\n"+lines, string(text), choice)
		left, err := os.ReadDir(c.RunDir)
		require.NoError(t, err)
		assert.Len(t, left, 1)
	}
}

func TestMoreGresThanThereIs(t *testing.T) {
	root, c := gpuMachine(t, "gpu:h200:3")
	_, err := findGres(root, c)
	require.EqualError(t, err, `SLURMLET_GRES: cannot use "gpu:h200:3": gpu:h200:3: the container has not that many: gpu:2 was found`)
}

func TestDeviceVanishes(t *testing.T) {
	root, c := gpuMachine(t, "auto")
	g, err := findGres(root, c)
	require.NoError(t, err)
	require.NoError(t, g.check(root))
	require.NoError(t, os.Remove(filepath.Join(root, "dev/nvidia1")))
	require.EqualError(t, g.check(root), "/dev/nvidia1 is no device any more, and gpu:2 was to be registered with it")
}

// A cluster that does not know what was registered is told of; the record fits all the same.
func TestUnknownGres(t *testing.T) {
	s := Shape{CPUs: 1, RealMemory: 448, Gres: "gpu:h200:2"}
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
		n := record(func(n *slurm.Node) { n.Gres, n.GresTypes = c.gres, c.types })
		assert.Equal(t, c.want, s.differences(n), "%+v", c)
	}
	one := record(func(n *slurm.Node) { n.Gres = "gpu:1" })
	assert.Equal(t, "Gres is gpu:1, not none", Shape{CPUs: 1, RealMemory: 448}.differences(one), "an earlier pod's GPU")
}

func TestFitOfGres(t *testing.T) {
	pod := given(t, "0-3", plain, 1.5, "")
	s, err := NewShape(pod, 0)
	require.NoError(t, err)
	all := withController("cpuset", "cpu", "memory")
	wanted := gres{Plan: devices.Plan{Gres: devices.Recorded("gpu:a:1,gpu:b:1,shmem:1")}}
	for types, want := range map[string][]Misfit{
		"gpu,shmem": nil,
		"gpu":       {{"GresTypes=gpu", `shmem (slurm.conf), and "Include /run/slurmlet/gres.conf" in gres.conf`, "the node is registered without gpu:a:1,gpu:b:1,shmem:1"}},
		"":          {{"GresTypes=", `gpu,shmem (slurm.conf), and "Include /run/slurmlet/gres.conf" in gres.conf`, "the node is registered without gpu:a:1,gpu:b:1,shmem:1"}},
	} {
		have := fit(NodeStatus{Shape: s, Limits: pod, Cgroup: all, Gres: wanted}, told(t), true, cluster(t, "24.11", "GresTypes="+types))
		assert.Equal(t, want, have)
	}
}

// TestRefusedGres: slurmd found fewer than it was to register, until gres.conf says where they are.
func TestRefusedGres(t *testing.T) {
	l, _ := play(slurmdLife(), registered...)
	l.gresConf = "/run/slurmlet/gres.conf"
	l, _ = play(l, answered{node: record(noGPUs)})
	assert.Equal(t, `slurmctld has refused what slurmd registered: gres/gpu count reported lower than configured (0 < 2): the cluster's gres.conf must say "Include /run/slurmlet/gres.conf"`, l.reason)
	l, actions := play(l, timerFired{}, answered{node: record(foundGPUs)})
	assert.Equal(t, []action{resumeRecord{l.question}}, actions)
}
