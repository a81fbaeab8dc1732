package agent

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/slurmconf"
	confcheck "github.com/slurmlet/slurmlet/slurmconf/check"
)

// A volume's files may have no permission to write, and an agent that is not
// root has no way around that.
func TestDefaultsAreAddedToAFileWithAVolumesMode(t *testing.T) {
	const nobody = 65534
	dir := t.TempDir()
	path := filepath.Join(dir, "slurm.conf")
	require.NoError(t, os.WriteFile(path, []byte("ClusterName=a\n"), 0o440))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
		require.NoError(t, os.Chown(dir, nobody, nobody))
		require.NoError(t, os.Chown(path, nobody, nobody))
	}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, and nobody else gets its user
		if os.Geteuid() == 0 {
			_, _ = unix.SetfsuidRetUid(nobody)
		}
		failed <- appendTo(path, "SlurmUser=slurm\n")
	}()
	require.NoError(t, <-failed)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o440), info.Mode().Perm())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "ClusterName=a\nSlurmUser=slurm\n", string(text))
}

// TestDefaultsFit: a default is not added where Slurm would refuse it beside the user's own values.
func TestDefaultsFit(t *testing.T) {
	const start = "ClusterName=c\nSlurmctldHost=h\n"
	for _, c := range []struct {
		name, own string
		without   []string
	}{
		{"nothing of its own", "", nil},
		{"no dynamic nodes", "SelectType=select/linear\nNodeName=n[1-4]\n", []string{"MaxNodeCount", "SelectType", "SelectTypeParameters"}},
		{"the same value", "SelectType=select/cons_tres\n", []string{"SelectType"}},
		{"munge", "AuthType=auth/munge\n", []string{"AuthType", "AuthInfo", "CredType"}},
		{"more nodes than a default of ours", "NodeName=n[1-5000]\n", []string{"MaxNodeCount"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "slurm.conf")
			require.NoError(t, os.WriteFile(path, []byte(start+c.own), 0o644))
			a := &Agent{Options: Options{Config: Config{SlurmUser: "slurm", StateDir: "/state"}}}
			require.NoError(t, a.render(dir))
			set, findings := slurmconf.Read(slurmconf.Dir(dir), slurmconf.SlurmConf)
			require.NoError(t, findings.Err())
			findings, err := confcheck.Set(set, confcheck.Options{})
			require.NoError(t, err)
			require.NoError(t, findings.Err())
			for _, d := range confDefaults {
				added := len(set.Conf(slurmconf.SlurmConf).All(d.key)) > 0 && !strings.Contains(start+c.own, "\n"+d.key+"=")
				assert.Equal(t, !slices.Contains(c.without, d.key), added, d.key)
			}
		})
	}
}

// TestStateIsFound: the state of a volume that another agent, or an operator, has filled is gone on with.
func TestStateIsFound(t *testing.T) {
	c := Config{StateDir: t.TempDir()}
	own := filepath.Join(c.StateDir, "state")
	assert.Equal(t, own, c.stateSaveLocation())
	require.NoError(t, os.Mkdir(own, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(own, "clustername"), nil, 0o600))
	assert.Equal(t, own, c.stateSaveLocation())
	require.NoError(t, os.WriteFile(filepath.Join(c.StateDir, "clustername"), nil, 0o600))
	assert.Equal(t, c.StateDir, c.stateSaveLocation())
}
