package inject

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files anew")

// settings are those of the tests.
var settings = Settings{
	Image: "registry.example/slurmlet/agent:v1", PullPolicy: corev1.PullIfNotPresent,
	Cluster: "slurm", Peers: "slurmlet.slurmlet.svc:443", Authority: "slurmlet-ca",
}

// TestGoldens has the pods of testdata: the file NAME.yaml is what a user writes, NAME.out.yaml what
// the API server keeps.
func TestGoldens(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, in := range files {
		name := strings.TrimSuffix(filepath.Base(in), ".in.yaml")
		t.Run(name, func(t *testing.T) {
			s := settings
			switch {
			case strings.HasPrefix(name, "image-volume"):
				s.ImageVolume = true
			case strings.HasPrefix(name, "runtime-class"):
				s.RuntimeClass = "cgroup-writable"
			case strings.HasPrefix(name, "cluster-ips"):
				s.PeersClusterIPs = []netip.Addr{netip.MustParseAddr("10.96.0.80"), netip.MustParseAddr("fd00::80")}
			}
			before := readPod(t, in)
			result, faults := Pod(before, s)
			require.Empty(t, faults)
			have, err := yaml.Marshal(golden{Did: result.Did, Pod: result.Pod})
			require.NoError(t, err)
			holds(t, filepath.Join("testdata", name+".out.yaml"), have)
			again, faults := Pod(result.Pod, s)
			require.Empty(t, faults)
			assert.Equal(t, result.Pod, again.Pod, "an injected pod stays as it is")
			assert.Empty(t, again.Did)
			assert.Equal(t, readPod(t, in), before, "the pod that came in is left alone")
		})
	}
}

// golden is a golden file.
type golden struct {
	Did []string    `json:"did"`
	Pod *corev1.Pod `json:"pod"`
}

func readPod(t *testing.T, file string) *corev1.Pod {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return parsePod(t, string(text))
}

func parsePod(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	var pod corev1.Pod
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &pod))
	return &pod
}

func holds(t *testing.T, file string, have []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, have, 0o644))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(have), "go test ./internal/inject -run TestGoldens -update writes it anew")
}
