package pod

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

func TestBundle(t *testing.T) {
	for name, spec := range map[string]Spec{
		"plain": {Name: "login", Args: []string{"sleep", "infinity"}},
		"node": {
			Name: "node-0", Role: "slurmd", Args: []string{"/usr/local/bin/slurmlet", "slurmd"},
			Env: map[string]string{"SLURMLET_NODE_NAME": "node-0", "SLURMLET_GRACE_PERIOD": "30s"},
			CPU: 1.5, CPUSet: "1-2", Memory: 512 << 20, OOMGroup: true, OOMScoreAdj: -997,
			Devices: []Device{{"/dev/nvidia3", 195, 3}, {"/dev/nvidia-caps/nvidia-cap12", 237, 12}},
			Volumes: []Volume{
				{Name: "spool", Path: "/var/spool/slurmd"},
				{Name: "slurmlet", Path: "/usr/local/bin/slurmlet", HostPath: "/opt/bin/slurmlet"},
				{Name: "conf", Path: "/etc/slurm", ReadOnly: true},
			},
		},
		"bare": {
			Name: "a", Args: []string{"true"}, CgroupReadOnly: true, Capabilities: []string{}, Memory: 1 << 20, Swap: 1 << 20,
		},
	} {
		t.Run(name, func(t *testing.T) {
			place := Place{
				Root: "/p/root", Netns: "/n/ns", Cgroup: "/pods/x", Hosts: "/h/hosts", Resolv: "/h/resolv.conf",
				Volumes: map[string]string{"spool": "/v/spool", "slurmlet": "/p/host-slurmlet/slurmlet", "conf": "/v/conf"},
			}
			got, err := json.MarshalIndent(Bundle(spec, place), "", "\t")
			require.NoError(t, err)
			golden := filepath.Join("testdata", name+".json")
			if *update {
				require.NoError(t, os.WriteFile(golden, append(got, '\n'), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), string(got)+"\n")
		})
	}
}

func TestQuota(t *testing.T) {
	for cpu, quota := range map[float64]int64{0.01: 1000, 0.1: 10_000, 0.5: 50_000, 1: 100_000, 1.5: 150_000, 2.001: 200_100} {
		assert.Equal(t, quota, *resources(Spec{CPU: cpu}).CPU.Quota, "%v CPUs", cpu)
	}
	assert.Nil(t, resources(Spec{}).CPU.Quota)
}

func TestHostCgroupNamespace(t *testing.T) {
	own := specs.LinuxNamespace{Type: specs.CgroupNamespace}
	assert.Contains(t, namespaces(Spec{}, Place{}), own)
	assert.NotContains(t, namespaces(Spec{HostCgroup: true}, Place{}), own)
}
