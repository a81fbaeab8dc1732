package rootfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/options"
)

func TestReadEnvironment(t *testing.T) {
	text := "PATH=\"/bin\"\nexport A='b c'\nEMPTY=\n# comment=1\n1X=2\nno line\nB=a=b\nQ=\"\n  S=1  \n"
	assert.Equal(t, []string{"PATH=/bin", "A=b c", "EMPTY=", "B=a=b", `Q="`, "S=1"}, readEnvironment(text))
}

func TestEnvironment(t *testing.T) {
	image := []string{"A=1", "A=2", "HOME=/x", "SLURM_JOB_ID=7", "PMIX_RANK=1", "KEPT=image", "LANG=C"}
	s := Spec{Options: options.Options{Env: []string{"KEPT", "LC_ALL"}}}
	assert.Equal(t, []string{"A=2", "LANG=C", "LANGUAGE"}, s.environment(image))
	s.RemapRoot = true
	assert.Equal(t, []string{"A=2", "HOME=/root", "LANG=C", "LANGUAGE"}, s.environment(image))
}

func TestHasID(t *testing.T) {
	text := "root:x:0:0:root:/root:/bin/sh\nbad:1000\nalice:x:1000:1000::/:/bin/sh\n"
	assert.True(t, hasID(text, ":1000:"))
	assert.False(t, hasID(text, ":100:"))
}

// TestPlaces: what an image's links say leads nowhere but into the image.
func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "real"), 0o755))
	for name, to := range map[string]string{"up": "../..", "abs": "/real", "gone": "/nowhere"} {
		require.NoError(t, os.Symlink(to, filepath.Join(root, name)))
	}
	in, err := openInside(root)
	require.NoError(t, err)
	for path, made := range map[string]string{
		"/a/b": "a/b", "../../c": "c", "/up/d": "d", "/abs/e/f": "real/e/f", "/up/../up/g": "g",
	} {
		_, err := in.place(path, false)
		require.NoError(t, err, path)
		assert.DirExists(t, filepath.Join(root, made), path)
	}
	_, err = in.place("/abs/file", true)
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(root, "real/file"))
	_, err = in.place("/gone/x", false)
	require.ErrorContains(t, err, "cannot make /gone/x")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1)
}

// FuzzReadEnvironment: an image's file gives names and values alone.
func FuzzReadEnvironment(f *testing.F) {
	f.Add("A=1\nB=\"2\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, entry := range readEnvironment(text) {
			require.Regexp(t, `^[A-Za-z_][A-Za-z0-9_]*=`, entry)
			require.NotContains(t, entry, "\x00")
		}
	})
}
