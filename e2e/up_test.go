//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/papers"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// TestUpAndDown runs the commands that README.md and docs/develop/sandbox.md give for the
// sandbox, in their order, as a user would: from `make up` to `make down`.
func TestUpAndDown(t *testing.T) {
	t.Parallel()
	const name = "e2e-up"
	root := filepath.Dir(filepath.Dir(binary()))
	var blocks []papers.Block
	for _, path := range []string{"README.md", "docs/develop/sandbox.md"} {
		p, err := papers.Read(root, path)
		require.NoError(t, err)
		blocks = append(blocks, papers.Marked([]papers.Paper{p}, "sandbox")...)
	}
	require.Greater(t, len(blocks), 2)
	assert.Equal(t, "make up\n", blocks[0].Text)
	assert.Equal(t, "make down\n", blocks[len(blocks)-1].Text)
	t.Cleanup(func() { _ = sandbox.Down(name) }) // when the test fails before `make down`
	run := func(t *testing.T, block papers.Block) string {
		cmd := block.Command(t.Context())
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "SLURMLET_SANDBOX_NAME="+name, "SLURMLET_SANDBOX_WITH="+strconv.Itoa(os.Getpid()))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		t.Logf("%s%s", block.Text, out)
		return string(out)
	}

	out := run(t, blocks[0])
	for _, want := range []string{"node-0", "node-1", "Ready", "idle", "COMPLETED", "200 OK", "make down", "elastic-0\n", "elastic-1\n", "elastic-2\n"} {
		assert.Contains(t, out, want)
	}
	s, err := sandbox.Open(t.Context(), name)
	require.NoError(t, err)
	traces := s.Traces()
	defer s.Close()
	_, line, found := strings.Cut(out, "\n  ssh -i ")
	require.True(t, found, "%s", out)
	line, _, _ = strings.Cut(line, "\n")
	ssh := exec.CommandContext(t.Context(), "sh", "-c", "ssh -i "+line+" id -un")
	ssh.Dir = root
	answer, err := ssh.CombinedOutput()
	require.NoError(t, err, "%s", answer)
	assert.Equal(t, "alice\n", string(answer))

	eachSaysWhatItDid(t, s, out)
	elasticNodesEnd(t, s)
	for _, block := range blocks[1:] {
		if !t.Run(block.String(), func(t *testing.T) { run(t, block) }) {
			return // the others count on what this one does
		}
	}
	assert.Empty(t, traces.Left())
}

// elasticNodesEnd: Slurm ends nodes that have been idle for a minute, and the sandbox their pods.
func elasticNodesEnd(t *testing.T, s *sandbox.Sandbox) {
	t.Helper()
	require.Eventually(t, func() bool {
		pods, err := s.Status(t.Context())
		return err == nil && !slices.ContainsFunc(pods, func(p sandbox.PodStatus) bool { return strings.HasPrefix(p.Name, sandbox.ElasticSet) })
	}, 4*time.Minute, time.Second)
	require.Eventually(t, func() bool {
		out, _, _, err := s.Exec(t.Context(), sandbox.Slurmctld, "sinfo", "--noheader", "--partition", sandbox.ElasticSet, "--format", "%t %D")
		return err == nil && strings.TrimSpace(out) == "idle~ 3"
	}, 4*time.Minute, time.Second)
}

// eachSaysWhatItDid runs commands on a third node, and the request to slurmrestd that up has
// printed.
func eachSaysWhatItDid(t *testing.T, s *sandbox.Sandbox, up string) {
	t.Helper()
	_, request, found := strings.Cut(up, "exec -name e2e-up -u alice login ")
	require.True(t, found, "%s", up)
	request, _, _ = strings.Cut(request, "\n")
	out, err := exec.CommandContext(t.Context(), "sh", "-c", binary()+" exec -name e2e-up -u alice login "+request).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), `"pings"`)

	for _, c := range []struct{ does, says string }{
		{"scale 3", "node-2: sinfo says idle\n"},
		{"exec login srun -w node-2 hostname", "node-2\n"},
		{"link node-2 down", "pod node-2 is cut off the network\n"},
		{"link node-2 up", "pod node-2 is on the network again\n"},
		{"resize -cpu 1 -memory 400 node-2", "pod node-2 has 1 CPUs and 400 MiB now\n"},
		{"kill node-2 WINCH", "signal WINCH is sent to PID 1 of pod node-2\n"},
		{"restart node-2", "the container of pod node-2 ended, and the next one runs\n"},
		{"delete node-2", "pod node-2 ended with exit status 0, and is deleted\n"},
		{"scale 2", "the cluster has 2 nodes\n"},
	} {
		verb, arguments, _ := strings.Cut(c.does, " ")
		out, err := exec.CommandContext(t.Context(), binary(), slices.Concat([]string{verb, "-name", "e2e-up"}, strings.Fields(arguments))...).CombinedOutput()
		require.NoError(t, err, "%s: %s", c.does, out)
		assert.Contains(t, string(out), c.says, c.does)
		if verb == "restart" {
			require.NoError(t, s.WaitReady(t.Context(), limit, t.Logf, "node-2"))
		}
	}
}
