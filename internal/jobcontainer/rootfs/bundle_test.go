package rootfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCommandOfABundle(t *testing.T) {
	args, err := command([]string{"A=b", commandVariable + "=sh\n-c\necho 'a'\\nb \\\\n\n\nlast\n"})
	require.NoError(t, err)
	assert.Equal(t, []string{"sh", "-c", "echo 'a'\nb \\n", "", "last"}, args)
	_, err = command([]string{"A=b"})
	assert.ErrorContains(t, err, "plugstack.conf needs spank_slurmlet.so")
}

func TestEnvironmentOfABundle(t *testing.T) {
	step := []string{"PATH=/node", "SLURM_JOB_ID=5", commandVariable + "=x\n", "KEPT=job"}
	assert.Equal(t, []string{"PATH=/bundle", "SLURM_JOB_ID=5", "KEPT=job", "OWN=bundle"},
		merged(step, []string{"PATH=/bundle", "SLURM_JOB_ID=7", "OWN=bundle"}))
}

// TestStepsDirectory: the file that Slurm has made for a task goes, and the directories below the step's.
func TestStepsDirectory(t *testing.T) {
	store := t.TempDir()
	for _, below := range []string{"oci/5.0/1", "oci/6.0/1/oci-job6-0/task-1"} {
		dir := filepath.Join(store, below)
		require.NoError(t, os.MkdirAll(dir, 0o700))
		file := filepath.Join(dir, "environment")
		require.NoError(t, os.WriteFile(file, []byte("A=b\x00C=d\ne\x00"), 0o600))
		got, err := BundleRun{Environment: file, Store: store}.environment()
		require.NoError(t, err)
		assert.Equal(t, []string{"A=b", "C=d\ne"}, got)
	}
	left, err := filepath.Glob(filepath.Join(store, "oci/*/*"))
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.DirExists(t, filepath.Join(store, "oci/6.0"))
	link := filepath.Join(store, "link")
	require.NoError(t, os.Symlink("/etc/passwd", link))
	_, err = BundleRun{Environment: link, Store: store}.environment()
	assert.ErrorContains(t, err, "CreateEnvFile=null")
}
