package commands

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/reference/kubectl-slurm.md anew")

const page = "../../docs/reference/kubectl-slurm.md"

// TestReference: the page has each command as its help has it.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Commands of kubectl slurm\n\nWhat `kubectl slurm COMMAND --help` prints. [kubectl slurm](../run/kubectl-slurm.md) says how to\ninstall it, and which rights it needs. This command writes the page:\n`go test ./kubectl-slurm/commands -run TestReference -update`.\n")
	for _, c := range New("").Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n`kubectl slurm %s`\n\n%s\n", c.Name(), c.Use, wrapped(c.Long))
		if c.Example != "" {
			fmt.Fprintf(&b, "\n```text\n%s\n```\n", strings.ReplaceAll(strings.TrimSpace(c.Example), "\n  ", "\n"))
		}
		rows := ""
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { rows += row(f) })
		if rows != "" {
			b.WriteString("\n| flag | meaning |\n|---|---|\n" + rows)
		}
	}
	b.WriteString("\n## Flags of every command\nThese are kubectl's, but for `--cluster`, which names a cluster of Slurm's.\n\n| flag | meaning |\n|---|---|\n")
	New("").PersistentFlags().VisitAll(func(f *pflag.Flag) { b.WriteString(row(f)) })
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(b.String()), 0o644))
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Equal(t, b.String(), string(text))
}

func row(f *pflag.Flag) string {
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	return fmt.Sprintf("| `%s` | %s |\n", name, f.Usage)
}

// wrapped breaks lines as the papers want them.
func wrapped(text string) string {
	var paragraphs []string
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		line, lines := "", []string{}
		for word := range strings.FieldsSeq(paragraph) {
			if line != "" && len(line)+1+len(word) > 100 {
				lines, line = append(lines, line), ""
			}
			line = strings.TrimSpace(line + " " + word)
		}
		paragraphs = append(paragraphs, strings.Join(append(lines, line), "\n"))
	}
	return strings.Join(paragraphs, "\n\n")
}

// TestFaults: a wrong word is answered with what is wrong, and what may have been meant.
func TestFaults(t *testing.T) {
	for _, one := range []struct {
		args, says string
	}{
		{"statsu", "Did you mean this?\n\tstatus"},
		{"why", "accepts 1 arg(s), received 0"},
		{"drain node-0", `required flag(s) "reason" not set`},
		{"status --kubeconfig /nowhere", "cannot use the kubeconfig"},
		{"login --kubeconfig /nowhere a b", "want one user"},
		{"login -- sh --kubeconfig /nowhere", "invalid configuration"},
		{"login -x", "unknown shorthand flag"},
		{"login .x", `".x" is no user's name`},
	} {
		t.Run(one.args, func(t *testing.T) {
			t.Setenv("KUBECONFIG", "/nowhere")
			root := New("")
			root.SetArgs(strings.Fields(one.args))
			root.SetOut(&bytes.Buffer{})
			root.SetErr(&bytes.Buffer{})
			err := root.ExecuteContext(t.Context())
			require.Error(t, err)
			assert.Contains(t, err.Error(), one.says)
		})
	}
}

func TestDidYouMean(t *testing.T) {
	names := []string{"slurm-cpu-0", "slurm-cpu-1", "slurm-gpu-0", "4711", "4712"}
	for word, want := range map[string]string{
		"slurm-cpu-2": " Did you mean slurm-cpu-0, slurm-cpu-1, slurm-gpu-0?", "cpu-0": " Did you mean slurm-cpu-0?",
		"4713": " Did you mean 4711, 4712?", "login": "", "": " Did you mean 4711, 4712, slurm-cpu-0?",
	} {
		assert.Equal(t, want, didYouMean(word, names), word)
	}
}

// TestPlain: what others have written moves no cursor.
func TestPlain(t *testing.T) {
	var b bytes.Buffer
	n, err := plain{&b}.Write([]byte("a\x1b[31mb\tc\n\u009bx\x7f"))
	require.NoError(t, err)
	assert.Equal(t, 14, n)
	assert.Equal(t, "a�[31mb\tc\n�x�", b.String())
	assert.Equal(t, "disk  broken", oneLine("disk \nbroken "))
}

func TestReadable(t *testing.T) {
	assert.Equal(t, "2026 INFO slurmctld: hello a=1 b=x\n", readable(`{"time":"2026","level":"INFO","source":"slurmctld","msg":"hello","b":"x","a":1}`+"\n"))
	assert.Equal(t, "no object\n", readable("no object\n"))
}

// TestCompletion: kubectl completes verbs and roles by what cobra says.
func TestCompletion(t *testing.T) {
	var out bytes.Buffer
	root := New("")
	root.SetOut(&out)
	root.SetArgs([]string{cobra.ShellCompRequestCmd, "st"})
	require.NoError(t, root.ExecuteContext(t.Context()))
	assert.Contains(t, out.String(), "status\t")
}
