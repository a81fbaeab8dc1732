package notify

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestListen(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, path string)
		want    string // the error's end; "": none
	}{
		{"nothing is there", func(*testing.T, string) {}, ""},
		{"a stale socket is replaced", staleSocket, ""},
		{"a socket in use", func(t *testing.T, path string) { listenTo(t, path) }, "somebody else is listening there"},
		{"a file", func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, nil, 0o600)) }, "there is something that is not a socket"},
		{"a folder", func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, "there is something that is not a socket"},
		{"a link to a stale socket", func(t *testing.T, path string) {
			staleSocket(t, path+".real")
			require.NoError(t, os.Symlink(path+".real", path))
		}, "there is something that is not a socket"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "notify")
			c.prepare(t, path)
			s, err := Listen(path, os.Getuid(), os.Getgid())
			if c.want != "" {
				assert.EqualError(t, err, "cannot listen for notifications on "+path+": "+c.want)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, path, s.Path())
			require.NoError(t, s.Close())
			_, err = os.Lstat(path)
			assert.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

func TestListenBelongsToTheDaemonsUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	defer syscall.Umask(syscall.Umask(0)) // no help from it
	s, err := Listen(filepath.Join(t.TempDir(), "notify"), 64030, 64031)
	require.NoError(t, err)
	defer s.Close()
	info, err := os.Lstat(s.Path())
	require.NoError(t, err)
	assert.Equal(t, fs.ModeSocket|0o600, info.Mode())
	stat := info.Sys().(*syscall.Stat_t)
	assert.Equal(t, []uint32{64030, 64031}, []uint32{stat.Uid, stat.Gid})
}

func TestListenOnAPathThatIsTooLong(t *testing.T) {
	_, err := Listen(filepath.Join(t.TempDir(), strings.Repeat("x", 108)), 0, 0)
	assert.ErrorContains(t, err, "bind: invalid argument")
}

func listenTo(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// staleSocket is what a killed process leaves behind.
func staleSocket(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, listenTo(t, path).Close())
	_, err := os.Lstat(path)
	require.NoError(t, err)
}
