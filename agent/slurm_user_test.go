package agent

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/confset"
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
	a := &Agent{Options: Options{Config: Config{RunDir: run, StateDir: "/state", ConfDefaults: true}}}
	a.conf.live = confset.Store{Dir: run, Name: "conf", UID: nobody, GID: nobody}
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
		dir, err := a.stage(set)
		if err == nil {
			_, err = os.Stat(filepath.Join(dir, confset.Main))
			require.NoError(t, err)
		}
		a.conf.live.Drop(filepath.Join(run, "conf.1"))
	}
	close(over)
	<-ended
	assert.NoFileExists(t, made)
}

// TestTrialReadsNothingForSlurmUser: what a trial gets of StateSaveLocation is SlurmUser's.
func TestTrialReadsNothingForSlurmUser(t *testing.T) {
	state := t.TempDir()
	require.NoError(t, os.Symlink(secret(t), filepath.Join(state, "clustername")))
	require.NoError(t, unix.Mkfifo(filepath.Join(state, "assoc_mgr_state"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(state, "last_tres"), []byte("tres"), 0o600))
	conf := filepath.Join(t.TempDir(), confset.Main)
	require.NoError(t, os.WriteFile(conf, []byte("ClusterName=c\nSlurmctldHost=h\nStateSaveLocation="+state+"\n"), 0o600))
	parsed, findings := slurmconf.Read(slurmconf.Dir(filepath.Dir(conf)), slurmconf.SlurmConf)
	require.NoError(t, findings.Err())
	tr := &trial{agent: &Agent{}, dir: t.TempDir(), set: candidate{conf: parsed}}
	require.NoError(t, os.Mkdir(tr.state(), 0o700))
	done := make(chan error, 1)
	go func() { done <- tr.takeAccounts() }()
	require.Eventually(t, func() bool { return len(done) == 1 }, 10*time.Second, 10*time.Millisecond, "it waits for the other end of a pipe")
	require.NoError(t, <-done)
	assert.NoFileExists(t, filepath.Join(tr.state(), "clustername"))
	assert.NoFileExists(t, filepath.Join(tr.state(), "assoc_mgr_state"))
	assert.FileExists(t, filepath.Join(tr.state(), "last_tres"))
}
