package papers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

func readAll(t *testing.T) []Paper {
	t.Helper()
	all, err := ReadAll(root)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// TestPapers holds every Markdown file of the repository to its form and its names.
func TestPapers(t *testing.T) {
	names, err := NamesOf(root)
	require.NoError(t, err)
	for _, p := range readAll(t) {
		t.Run(p.Path, func(t *testing.T) {
			assert.Empty(t, p.Long(), "lines are longer than %d characters", width)
			assert.Empty(t, p.Indented(), "blocks of code have no fence")
			assert.Empty(t, names.Unknown(p), "names that the code does not have")
			broken, err := p.BrokenLinks(root)
			require.NoError(t, err)
			assert.Empty(t, broken, "links that lead nowhere")
		})
	}
}

func TestTheREADMEIsShort(t *testing.T) {
	p, err := Read(root, "README.md")
	require.NoError(t, err)
	assert.LessOrEqual(t, len(p.Lines), 120)
}

// TestCommands parses every block of commands, and runs those that need no cluster.
func TestCommands(t *testing.T) {
	programs := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", programs, "./cmd/slurmlet")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, p := range readAll(t) {
		for _, b := range p.Blocks {
			if b.Run == "" {
				continue
			}
			t.Run(b.String(), func(t *testing.T) {
				parse := exec.CommandContext(t.Context(), "bash", "-n")
				parse.Stdin = strings.NewReader(b.Text)
				out, err := parse.CombinedOutput()
				require.NoError(t, err, "%s", out)
				if b.Run == "check" {
					runHere(t, b, programs)
				}
			})
		}
	}
}

// runHere runs a block in an empty directory and compares what it prints.
func runHere(t *testing.T, b Block, programs string) {
	cmd := b.Command(t.Context())
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	if b.Output != nil {
		assert.Equal(t, *b.Output, string(out))
	}
}

// TestInstallsRender has helm render what each `helm install` and `helm upgrade`
// of the papers would install.
func TestInstallsRender(t *testing.T) {
	helm := os.Getenv("HELM")
	if helm == "" {
		t.Skip("HELM is not set: run make charts")
	}
	rendered := 0
	for _, p := range readAll(t) {
		for _, b := range p.Blocks {
			for _, args := range b.Installs() {
				rendered++
				t.Run(b.String()+" "+strings.Join(args, " "), func(t *testing.T) {
					out, err := render(t.Context(), helm, args)
					require.NoError(t, err, "%s", out)
					assert.Contains(t, string(out), "kind: StatefulSet")
				})
			}
		}
	}
	assert.Greater(t, rendered, 3)
}

func render(ctx context.Context, helm string, args []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, helm, append([]string{"template"}, args...)...)
	cmd.Dir = root
	return cmd.CombinedOutput()
}

// TestBlocks is about the marks of blocks.
func TestBlocks(t *testing.T) {
	for name, c := range map[string]struct {
		text, err string
	}{
		"marked":            {"```sh run=sandbox\nmake up\n```\n", ""},
		"with a reason":     {"```sh run=none because=\"it needs Docker\"\ndocker ps\n```\n", ""},
		"with its output":   {"```sh run=check\necho a\n```\n\n```text output\na\n```\n", ""},
		"another language":  {"```yaml\na: 1\n```\n", ""},
		"no language":       {"```\nmake up\n```\n", "x.md:1: the block has no language"},
		"no mark":           {"```sh\nmake up\n```\n", `x.md:1: cannot use "sh"`},
		"an unknown mark":   {"```sh run=later\nmake up\n```\n", `x.md:1: cannot use "sh run=later"`},
		"no reason":         {"```sh run=none\nmake up\n```\n", "belongs to run=none"},
		"a reason too many": {"```sh run=kube because=\"x\"\nmake up\n```\n", "belongs to run=none"},
		"console":           {"```console\n$ make up\n```\n", "want sh, with run="},
		"no end":            {"```sh run=check\nmake up\n", "x.md:1: the block has no end"},
		"output alone":      {"```text output\na\n```\n", "x.md:1: output follows no block of commands"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := paper(t, c.text)
			if c.err == "" {
				require.NoError(t, err)
				assert.NotEmpty(t, p.Blocks)
				return
			}
			require.ErrorContains(t, err, c.err)
		})
	}
}

// paper is x.md with this text, in a tree with a Makefile, a test and a folder.
func paper(t *testing.T, text string) (Paper, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"x.md": text, "Makefile": "up: build ## it\n\techo\n", "agent/a_test.go": "func TestOne(t *testing.T) {\n", "agent/a.go": "// SLURMLET_ONE\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	p, err := Read(dir, "x.md")
	if err != nil {
		return p, err
	}
	return p, check(p, dir)
}

// check is what TestPapers asks, as an error.
func check(p Paper, dir string) error {
	names, err := NamesOf(dir)
	if err != nil {
		return err
	}
	broken, err := p.BrokenLinks(dir)
	if err != nil {
		return err
	}
	for _, faults := range [][]string{p.Long(), p.Indented(), names.Unknown(p), broken} {
		if len(faults) > 0 {
			return faultsError(faults)
		}
	}
	return nil
}

type faultsError []string

func (f faultsError) Error() string { return strings.Join(f, "\n") }

// TestProse: each rule finds what breaks it, and nothing else.
func TestProse(t *testing.T) {
	long := strings.Repeat("word ", 21)
	for name, c := range map[string]struct {
		text, err string
	}{
		"a long line":           {long, "x.md:1: 105 characters"},
		"a long row":            {"| " + long + " |", ""},
		"a long URL":            {"https://example.org/" + long, ""},
		"code without a fence":  {"Do\n\n    make up\n", "x.md:3:     make up"},
		"a list goes on":        {"- one\n\n    two\n", ""},
		"a heading":             {"# One two\n[see](#one-two)\n", ""},
		"the same heading":      {"# A `b`: c\n# A b c\n[see](x.md#a-b-c-1)\n", ""},
		"no such heading":       {"# One\n[see](#two)\n", "x.md:2: no heading #two in x.md"},
		"no such file":          {"[see](y.md)\n", "x.md:1: no file y.md"},
		"a link in two lines":   {"[see\nit](y.md)\n", "x.md:1: no file y.md"},
		"another host":          {"[see](https://example.org/y.md)\n", ""},
		"a target":              {"Run `make up`, and make sure.\n", ""},
		"no such target":        {"Run `make down`.\n", "x.md:1: no target of make down"},
		"a variable":            {"Set `SLURMLET_ONE`.\n", ""},
		"no such variable":      {"Set SLURMLET_TWO.\n", "x.md:1: no variable SLURMLET_TWO"},
		"a test":                {"`TestOne` holds it.\n", ""},
		"no such test":          {"`TestTwo` holds it.\n", "x.md:1: no test TestTwo"},
		"a path":                {"See agent/a.go.\n", ""},
		"no such path":          {"See `agent/b.go`.\n", "x.md:1: no path agent/b.go"},
		"no such path in a row": {"| `agent/b` | the loop |\n", "x.md:1: no path agent/b"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := paper(t, c.text)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
		})
	}
}

func TestInstalls(t *testing.T) {
	b := Block{Run: "kube", Text: "A=b helm upgrade slurm charts/slurm --reuse-values --reset-then-reuse-values --set a=b,c=d --wait --timeout 5m && \\\n  kubectl get pods\nhelm test slurm\n" +
		"helm install slurm charts/slurm \\\n  -f x.yaml # here\nhelm install slurm oci://registry.example/slurm\n"}
	assert.Equal(t, [][]string{{"slurm", "charts/slurm", "--set", "image.registry=kept", "--set", "image.registry=kept", "--set", "a=b,c=d"}, {"slurm", "charts/slurm", "-f", "x.yaml"}}, b.Installs())
}

// TestRooms: docs/design/README.md names every package, its arrows point down, and none leads from one place into another.
func TestRooms(t *testing.T) {
	p, err := Read(root, architecture)
	require.NoError(t, err)
	faults, err := Misplaced(root, p.Rooms())
	require.NoError(t, err)
	assert.Empty(t, faults)
	for name := range p.Rooms() {
		assert.DirExists(t, filepath.Join(root, name))
	}
}

func TestMisplaced(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"agent/a.go":                "package agent\nimport _ \"" + module + "/internal/b\"\n",
		"agent/a_test.go":           "package agent\nimport _ \"" + module + "/cmd/c\"\n",
		"internal/b/b.go":           "package b\nimport (\n\"fmt\"\n_ \"" + module + "/agent\"\n)\n",
		"internal/x/x.go":           "package x\n",
		"internal/x/y.go":           "package x\n",
		"internal/b/d/d.go":         "package d\nimport _ \"" + module + "/agent\"\n",
		"e2e/t/u/u.go":              "package u\nimport _ \"" + module + "/agent\"\n",
		"internal/slurmctld/c/c.go": "package c\nimport _ \"" + module + "/internal/slurmd/d\"\n",
		"internal/slurmd/d/d.go":    "package d\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	table := Paper{Lines: []string{"| package | |", "|---|---|", "| agent | the loop |", "| internal/b, charts | b |", "| internal/slurmctld, internal/slurmd | c |", "| e2e/t | tests |"}}
	assert.Equal(t, map[string]int{"agent": 1, "internal/b": 2, "charts": 2, "internal/slurmctld": 3, "internal/slurmd": 3, "e2e/t": 4}, table.Rooms())
	faults, err := Misplaced(dir, table.Rooms())
	require.NoError(t, err)
	assert.Equal(t, []string{
		"internal/b/b.go imports " + "agent, which docs/design/README.md has above internal/b",
		"internal/b/d/d.go imports " + "agent, which docs/design/README.md has above internal/b/d",
		"internal/slurmctld/c/c.go imports internal/slurmd/d, which runs in another place",
		"docs/design/README.md does not name internal/x",
	}, faults)
}
