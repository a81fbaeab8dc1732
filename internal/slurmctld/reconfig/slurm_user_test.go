package reconfig

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
)

const nobody = 65534

// secret is a file that only root reads and writes.
func secret(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shadow")
	require.NoError(t, os.WriteFile(path, []byte("secret"), 0o600))
	return path
}

// TestStagedForSlurmUser: a process of SlurmUser's may put links into a directory as soon
// as it has it, and root writes through none.
func TestStagedForSlurmUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("another user's directories need root")
	}
	run, made := t.TempDir(), filepath.Join(t.TempDir(), "made")
	require.NoError(t, os.Chmod(filepath.Dir(run), 0o755)) //nolint:gosec // t.TempDir keeps others out
	r := &Reloader{Options: Options{RunDir: run, StateDir: "/state", Defaults: true}}
	r.live = confset.Store{Dir: run, Name: "conf", UID: nobody, GID: nobody}
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
		r.live.Drop(filepath.Join(run, "conf.1"))
	}
	close(over)
	<-ended
	assert.NoFileExists(t, made)
}

// TestDryRunReadsNothingForSlurmUser: SlurmUser owns what a dry run gets of StateSaveLocation.
func TestDryRunReadsNothingForSlurmUser(t *testing.T) {
	state := t.TempDir()
	require.NoError(t, os.Symlink(secret(t), filepath.Join(state, "clustername")))
	require.NoError(t, unix.Mkfifo(filepath.Join(state, "assoc_mgr_state"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(state, "last_tres"), []byte("tres"), 0o600))
	conf := filepath.Join(t.TempDir(), confset.Main)
	require.NoError(t, os.WriteFile(conf, []byte("ClusterName=c\nSlurmctldHost=h\nStateSaveLocation="+state+"\n"), 0o600))
	parsed, findings := slurmconf.Read(slurmconf.Dir(filepath.Dir(conf)), slurmconf.SlurmConf)
	require.NoError(t, findings.Err())
	d := &dryRun{Reloader: &Reloader{}, dir: t.TempDir(), set: candidate{conf: parsed}}
	require.NoError(t, os.Mkdir(d.state(), 0o700))
	done := make(chan error, 1)
	go func() { done <- d.takeAccounts() }()
	require.Eventually(t, func() bool { return len(done) == 1 }, time.Minute, 10*time.Millisecond, "it waits for the other end of a pipe")
	require.NoError(t, <-done)
	assert.NoFileExists(t, filepath.Join(d.state(), "clustername"))
	assert.NoFileExists(t, filepath.Join(d.state(), "assoc_mgr_state"))
	assert.FileExists(t, filepath.Join(d.state(), "last_tres"))
}
