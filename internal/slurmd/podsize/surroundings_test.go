package podsize

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestSurroundings(t *testing.T) {
	const unlimited, shm, locked = unix.RLIM_INFINITY, "/dev/shm has 64 MiB", "a process may lock 8192 KiB"
	for name, c := range map[string]struct {
		found surroundings
		want  []string
	}{
		"the runtime's own, with GPUs":        {surroundings{true, false, 64 * mib, 8 * mib}, []string{shm}},
		"the runtime's own, with RDMA":        {surroundings{false, true, 64 * mib, 8 * mib}, []string{shm, locked}},
		"the runtime's own, with neither":     {surroundings{false, false, 64 * mib, 8 * mib}, nil},
		"enough":                              {surroundings{true, true, 1 << 30, unlimited}, nil},
		"a size that is not known, with GPUs": {surroundings{true, false, 0, 0}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			notes := c.found.notes()
			require.Len(t, notes, len(c.want))
			for i, want := range c.want {
				assert.Contains(t, notes[i], want)
			}
		})
	}
}

// TestLook: RDMA is a device of its own, and what is not there has no size.
func TestLook(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "dev/infiniband"), 0o755))
	found := look(root, true)
	assert.Equal(t, []any{true, false, uint64(0)}, []any{found.gpus, found.rdma, found.sharedMemory})
	require.NoError(t, os.Symlink("/dev/null", filepath.Join(root, "dev/infiniband/uverbs0")))
	require.NoError(t, os.Mkdir(filepath.Join(root, "dev/shm"), 0o755))
	found = look(root, false)
	assert.Equal(t, []bool{false, true}, []bool{found.gpus, found.rdma})
	assert.Positive(t, found.sharedMemory)
}
