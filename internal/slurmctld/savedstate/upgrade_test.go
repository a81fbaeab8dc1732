package savedstate

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
)

func TestProtocol(t *testing.T) {
	for line, n := range map[string]protocol{"24.05": 41, "24.11": 42, "25.05": 43, "25.11": 44, "26.05": 45, "26.11": 46, "30.11": 54} {
		assert.Equal(t, n, protocolOf(line), line)
		assert.Equal(t, line, n.String())
	}
	for _, none := range []string{"", "24", "23.11", "24.08", "a.05", "-1.05"} {
		assert.Zero(t, protocolOf(none), none)
	}
	assert.Equal(t, "before 24.05", protocol(40).String())
}

// tree is what is in a directory, with what the files hold, but for the lock.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() == "lock" {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		info, err := e.Info()
		all[name] = info.Mode().String()
		if e.Type().IsRegular() {
			text, _ := os.ReadFile(path)
			all[name] += " " + string(text)
		}
		return err
	}))
	return all
}

// TestUpgrade: an older state is converted with leave alone, and is kept before. A newer one is never touched.
func TestUpgrade(t *testing.T) {
	s := newState(t)
	store := s.store()
	s.save(time.Unix(1e9, 0), 7)
	s.submit(7, "A=b")
	s.prepare(store)
	require.NoError(t, store.Saved())
	before := tree(t, s.dir)

	_, err := store.Prepare(t.Context(), s.dir, "26.05", 0, 0)
	require.ErrorContains(t, err, "is of Slurm 24.11, and this is Slurm 26.05")
	require.ErrorContains(t, err, "slurm.upgrade=true (SLURMLET_UPGRADE=on)")
	require.ErrorContains(t, err, "image.slurm=24.11")
	assert.Equal(t, exitcode.Config, exitcode.Of(err))
	_, err = store.Prepare(t.Context(), s.dir, "", 0, 0)
	require.ErrorContains(t, err, "which is of Slurm 24.11: its version is", "silence is no leave")
	assert.Equal(t, before, tree(t, s.dir), "nothing is touched")

	store.Upgrade = true
	_, err = store.Prepare(t.Context(), s.dir, "26.05", 0, 0)
	require.NoError(t, err)
	kept, err := filepath.Glob(filepath.Join(s.dir, snapshotsName, "24.11-to-26.05-*Z"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
	info, err := os.Stat(kept[0])
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
	have := tree(t, kept[0])
	for name, text := range before {
		if name != "." && name != dirName && !strings.HasPrefix(name, dirName+"/") {
			assert.Equal(t, text, have[name], name)
		}
	}
	assert.NotContains(t, have, dirName)
	_, err = store.Prepare(t.Context(), s.dir, "26.05", 0, 0)
	require.NoError(t, err, "slurmctld has ended before it saved anything")
	again, _ := filepath.Glob(filepath.Join(s.dir, snapshotsName, "*"))
	assert.Equal(t, kept, again, "the same state is kept once")

	s.saveAs(0x2d00, time.Now(), 9)
	_, err = store.Prepare(t.Context(), s.dir, "26.05", 0, 0)
	require.NoError(t, err)
	_, err = store.Prepare(t.Context(), s.dir, "24.11", 0, 0)
	require.ErrorContains(t, err, "is of Slurm 26.05, and this is Slurm 24.11, which cannot read it: run Slurm 26.05 again")
	require.ErrorContains(t, err, kept[0], "the way back")
	assert.Equal(t, exitcode.Config, exitcode.Of(err))
	_, err = store.Prepare(t.Context(), s.dir, "24.05", 0, 0)
	require.ErrorContains(t, err, "of which there is no snapshot here")
}

// TestUpgradeInPart: a slurmctld that was killed at its first save has left files of both versions.
func TestUpgradeInPart(t *testing.T) {
	s := newState(t)
	s.saveAs(0x2d00, time.Now(), 9)
	require.NoError(t, os.Rename(filepath.Join(s.dir, "job_state"), filepath.Join(s.dir, "node_state")))
	s.save(time.Now(), 9)
	store := s.store()
	_, err := store.Prepare(t.Context(), s.dir, "24.11", 0, 0)
	require.ErrorContains(t, err, "is of Slurm 26.05")
	_, err = store.Prepare(t.Context(), s.dir, "26.05", 0, 0)
	require.NoError(t, err)
}

// TestUpgradeWithoutSnapshot: what cannot be kept is not converted.
func TestUpgradeWithoutSnapshot(t *testing.T) {
	s := newState(t)
	s.save(time.Now(), 9)
	store := s.store()
	store.Upgrade = true
	require.NoError(t, os.Mkdir(filepath.Join(s.dir, dirName), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, snapshotsName), nil, 0o600))
	_, err := store.Prepare(t.Context(), s.dir, "26.05", 0, 0)
	require.ErrorContains(t, err, "cannot keep the state")
}
