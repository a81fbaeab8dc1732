package spool

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func listening(t *testing.T, path string) {
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
}

func TestSockets(t *testing.T) {
	root := t.TempDir()
	d := New(filepath.Join(root, "spool"), "n1")
	living, dead := d.Sockets()
	assert.Empty(t, slices.Concat(living, dead), "slurmd has not made the directory")
	require.NoError(t, os.Mkdir(d.Path(), 0o755))
	listening(t, filepath.Join(d.Path(), "n1_3.0"))
	listening(t, filepath.Join(d.Path(), "n2_3.0"))
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(d.Path(), "n1_4"+Batch)}))
	require.NoError(t, unix.Close(fd))
	require.NoError(t, os.WriteFile(filepath.Join(d.Path(), "n1_5.0"), nil, 0o600))
	living, dead = d.Sockets()
	assert.Equal(t, []string{"3.0"}, living)
	assert.Equal(t, []string{"4" + Batch}, dead)
}

// TestSpoolThatDoesNotAnswer: steps that nobody can look for may live.
func TestSpoolThatDoesNotAnswer(t *testing.T) {
	d := New(t.TempDir(), "n1")
	d.hangs.Store(true)
	living, dead := d.Sockets()
	require.Equal(t, []string{Unknown}, living)
	require.Empty(t, dead)
	require.True(t, HasScript(living, 5))
}
