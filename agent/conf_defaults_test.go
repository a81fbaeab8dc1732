package agent

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
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
