//go:build e2e

package hooks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// root is the repository's.
const root = "../../.."

func decode(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}

// TestAction runs the steps of action.yml as GitHub does, but those that are
// actions of others.
func TestAction(t *testing.T) {
	var action struct {
		Inputs map[string]struct {
			Default string `yaml:"default"`
		} `yaml:"inputs"`
		Runs struct {
			Steps []struct {
				Name, Run string
				Env       map[string]string
			} `yaml:"steps"`
		} `yaml:"runs"`
	}
	decode(t, "action.yml", &action)
	repository, err := filepath.Abs(root)
	require.NoError(t, err)
	temporary := t.TempDir()
	input := regexp.MustCompile(`\$\{\{ inputs\.([a-z-]+) \}\}`)
	for _, c := range []struct {
		name, paths string
		succeeds    bool
		says        string
	}{
		{"a good directory", "e2e/ships/hooks/testdata/good\n", true, ""},
		{"a bad file among two", "e2e/ships/hooks/testdata/good\ne2e/hooks/testdata/bad/slurm.conf\n", false, "::error file=e2e/ships/hooks/testdata/bad/slurm.conf,line=4,"},
	} {
		t.Run(c.name, func(t *testing.T) {
			given := map[string]string{"paths": c.paths, "slurm-version": "24.11"}
			var out []byte
			var err error
			for _, step := range action.Runs.Steps {
				if step.Run == "" || err != nil {
					continue
				}
				cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
				cmd.Dir = root
				cmd.Env = append(os.Environ(), "GITHUB_ACTION_PATH="+repository, "RUNNER_TEMP="+temporary)
				for name, value := range step.Env {
					value = input.ReplaceAllStringFunc(value, func(s string) string {
						name := input.FindStringSubmatch(s)[1]
						require.Contains(t, action.Inputs, name)
						return given[name]
					})
					cmd.Env = append(cmd.Env, name+"="+value)
				}
				out, err = cmd.CombinedOutput()
			}
			assert.Equal(t, c.succeeds, err == nil, "%v: %s", err, out)
			assert.Contains(t, string(out), c.says)
		})
	}
}

// TestHook has pre-commit install the hook from this repository and run it.
func TestHook(t *testing.T) {
	require.NoError(t, parts.Install(t.Context(), t.Logf, "hooks"))
	repository, err := filepath.Abs(root)
	require.NoError(t, err)
	head, err := exec.CommandContext(t.Context(), "git", "rev-parse", "HEAD").Output()
	require.NoError(t, err)
	config := fmt.Sprintf("repos: [{repo: %q, rev: %s, hooks: [{id: slurmlet-check, verbose: true}]}]\n", repository, strings.TrimSpace(string(head)))
	home := t.TempDir()
	for name, succeeds := range map[string]bool{"good": true, "bad": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			run := func(name string, args ...string) (string, error) {
				cmd := exec.CommandContext(t.Context(), name, args...)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "PRE_COMMIT_HOME="+home, "GOFLAGS=-modcacherw")
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			out, err := run("git", "init", "--quiet")
			require.NoError(t, err, out)
			require.NoError(t, os.CopyFS(filepath.Join(dir, "etc"), os.DirFS(filepath.Join("testdata", name))))
			for name, text := range map[string]string{".pre-commit-config.yaml": config, "notes.txt": "RealMemory=64G\n"} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
			}
			out, err = run("git", "add", ".")
			require.NoError(t, err, out)
			out, err = run("pre-commit", "run", "--all-files")
			assert.Equal(t, succeeds, err == nil, out)
			if !succeeds {
				assert.Contains(t, out, "etc/slurm.conf:4:")
			}
			assert.NotContains(t, out, "notes.txt")
		})
	}
}

// TestHookTakesEveryFile: the files of Slurm's family, but two with names that Kubernetes has too.
func TestHookTakesEveryFile(t *testing.T) {
	var hooks []struct{ ID, Files string }
	decode(t, ".pre-commit-hooks.yaml", &hooks)
	require.Len(t, hooks, 1)
	files := regexp.MustCompile(hooks[0].Files)
	for _, kind := range slurmconf.Kinds {
		left := kind == slurmconf.NamespaceYAML || kind == slurmconf.ResourcesYAML
		assert.Equal(t, !left, files.MatchString("etc/slurm/"+string(kind)), kind)
	}
	assert.False(t, files.MatchString("etc/myslurm.conf"))
}

// TestWorkflows has actionlint read the workflows, with the action that they use.
func TestWorkflows(t *testing.T) {
	actionlint := os.Getenv("ACTIONLINT")
	if actionlint == "" {
		t.Fatal("ACTIONLINT is not set: run make hooks")
	}
	cmd := exec.CommandContext(t.Context(), actionlint, "-no-color")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err, strings.TrimSpace(string(out)))
}
