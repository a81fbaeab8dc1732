//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// TestPodsOfTheSandbox: what a user does to the pods of a cluster by hand.
func TestPodsOfTheSandbox(t *testing.T) {
	t.Parallel()
	const name = "e2e-pods"
	try := func(input string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), binary(), args...)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	does := func(args ...string) string {
		out, err := try("", append([]string{args[0], "-name", name}, args[1:]...)...)
		require.NoError(t, err, "%s: %s", args, out)
		return out
	}
	t.Cleanup(func() { assert.NoError(t, sandbox.Down(name)) })
	does("up", "-no-limits", "-nodes", "0", "-with", strconv.Itoa(os.Getpid()))
	does("create", "node-0")
	assert.Equal(t, "node-0\n", does("exec", "-u", "alice", "login", "srun", "hostname"))
	roles := []string{"mariadb", "slurmdbd", "slurmctld", "slurmrestd", "login", "node-0"}
	for _, pod := range slices.Backward(roles) {
		does("delete", pod)
		_, err := try("", "exec", "-name", name, pod, "true")
		require.Error(t, err, pod)
	}
	for _, pod := range roles {
		assert.Contains(t, does("create", pod), "pod "+pod+" is created, and ", pod)
	}
	for says, pod := range map[string]string{"cannot create pod login: it exists": "login", "up makes mariadb": "node-64"} {
		out, err := try("", "create", "-name", name, pod)
		assert.Error(t, err)
		assert.Contains(t, out, says)
	}
	assert.Equal(t, "elastic-0\n", does("exec", "-u", "alice", "login", "srun", "-p", sandbox.ElasticSet, "hostname"))
	until(t, "sacct tells of the job before, out of the database, and of the one after", func() (bool, string) {
		out, err := try("", "exec", "-name", name, "login", "sacct", "-aXnP", "-o", "jobid,state")
		return err == nil && out == "1|COMPLETED\n2|COMPLETED\n", out // slurmdbd may have begun to listen or not
	})

	t.Run("a pod that ends at once", func(t *testing.T) {
		for want, spec := range map[string]string{
			"pod bad-0 is created, but its container has ended with exit status 78": `{"name": "bad-0", "args": ["sh", "-c", "echo no such setting; exit 78"]}`,
			"pod bad-1 is created, but its container has ended":                     `{"name": "bad-1", "args": ["sh", "-c", "echo no such setting; exit 78"], "restart": "Always"}`,
		} {
			out, err := try(spec, "create", "-name", name, "-watch", "1m")
			assert.Error(t, err, want)
			assert.Contains(t, out, want)
			assert.Contains(t, out, "no such setting", want)
		}
		out, err := try(`{"name": "good", "args": ["true"]}`, "create", "-name", name, "-watch", "1m")
		assert.NoError(t, err)
		assert.Contains(t, out, "pod good is created, and its container has ended with exit status 0\n")
	})
	t.Run("capabilities", func(t *testing.T) {
		effective := func(name string) string { return does("exec", name, "grep", "CapEff", "/proc/1/status") }
		for _, spec := range []string{
			`{"name": "usual", "args": ["sleep", "inf"]}`,
			`{"name": "more", "args": ["sleep", "inf"], "addCapabilities": ["CAP_SYS_NICE"]}`,
			`{"name": "alone", "args": ["sleep", "inf"], "capabilities": ["CAP_SYS_NICE"]}`,
		} {
			out, err := try(spec, "create", "-name", name)
			assert.NoError(t, err, out)
			assert.Contains(t, out, "is created, and runs\n")
		}
		assert.Equal(t, "CapEff:\t00000000a80425fb\n", effective("usual"))
		assert.Equal(t, "CapEff:\t00000000a88425fb\n", effective("more"))
		assert.Equal(t, "CapEff:\t0000000000800000\n", effective("alone"))
		out, err := try(`{"name": "bad-3", "args": ["true"], "addCapabilities": ["SYS_NICE"]}`, "create", "-name", name)
		assert.Error(t, err)
		assert.Contains(t, out, `capability "SYS_NICE": want CAP_ and a name, as in CAP_SYS_ADMIN`)
	})
}
