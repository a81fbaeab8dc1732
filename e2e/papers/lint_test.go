package papers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// product is the module whose rooms the rules are for.
const product = "github.com/slurmlet/slurmlet"

// rules are what .golangci.yml forbids.
type rules struct {
	Linters struct {
		Settings struct {
			Depguard struct {
				Rules map[string]struct {
					Files []string `yaml:"files"`
					Deny  []struct {
						Package string `yaml:"pkg"`
						Desc    string `yaml:"desc"`
					} `yaml:"deny"`
				} `yaml:"rules"`
			} `yaml:"depguard"`
			Forbidigo struct {
				Forbid []struct {
					Pattern string `yaml:"pattern"`
					Message string `yaml:"msg"`
				} `yaml:"forbid"`
			} `yaml:"forbidigo"`
		} `yaml:"settings"`
	} `yaml:"linters"`
}

// breach is a file that breaks a rule, and what the linter must say of it.
type breach struct{ file, text, says string }

// TestLintRules: for each import that .golangci.yml denies, in each room that the rule is for, and for each function that it
// forbids, a file that breaks the rule is found.
func TestLintRules(t *testing.T) {
	linter := os.Getenv("LINT")
	if linter == "" {
		t.Skip("LINT is not set: run make lint")
	}
	config, err := os.ReadFile("../../.golangci.yml")
	require.NoError(t, err)
	var r rules
	require.NoError(t, yaml.Unmarshal(config, &r))
	breaches := append(r.imports(t), r.calls(t)...)
	require.Greater(t, len(breaches), 50)

	dir := t.TempDir()
	write(t, dir, ".golangci.yml", string(config))
	write(t, dir, "go.mod", "module "+product+"\n\ngo 1.26\n\nrequire (\n"+each(strangers, "\t%s v0.0.0\n")+")\n\nreplace (\n"+each(strangers, "\t%[1]s => ./strangers/%[1]s\n")+")\n")
	for _, stranger := range strangers {
		write(t, dir, path.Join("strangers", stranger, "go.mod"), "module "+stranger+"\n")
		write(t, dir, path.Join("strangers", stranger, "stranger.go"), "package stranger\n")
	}
	write(t, dir, "agent/agent.go", "package agent\n")
	write(t, dir, "internal/room/room.go", "package room\n")
	for _, b := range breaches {
		write(t, dir, b.file, b.text)
	}
	found := lint(t, linter, dir)
	for _, b := range breaches {
		assert.True(t, slices.ContainsFunc(found[b.file], func(said string) bool { return strings.Contains(said, b.says) }),
			"%s\n%s\nwanted: %s\nsaid: %q", b.file, b.text, b.says, found[b.file])
	}
}

// strangers are the modules of others that the rules name.
var strangers = []string{"k8s.io/api", "github.com/prometheus/common", "golang.org/x/sys", "github.com/docker/cli", "github.com/google/go-containerregistry"}

// imports breaks each rule of depguard once for each folder and each denied package.
func (r rules) imports(t *testing.T) (all []breach) {
	for name, rule := range r.Linters.Settings.Depguard.Rules {
		for _, glob := range rule.Files {
			if strings.HasPrefix(glob, "!") {
				continue
			}
			room := strings.NewReplacer("$all", "cmd/slurmlet", "/*.go", "", "**", "below").Replace(strings.TrimPrefix(glob, "**/"))
			for i, deny := range rule.Deny {
				imported := denied(deny.Package)
				require.NotEqual(t, product+"/"+room, imported)
				all = append(all, breach{
					file: fmt.Sprintf("%s/%s%d.go", room, name, i),
					text: fmt.Sprintf("package %s\n\nimport _ %q\n", path.Base(room), imported),
					says: fmt.Sprintf("import '%s' is not allowed from list '%s'", imported, name),
				})
			}
		}
	}
	return all
}

// denied is a package that a rule means.
func denied(pkg string) string {
	switch pkg {
	case product + "/agent":
		return pkg
	case product + "/internal":
		return pkg + "/room"
	case product + "/cgroup":
		return pkg
	}
	for _, stranger := range strangers {
		if strings.HasPrefix(stranger, pkg) {
			return stranger
		}
	}
	return strings.TrimSuffix(pkg, "$")
}

// calls breaks each rule of forbidigo.
func (r rules) calls(t *testing.T) (all []breach) {
	for i, forbid := range r.Linters.Settings.Forbidigo.Forbid {
		body := map[string]string{
			`^time\.Sleep$`: "time.Sleep(1)",
			`^slog\.(Debug|Info|Warn|Error|Log|LogAttrs|Default)$`:              "slog.Info(\"\")",
			`^time\.(Now|Since|Until|After|AfterFunc|Tick|NewTimer|NewTicker)$`: "_ = time.Now()",
		}[forbid.Pattern]
		require.NotEmpty(t, body, "a rule that this test does not know: %s", forbid.Pattern)
		pkg, _, _ := strings.Cut(strings.TrimPrefix(body, "_ = "), ".")
		all = append(all, breach{
			file: fmt.Sprintf("internal/lifecycle/call%d.go", i),
			text: fmt.Sprintf("package lifecycle\n\nimport %q\n\nfunc call%d() { %s }\n", map[string]string{"time": "time", "slog": "log/slog"}[pkg], i, body),
			says: forbid.Message,
		})
	}
	return all
}

// lint returns what the linter says of each file.
func lint(t *testing.T, linter, dir string) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), linter, "run", "--enable-only", "depguard,forbidigo", "--output.json.path", "stdout", "--show-stats=false",
		"--max-issues-per-linter", "0", "--max-same-issues", "0", "./...")
	var out, said bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod"), &out, &said
	_ = cmd.Run() // 1 when it finds something
	var report struct {
		Issues []struct {
			Text string
			Pos  struct{ Filename string }
		}
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &report), "%s%s", out.String(), said.String())
	found := map[string][]string{}
	for _, issue := range report.Issues {
		found[issue.Pos.Filename] = append(found[issue.Pos.Filename], issue.Text)
	}
	return found
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

func each(names []string, format string) string {
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, format, name)
	}
	return b.String()
}
