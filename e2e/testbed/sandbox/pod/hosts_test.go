package pod

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestHosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	hosts, err := NewHosts(path)
	require.NoError(t, err)
	inode := inodeOf(t, path)

	require.NoError(t, hosts.Add("node-1", "10.88.1.2"))
	require.NoError(t, hosts.Add("node-11", "10.88.1.3"))
	require.NoError(t, hosts.Remove("node-1"))
	require.NoError(t, hosts.Add("node-1", "10.88.1.4"))
	require.NoError(t, hosts.Remove("unknown"))

	data, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1 localhost\n::1 localhost ip6-localhost\n#0.88.1.2 node-1\n10.88.1.3 node-11\n10.88.1.4 node-1\n", string(data))
	assert.Equal(t, inode, inodeOf(t, path), "a bind mount would not see another file")
}

func inodeOf(t *testing.T, path string) uint64 {
	var st unix.Stat_t
	require.NoError(t, unix.Stat(path, &st))
	return st.Ino
}
