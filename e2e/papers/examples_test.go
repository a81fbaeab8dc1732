package papers

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// queried is a metric of ours in a query, or a label of one.
var queried = regexp.MustCompile(`\bslurm(?:let)?_[a-z0-9_]+`)

// TestYAML: each block of YAML can be read, and its queries name metrics that the agents have.
func TestYAML(t *testing.T) {
	known := metricNames(t)
	for _, p := range readAll(t) {
		for _, b := range p.Blocks {
			if b.Language != "yaml" {
				continue
			}
			for d := yaml.NewDecoder(strings.NewReader(b.Text)); ; {
				var v any
				if err := d.Decode(&v); errors.Is(err, io.EOF) {
					break
				} else if !assert.NoError(t, err, "%s", b) {
					break
				}
			}
			for _, at := range queried.FindAllStringIndex(b.Text, -1) {
				name, next := b.Text[at[0]:at[1]], b.Text[at[1]:]
				if !strings.HasPrefix(next, "=") && !strings.HasPrefix(next, "!") { // else it is a label
					assert.True(t, known[name], "%s: no agent has the metric %s", b, name)
				}
			}
		}
	}
}

// metricNames are those in the golden files of the agents' metrics.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, dir := range []string{"agent/testdata/metrics", "internal/slurmd/usage/testdata", "internal/slurmctld/clusterview/series/testdata"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.prom"))
		require.NoError(t, err)
		require.NotEmpty(t, files, dir)
		for _, file := range files {
			text, err := os.Open(file)
			require.NoError(t, err)
			for lines := bufio.NewScanner(text); lines.Scan(); {
				if words := strings.Fields(lines.Text()); len(words) == 4 && words[1] == "TYPE" {
					names[words[2]] = true
				}
			}
			require.NoError(t, text.Close())
		}
	}
	return names
}

// TestInstallPages: the page of each kind of Kubernetes has all steps, and what they print.
func TestInstallPages(t *testing.T) {
	for _, name := range []string{"kind", "eks", "gke", "aks", "openshift", "on-premises"} {
		text, err := os.ReadFile(filepath.Join(root, "docs", "install", name+".md"))
		require.NoError(t, err)
		for _, step := range []string{"StorageClass", "registry", "cgroup", "RuntimeClass", "helm install slurm charts/slurm", " srun -N2 hostname", "print"} {
			assert.Contains(t, string(text), step, name)
		}
	}
}
