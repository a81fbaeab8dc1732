package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const fromChart = "ClusterName=t\nSlurmctldHost=ctl\nGresTypes=gpu\nNodeSet=cpu Feature=cpu\nPartitionName=cpu Nodes=cpu Default=YES\n"

// configMap is one with a slurm.conf, whose first line is the seventh, and a gres.conf.
func configMap(conf string) string {
	indented := "    " + strings.ReplaceAll(strings.TrimSuffix(conf, "\n"), "\n", "\n    ") + "\n"
	return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: slurm}\ndata:\n  slurm.conf: |\n" + indented +
		"  gres.conf: |\n    # Every slurmd's agent writes it.\n    Include /run/slurmlet/gres.conf\n"
}

// Other objects, and a slurm.conf as charts/slurm makes it: what slurmctld's agent adds to it is
// known.
func TestCheckOfManifests(t *testing.T) {
	t.Parallel()
	service := "---\napiVersion: v1\nkind: Service\nmetadata: {name: slurm}\n"
	secret := "---\napiVersion: v1\nkind: Secret\nmetadata: {name: dbd}\nstringData:\n  slurmdbd.conf: |\n    DbdHost=d\n    StorageTyp=x\n"
	elastic := "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: sets}\ndata:\n  burst.json: |\n" +
		`    {"cpuLimit":"4","features":["burst"],"idleSeconds":600,"memoryLimit":"16Gi","min":0,"nodes":"burst-[0-9]"}` + "\n"
	for _, c := range []struct {
		name, stdin string
		args        []string
		code        int
		want        string
	}{
		{"a chart's", service + configMap(fromChart), nil, 0, ""},
		{"a fault, on its line", service + configMap(fromChart+"KilWait=1\n"), nil, 1, "stdin:16: error: slurm.conf of ConfigMap slurm: KilWait is not a key of slurm.conf: want KillWait\n"},
		{
			"a list, as kubectl prints it", "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimPrefix(configMap(fromChart+"X=1\n"), "---\n"), "\n", "\n  ") + "\n", nil, 1,
			"stdin:14: error: slurm.conf of ConfigMap slurm: X is not a key of slurm.conf\n",
		},
		{
			"JSON", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"slurm"},"data":{"slurm.conf":"X=1\nClusterName=t\nSlurmctldHost=h\nPartitionName=p Nodes=ALL\n"}}`, nil, 1,
			"stdin:1: error: slurm.conf:1 of ConfigMap slurm: X is not a key of slurm.conf\n",
		},
		{
			"a Secret's slurmdbd.conf", secret, nil, 1,
			"stdin:6: error: slurmdbd.conf of Secret dbd: there is no StorageType: want StorageType=accounting_storage/mysql\n" +
				"stdin:8: error: slurmdbd.conf of Secret dbd: StorageTyp is not a key of slurmdbd.conf: want StorageType\n",
		},
		{"elastic sets", elastic + configMap(fromChart+"PartitionName=burst Nodes=ALL SuspendTime=600\n"), nil, 0, ""},
		{"no configuration", service, nil, 1, "stdin: error: no ConfigMap and no Secret has a slurm.conf or slurmdbd.conf\n"},
		{"slurm.conf", good + "X=1\n", nil, 1, "stdin:5: error: X is not a key of slurm.conf\n"},
		{
			"slurm.conf without the agent", "ClusterName=t\nSlurmctldHost=h\nPartitionName=p Nodes=ALL\n", nil, 0,
			"stdin: warning: there are no nodes, and none can register: MaxNodeCount is not set: want MaxNodeCount=number, or NodeName lines\n",
		},
		{"slurm.conf with the agent", "ClusterName=t\nSlurmctldHost=h\nPartitionName=p Nodes=ALL\n", []string{"-agent"}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			have := surroundings{dir: "/nonexistent", stdin: c.stdin}.run(t, append(append([]string{"check"}, c.args...), "-")...)
			assert.Equal(t, c.want, have.stdout)
			assert.Equal(t, c.code, have.code, have.stderr)
		})
	}
}

// A manifest's file, and a directory with what the agent adds.
func TestCheckOfFilesOfPods(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	manifest := filepath.Join(dir, "cm.yaml")
	require.NoError(t, os.WriteFile(manifest, []byte(configMap(fromChart+"X=1\n")), 0o644))
	have := surroundings{dir: "/nonexistent"}.run(t, "check", manifest)
	assert.Equal(t, manifest+":12: error: slurm.conf of ConfigMap slurm: X is not a key of slurm.conf\n", have.stdout)
	conf := filepath.Join(dir, "slurm.conf")
	require.NoError(t, os.WriteFile(conf, []byte(fromChart), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gres.conf"), []byte("Include /run/slurmlet/gres.conf\n"), 0o644))
	for _, name := range []string{dir, conf} {
		have = surroundings{dir: "/nonexistent"}.run(t, "check", "-agent", name)
		assert.Empty(t, have.stdout, name)
		assert.Zero(t, have.code, name)
	}
	assert.Equal(t, 1, surroundings{dir: "/nonexistent"}.run(t, "check", dir).code, "no agent, no gres.conf")
}
