package slurmdbd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPassword: the password of a file beside slurmdbd.conf is read as slurmdbd reads it, and no error has it.
func TestPassword(t *testing.T) {
	for _, c := range []struct {
		file, want string
		bad        bool
	}{
		{"simple\n", "simple", false},
		{`a#b\c`, `a#b\c`, false},
		{"two words", "two words", false},
		{"", "", true},
		{"secret\nsecret\n", "", true},
		{`"secret`, "", true},
	} {
		from, run := t.TempDir(), t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(from, slurmdbdConf), []byte("StorageHost=db\nStorageUser=slurm"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(from, passwordFile), []byte(c.file), 0o600))
		d := NewDatabase(Options{ConfDir: from, RunDir: run, UID: os.Getuid(), GID: os.Getgid()})
		_, err := d.copy.Sync()
		if c.bad {
			require.Error(t, err, c.file)
			assert.NotContains(t, err.Error(), "secret")
			continue
		}
		require.NoError(t, err, c.file)
		now, err := d.read()
		require.NoError(t, err)
		assert.Equal(t, c.want, now.storage.Passwd)
		assert.NoFileExists(t, filepath.Join(d.Dir(), passwordFile))
	}
}
