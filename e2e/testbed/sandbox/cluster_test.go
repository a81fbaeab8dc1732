package sandbox

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

func TestClusterPods(t *testing.T) {
	c := Cluster{Agent: "/opt/slurmlet", Key: []byte("key"), JWTKey: []byte("jwt"), AuthorizedKey: []byte("ssh-ed25519 key\n"), SlurmConf: slurmConf, CgroupConf: cgroupConf}
	for _, spec := range []PodSpec{c.Slurmctld(), c.Login(), c.Node(0), c.Node(1), c.Accounting().Database(), c.Accounting().Slurmdbd(), c.Accounting().REST(), c.WithElastic(3).ElasticNodes()[0]} {
		t.Run(spec.Name, func(t *testing.T) {
			require.NoError(t, spec.Validate())
			got, err := json.MarshalIndent(spec, "", "\t")
			require.NoError(t, err)
			golden := filepath.Join("testdata", spec.Name+".json")
			if *update {
				require.NoError(t, os.WriteFile(golden, append(got, '\n'), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), string(got)+"\n")
		})
	}
}

// A node's pod must be its own: the next one's volumes may not be changed by it.
func TestPodsShareNothing(t *testing.T) {
	c := Cluster{SlurmConf: slurmConf}
	_ = c.Slurmctld()
	assert.NotContains(t, c.Node(0).Volumes[1].Files, "slurm.conf")
}

func TestElasticSets(t *testing.T) {
	c := Cluster{SlurmConf: slurmConf}.WithElastic(3)
	spec := c.Slurmctld()
	require.NoError(t, spec.Validate())
	assert.Equal(t, elasticSets, spec.Env["SLURMLET_ELASTIC_SETS"])
	sets := spec.Volumes[len(spec.Volumes)-1]
	assert.Equal(t, ElasticSets, sets.Name)
	assert.JSONEq(t, `{"nodes":"elastic-[0-2]","cpuLimit":"1","memoryLimit":"536870912","storageLimit":"1Gi","features":["elastic"],"weight":"100"}`, string(sets.Files["elastic.json"].Data))
	assert.Contains(t, string(spec.Volumes[1].Files["slurm.conf"].Data), "PartitionName=elastic")
}
