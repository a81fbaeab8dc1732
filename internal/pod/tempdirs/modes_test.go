package tempdirs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// tree makes directories with their modes.
func tree(t *testing.T, modes map[string]uint32) string {
	t.Helper()
	root := t.TempDir()
	for path, mode := range modes {
		dir := filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, unix.Chmod(dir, mode))
	}
	return root
}

func modeOf(t *testing.T, root, path string) uint32 {
	t.Helper()
	var is unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(root, path), &is))
	return is.Mode & 0o7777
}

func TestSecure(t *testing.T) {
	for _, c := range []struct {
		name   string
		is     map[string]uint32
		places Places
		want   map[string]uint32
	}{
		{"an emptyDir that all users share", map[string]uint32{"tmp": 0o777}, Places{Shared: []string{"/tmp"}}, map[string]uint32{"tmp": 0o1777}},
		{"an emptyDir of a pod with fsGroup", map[string]uint32{"tmp": 0o2775}, Places{Shared: []string{"/tmp"}}, map[string]uint32{"tmp": 0o3775}},
		{"a temporary directory as it should be", map[string]uint32{"tmp": 0o1777}, Places{Shared: []string{"/tmp"}}, map[string]uint32{"tmp": 0o1777}},
		{"one in which root alone writes", map[string]uint32{"tmp": 0o755}, Places{Shared: []string{"/tmp"}}, map[string]uint32{"tmp": 0o755}},
		{"an emptyDir of the daemons", map[string]uint32{"run": 0o777}, Places{Daemons: []string{"/run"}}, map[string]uint32{"run": 0o755}},
		{"an emptyDir of the daemons with fsGroup", map[string]uint32{"run": 0o2777}, Places{Daemons: []string{"/run"}}, map[string]uint32{"run": 0o2755}},
		{"a directory above is open to all", map[string]uint32{"data": 0o777, "data/spool": 0o700}, Places{Daemons: []string{"/data/spool"}}, map[string]uint32{"data": 0o1777, "data/spool": 0o700}},
		{"none of them is there", nil, Places{Shared: []string{"/tmp"}, Daemons: []string{"/run/slurmlet"}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := tree(t, c.is)
			changes, err := Secure(root, c.places)
			require.NoError(t, err)
			changed := 0
			for path, mode := range c.want {
				assert.Equal(t, mode, modeOf(t, root, path), path)
				if c.is[path] != mode {
					changed++
				}
			}
			assert.Len(t, changes, changed)
		})
	}
}

func TestSecureFollowsLinks(t *testing.T) {
	root := tree(t, map[string]uint32{"real": 0o777})
	require.NoError(t, os.Symlink("real", filepath.Join(root, "tmp")))
	changes, err := Secure(root, Places{Shared: []string{"/tmp"}})
	require.NoError(t, err)
	assert.Equal(t, []Change{{"/tmp", 0o777, 0o1777}}, changes)
	assert.Equal(t, uint32(0o1777), modeOf(t, root, "real"))
	assert.Equal(t, "/tmp had mode 0777 and has 1777 now", changes[0].String())
}

// TestSecureRefuses: a directory whose mode cannot be changed stays open to all, and is named.
func TestSecureRefuses(t *testing.T) {
	root := tree(t, map[string]uint32{"tmp": 0o777, "spool": 0o755})
	s := securing{root: root, chmod: func(string, uint32) error { return unix.EPERM }}
	s.place("/tmp", shared)
	s.place("/spool", shared)
	require.Len(t, s.faults, 1)
	assert.EqualError(t, s.faults[0], "cannot keep the files in /tmp from other users: it has mode 0777, and chmod 1777 fails: operation not permitted")
}

func TestUnique(t *testing.T) {
	assert.Equal(t, []string{"/tmp", "/scratch"}, Unique("/tmp", "/scratch/", "", "/tmp/", "/scratch"))
}

func TestExisting(t *testing.T) {
	root := tree(t, map[string]uint32{"tmp": 0o1777, "scratch": 0o1777})
	require.NoError(t, os.Symlink("tmp", filepath.Join(root, "var-tmp")))
	require.NoError(t, os.WriteFile(filepath.Join(root, "file"), nil, 0o600))
	p := Places{Shared: []string{"/tmp", "/var-tmp", "/scratch", "/file", "/none"}}
	assert.Equal(t, []string{"/tmp", "/scratch"}, p.Existing(root))
}
