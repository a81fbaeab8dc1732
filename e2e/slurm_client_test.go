//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// slurmClientsModule is the client of slurmrestd's that SchedMD's operators use.
const slurmClientsModule = "github.com/SlinkyProject/slurm-client"

// apis are the versions of slurmrestd's API that a Slurm has, the oldest first, and how many specs slurm-client has for
// each.
var apis = map[string][]struct {
	name  string
	specs int
}{
	"24.11": {{"v0042", 25}},
	"26.05": {{"v0042", 25}, {"v0043", 25}, {"v0044", 35}, {"v0045", 35}},
}

// slurmClientsSpecs: slurm-client's own specs pass against slurmrestd under the agent, unchanged but for the file that
// starts their cluster. They want a node "slurmd", a partition "all", and SlurmUser's token; they submit, hold and cancel
// jobs, make reservations, and reconfigure. Most wait five seconds for the client's cache: v0042 takes 20 s, v0045 a
// minute, and make test-full alone tries all.
func slurmClientsSpecs(t *testing.T, c *cluster) {
	line, _, _ := strings.Cut(c.slurmOf(t, sandbox.Slurmctld).Version, "-")
	line = line[:strings.LastIndex(line, ".")]
	versions := apis[line]
	require.NotEmpty(t, versions, line)
	if !withTime() {
		versions = versions[:1]
	}
	program, err := slurmClientsSuite()
	require.NoError(t, err)
	node := c.Node(1)
	node.Name, node.Env["SLURMLET_NODE_NAME"] = "slurmd", "slurmd"
	require.NoError(t, c.CreateAll(t.Context(), node))
	c.waitReady(t, node.Name)
	defer c.removeNode(t, node.Name)
	defer func() { c.run(t, sandbox.Slurmctld, "scancel", "--user=slurm") }() // the specs leave jobs that are held
	env := append(os.Environ(),
		"SLURM_REST="+forward(t, c, "slurmrestd:"+strconv.Itoa(sandbox.RESTPort)), "SLURM_JWT="+c.tokenOf(t, "slurm", "600"))

	began, passed, want := time.Now(), 0, 0
	for _, api := range versions {
		cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestClient$", "-ginkgo.no-color", "-ginkgo.focus=Client "+api.name)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		n, _ := strconv.Atoi(strings.TrimSuffix(regexp.MustCompile(`\d+ Passed`).FindString(string(out)), " Passed"))
		assert.NoError(t, err, "%s: %s", api.name, out)
		assert.Equal(t, api.specs, n, api.name)
		passed, want = passed+n, want+api.specs
	}
	t.Logf("slurm-client's specs on Slurm %s: %d of %d passed, in %s", line, passed, want, time.Since(began).Round(time.Second))
}

// slurmClientsSuite builds the specs as one program. Overlays of files in Go's module cache are refused, so it copies
// the module.
var slurmClientsSuite = sync.OnceValues(func() (string, error) {
	run := func(dir string, args ...string) (string, error) {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out)), err
	}
	const module = "native/rest"
	if _, err := run(module, "mod", "download", slurmClientsModule); err != nil {
		return "", err
	}
	from, err := run(module, "list", "-m", "-f", "{{.Dir}}", slurmClientsModule)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "slurm-client")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		return "", err
	}
	suite, err := os.ReadFile(filepath.Join(module, "testdata", "client_suite_test.go"))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "pkg/client/client_suite_test.go"), suite, 0o644); err != nil {
		return "", err
	}
	program, err := filepath.Abs("../bin/slurm-client.test")
	if err != nil {
		return "", err
	}
	_, err = run(dir, "test", "-mod=mod", "-c", "-o", program, "./pkg/client")
	return program, err
})
