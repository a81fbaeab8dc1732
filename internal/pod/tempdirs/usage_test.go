package tempdirs

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mountinfo is a pod's: its root, a tmpfs at /dev/shm, an emptyDir on the disk, one in memory, and a volume.
const mountinfo = `1 0 0:40 / / rw,relatime - overlay overlay rw,lowerdir=/l,upperdir=/u
2 1 0:41 / /dev/shm rw - tmpfs shm rw,size=65536k
3 1 8:1 /var/lib/kubelet/pods/8f/volumes/kubernetes.io~empty-dir/spool /var/spool/slurmd rw - ext4 /dev/sda1 rw
4 1 0:42 / /run rw - tmpfs tmpfs rw
5 1 0:43 / /scratch rw - nfs4 server:/scratch rw
`

func TestLocate(t *testing.T) {
	assert.Equal(t, []Dir{
		{"/tmp", Disk, true}, {"/dev/shm", Memory, false}, {"/var/spool/slurmd", Disk, false}, {"/scratch", Elsewhere, false}, {"/var", Disk, true},
	}, Locate(mountinfo, []string{"/tmp", "/dev/shm", "/tmp/job", "/var/spool/slurmd", "/scratch", "/var"}))
	assert.Equal(t, []string{"/var/spool/slurmd"}, EmptyDirs(mountinfo))
}

func TestUsage(t *testing.T) {
	root := tree(t, map[string]uint32{"tmp": 0o1777, "tmp/deep": 0o755, "shm": 0o1777})
	for _, name := range []string{"tmp/a", "tmp/deep/b", "shm/c"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), make([]byte, 1<<20), 0o600))
	}
	require.NoError(t, os.Link(filepath.Join(root, "tmp/a"), filepath.Join(root, "tmp/again")))
	dirs := []Dir{{"/tmp", Disk, true}, {"/shm", Memory, false}, {"/none", Disk, false}}
	all, err := Usage(t.Context(), root, dirs, time.Now().Add(-time.Hour))
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.Equal(t, []any{os.Getuid(), "/tmp", Disk}, []any{all[0].UID, all[0].Dir.Path, all[0].Dir.Kind})
	assert.InDelta(t, 2<<20, all[0].Bytes, 64<<10, "a file with two names counts once")
	assert.Equal(t, Memory, all[1].Dir.Kind)

	all, err = Usage(t.Context(), root, dirs, time.Now().Add(time.Hour))
	require.NoError(t, err)
	assert.Len(t, all, 1, "what is older than the container in its root is the image's")

	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Usage(over, root, dirs, time.Time{})
	require.ErrorIs(t, err, context.Canceled)
}
