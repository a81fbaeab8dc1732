package parts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVersionsAreSorted(t *testing.T) {
	assert.Equal(t, []string{"24.11", "26.05"}, Versions())
}

func TestAnUnknownSlurmIsRefused(t *testing.T) {
	_, err := Root(t.Context(), "2.0", silent)
	assert.EqualError(t, err, `cannot make a root file system with Slurm "2.0": there are 24.11, 26.05`)
}

func TestBootstrapArguments(t *testing.T) {
	m := mirror{uris: []string{"http://m"}, keyring: "/k"}
	still := bootstrapArgs(release{suite: "trixie"}, []string{"a", "b"}, "/root", m)
	assert.Equal(t, []string{"trixie", "/root", "deb [signed-by=/k] http://m trixie main"}, still[len(still)-3:])
	assert.Contains(t, still, "--include=a,b")
	assert.NotContains(t, still, `--aptopt=Acquire::Check-Valid-Until "false"`)
	assert.Contains(t, bootstrapArgs(release{suite: "forky", moving: true}, nil, "/root", m), `--aptopt=Acquire::Check-Valid-Until "false"`)
	mixed := bootstrapArgs(release{suite: "forky", sssd: "sid"}, nil, "/root", m)
	assert.Equal(t, []string{"forky", "/root", "deb [signed-by=/k] http://m forky main", "deb [signed-by=/k] http://m sid main"}, mixed[len(mixed)-4:])
	assert.Contains(t, mixed, `--setup-hook=printf '%s\n' 'Package: *' 'Pin: release n=sid' 'Pin-Priority: 100' >"$1/etc/apt/preferences.d/sssd"`)
}

func TestARootWithoutItsPluginsIsRefused(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	const plugins = "usr/lib/x86_64-linux-gnu/slurm-wlm/"
	for _, name := range []string{"auth_slurm.so", "auth_jwt.so", "accounting_storage_mysql.so", "task_affinity.so", "task_cgroup.so"} {
		write(plugins+name, "")
	}
	assert.ErrorContains(t, checkRoot(root), "it has no cgroup_v2.so")
	write(plugins+"cgroup_v2.so", "")
	assert.ErrorContains(t, checkRoot(root), "it has no usr/sbin/sssd")
	write("usr/sbin/sssd", "")
	write("usr/bin/sss_ssh_authorizedkeys", "")
	write("etc/passwd", "slurm:x:101:101::/:/bin/false\n")
	assert.ErrorContains(t, checkRoot(root), "its user slurm is not 64030")
	write("etc/passwd", "root:x:0:0::/:/bin/sh\nslurm:x:64030:64030::/:/bin/false\n")
	assert.NoError(t, checkRoot(root))
}

func TestPackageVersion(t *testing.T) {
	const list = "libslurm 1\nslurmd 24.11.5-4\nslurmd-dev 2\n"
	assert.Equal(t, "24.11.5-4", packageVersion(list, "slurmd"))
	assert.Empty(t, packageVersion(list, "slurm"))
}
