package reconfig

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
)

const nobody = 65534

// TestStagedForSlurmUser: a process of SlurmUser's may put links into a directory as soon
// as it has it, and root writes through none.
func TestStagedForSlurmUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("another user's directories need root")
	}
	run, made := t.TempDir(), filepath.Join(t.TempDir(), "made")
	require.NoError(t, os.Chmod(filepath.Dir(run), 0o755)) //nolint:gosec // t.TempDir keeps others out
	r := &Reloader{Options: Options{RunDir: run, StateDir: "/state", Defaults: true}}
	r.liveSet = confset.Store{Dir: run, Name: "conf", UID: nobody, GID: nobody}
	source := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(source, confset.Main), []byte("ClusterName=c\nSlurmctldHost=h\n"), 0o600))
	set, err := confset.Read([]string{source})
	require.NoError(t, err)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // the thread ends with the goroutine, and nobody else gets its user
		_, _ = unix.SetfsuidRetUid(nobody)
		for {
			select {
			case <-over:
				return
			default:
				_ = os.Symlink(made, filepath.Join(run, "conf.1", "cgroup.conf"))
			}
		}
	}()
	for range 300 {
		dir, err := r.stage(set)
		if err == nil {
			_, err = os.Stat(filepath.Join(dir, confset.Main))
			require.NoError(t, err)
		}
		r.liveSet.Drop(filepath.Join(run, "conf.1"))
	}
	close(over)
	<-ended
	assert.NoFileExists(t, made)
}
