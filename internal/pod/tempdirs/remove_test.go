package tempdirs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRemove(t *testing.T) {
	root := tree(t, map[string]uint32{"tmp": 0o1777, "tmp/deep/er": 0o755, "other": 0o755})
	for _, name := range []string{"tmp/a", "tmp/deep/er/b", "other/kept"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), make([]byte, 1<<20), 0o600))
	}
	require.NoError(t, os.Symlink("../other", filepath.Join(root, "tmp/link")))
	tmp := Dir{Path: "/tmp", Kind: Memory}

	done, err := Remove(t.Context(), root, tmp, os.Getuid()+1, time.Now().Add(time.Hour))
	require.NoError(t, err)
	assert.Zero(t, done, "they are somebody else's")
	done, err = Remove(t.Context(), root, tmp, os.Getuid(), time.Now().Add(-time.Hour))
	require.NoError(t, err)
	assert.Zero(t, done, "they are newer")

	done, err = Remove(t.Context(), root, tmp, os.Getuid(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	assert.Equal(t, 5, done.Files, "two files, two directories and a link")
	assert.GreaterOrEqual(t, done.Bytes, int64(2<<20))
	left, err := os.ReadDir(filepath.Join(root, "tmp"))
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.FileExists(t, filepath.Join(root, "other/kept"), "a link leads nowhere")

	done, err = Remove(t.Context(), root, Dir{Path: "/none"}, os.Getuid(), time.Now())
	require.NoError(t, err)
	assert.Zero(t, done)
}
