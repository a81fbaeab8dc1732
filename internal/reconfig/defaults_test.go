package reconfig

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

	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
	confcheck "github.com/slurmlet/slurmlet/slurmconf/check"
)

// A volume's files may have no permission to write, and an agent that is not
// root has no way around that.
func TestDefaultsAreAddedToAFileWithAVolumesMode(t *testing.T) {
	source, store := t.TempDir(), confset.Store{Dir: t.TempDir(), Name: "conf", UID: os.Geteuid(), GID: os.Getegid()}
	require.NoError(t, os.WriteFile(filepath.Join(source, "slurm.conf"), []byte("ClusterName=a\nSlurmctldHost=h\n"), 0o440))
	set, err := confset.Read([]string{source})
	require.NoError(t, err)
	if os.Geteuid() == 0 {
		store.UID = nobody
		require.NoError(t, os.Chmod(filepath.Dir(store.Dir), 0o755)) //nolint:gosec // t.TempDir keeps others out
		require.NoError(t, os.Chown(store.Dir, nobody, -1))
	}
	o := Options{Defaults: true, SlurmUser: "slurm", StateDir: "/state"}
	var dir string
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, and nobody else gets its user
		if os.Geteuid() == 0 {
			_, _ = unix.SetfsuidRetUid(nobody)
		}
		var err error
		dir, err = store.Stage(set, o.addDefaults)
		failed <- err
	}()
	require.NoError(t, <-failed)
	info, err := os.Stat(filepath.Join(dir, "slurm.conf"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o440), info.Mode().Perm())
	text, err := os.ReadFile(filepath.Join(dir, "slurm.conf"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "\nSlurmUser=slurm\n")
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
			o := Options{Defaults: true, SlurmUser: "slurm", StateDir: "/state"}
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close()
			require.NoError(t, o.addDefaults(root))
			set, findings := slurmconf.Read(slurmconf.Dir(dir), slurmconf.SlurmConf)
			require.NoError(t, findings.Err())
			findings, err = confcheck.Set(set, confcheck.Options{})
			require.NoError(t, err)
			require.NoError(t, findings.Err())
			for _, d := range defaults {
				added := len(set.Conf(slurmconf.SlurmConf).All(d.key)) > 0 && !strings.Contains(start+c.own, "\n"+d.key+"=")
				assert.Equal(t, !slices.Contains(c.without, d.key), added, d.key)
			}
		})
	}
}

// TestStateIsFound: the state of a volume that another agent, or an operator, has filled is gone on with.
func TestStateIsFound(t *testing.T) {
	o := Options{StateDir: t.TempDir()}
	own := filepath.Join(o.StateDir, "state")
	assert.Equal(t, own, o.stateSaveLocation())
	require.NoError(t, os.Mkdir(own, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(own, "clustername"), nil, 0o600))
	assert.Equal(t, own, o.stateSaveLocation())
	require.NoError(t, os.WriteFile(filepath.Join(o.StateDir, "clustername"), nil, 0o600))
	assert.Equal(t, o.StateDir, o.stateSaveLocation())
}
