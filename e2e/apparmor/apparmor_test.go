//go:build e2e

// Package apparmor boots a guest with AppArmor, and makes jobs' containers there under the profile that the chart ships and
// under one that denies mounts, as a runtime's own does. The guest's root is this machine's, read-only (make test-full).
package apparmor

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

//go:embed init.sh
var guestInit string

func TestAppArmor(t *testing.T) {
	kernel, err := parts.Kernel(t.Context(), t.Logf)
	require.NoError(t, err)
	parser, err := parts.AppArmor(t.Context(), t.Logf)
	require.NoError(t, err)
	root, err := parts.Root(t.Context(), slices.Min(parts.Versions()), t.Logf)
	require.NoError(t, err)
	bin, err := filepath.Abs("../../bin")
	require.NoError(t, err)
	shipped, err := os.ReadFile("../../charts/slurm/profiles/slurmlet-slurmd")
	require.NoError(t, err)
	dir := t.TempDir()
	denies := strings.NewReplacer("slurmlet-slurmd", "runtime-default", "  mount,\n  remount,\n", "  deny mount,\n", "  pivot_root,\n", "").Replace(string(shipped))
	require.Contains(t, denies, "deny mount,")
	variables := fmt.Sprintf("export PATH=/usr/sbin:/usr/bin:/sbin:/bin BIN=%s ROOT=%s PARSER=%s PROFILES=%s\n", bin, root, parser, dir)
	for name, text := range map[string]string{
		"slurmlet-slurmd": string(shipped), "runtime-default": denies,
		"init": strings.Replace(guestInit, "\n", "\n"+variables, 1),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, kernel, "mem=512M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
		"init="+filepath.Join(dir, "init"), "con=null", "con0=null,fd:1", "con1=null", "seccomp=on", "quiet", "panic=-1",
		"uml_dir="+dir+"/", "lsm=capability,apparmor", "apparmor=1")
	cmd.Env = []string{"TMPDIR=/dev/shm", "HOME=" + dir, "PATH=/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	said := strings.ReplaceAll(string(out), "\r", "")
	require.NoError(t, err, said)
	require.Contains(t, said, "== end", said)
	t.Log(said)
	_, said, _ = strings.Cut(said, "== slurmlet-slurmd\n")
	allowed, denied, _ := strings.Cut(said, "== runtime-default\n")
	assert.Contains(t, allowed, "slurmlet-slurmd (enforce)\ndirectories: yes\n")
	assert.Contains(t, allowed, "boxed 0\nslurmlet-slurmd (enforce)\nwritten\nbundle: 0\n")
	assert.Contains(t, allowed, "probe: 0\n")
	assert.Contains(t, denied, "runtime-default (enforce)\nslurmlet: cannot mount in a namespace of the job's own: AppArmor")
	assert.Contains(t, denied, "probe: 1\nslurmlet: cannot mount in a namespace of the job's own: AppArmor")
	assert.Contains(t, denied, "bundle: 1\n")
}
