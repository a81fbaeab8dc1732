package papers

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// workflow is one of .github/workflows, as far as it names programs of others and secrets.
type workflow struct {
	Jobs map[string]job `yaml:"jobs"`
}

type job struct {
	Uses        string    `yaml:"uses"`
	Environment string    `yaml:"environment"`
	Env         yaml.Node `yaml:"env"`
	Container   container `yaml:"container"`
	Steps       []step    `yaml:"steps"`
}

type step struct {
	Uses string `yaml:"uses"`
	text string // all of it
}

func (s *step) UnmarshalYAML(n *yaml.Node) error {
	text, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	type plain step
	s.text = string(text)
	return n.Decode((*plain)(s))
}

type container struct {
	Image   string `yaml:"image"`
	Options string `yaml:"options"`
}

var (
	byCommit = regexp.MustCompile(`^[^@]+@[0-9a-f]{40}$`)
	byDigest = regexp.MustCompile(`^[^@]+@sha256:[0-9a-f]{64}$`)
	secret   = regexp.MustCompile(`secrets\.([A-Z_]+)`)
)

func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	paths, err := filepath.Glob("../../.github/workflows/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	all := map[string]workflow{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var w workflow
		require.NoError(t, yaml.Unmarshal(text, &w), path)
		all[filepath.Base(path)] = w
	}
	return all
}

// TestWorkflowsNamePrograms: a tag of an action or an image can become another program.
func TestWorkflowsNamePrograms(t *testing.T) {
	for name, w := range workflows(t) {
		for title, j := range w.Jobs {
			if j.Container.Image != "" {
				assert.Regexp(t, byDigest, j.Container.Image, "%s: container of %s", name, title)
			}
			for _, s := range j.Steps {
				if s.Uses != "" && !strings.HasPrefix(s.Uses, "./") {
					assert.Regexp(t, byCommit, s.Uses, "%s: a step of %s", name, title)
				}
			}
		}
	}
}

// TestSecretsAreApart: a step that builds has the sources of hundreds of modules and Debian's packages run as root,
// so no job with such rights has a secret. The key is in an environment, which GitHub gives to one job.
func TestSecretsAreApart(t *testing.T) {
	release := workflows(t)["release.yml"]
	holders := map[string][]string{} // jobs, by secret
	for title, j := range release.Jobs {
		assert.NotContains(t, nodeText(t, j.Env), "secrets.", "job %s: every step of it has the secret", title)
		for _, s := range j.Steps {
			for _, m := range secret.FindAllStringSubmatch(s.text, -1) {
				holders[m[1]] = append(holders[m[1]], title)
				assert.NotContains(t, j.Container.Options, "--privileged", "job %s has the secret %s", title, m[1])
				assert.NotEmpty(t, j.Environment, "job %s has the secret %s", title, m[1])
			}
		}
	}
	assert.Equal(t, []string{"COSIGN_PASSWORD", "COSIGN_PRIVATE_KEY", "REGISTRY_PASSWORD", "REGISTRY_USER"}, slices.Sorted(maps.Keys(holders)))
	for name, titles := range holders {
		assert.Len(t, titles, 1, "steps with the secret %s", name)
	}
	assert.NotEqual(t, holders["COSIGN_PRIVATE_KEY"], holders["REGISTRY_PASSWORD"], "one job could sign and push")
	assert.NotEqual(t, release.Jobs["sign"].Environment, release.Jobs["push"].Environment)
}

func nodeText(t *testing.T, n yaml.Node) string {
	t.Helper()
	if n.IsZero() {
		return ""
	}
	text, err := yaml.Marshal(&n)
	require.NoError(t, err)
	return string(text)
}
