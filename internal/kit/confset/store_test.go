package confset

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStore(t *testing.T) {
	source := tree(t, map[string]string{"slurm.conf": "one", "d/script": "#!/bin/sh", "slurm.key": "secret"})
	require.NoError(t, os.Chmod(filepath.Join(source, "d/script"), 0o755))
	first, err := Read([]string{source})
	require.NoError(t, err)
	s := Store{Dir: t.TempDir(), Name: "conf", UID: os.Getuid(), GID: os.Getgid()}
	none, err := s.Load()
	require.NoError(t, err)
	require.Nil(t, none)

	place := func(set *Set) string {
		dir, err := s.Stage(set, nil)
		require.NoError(t, err)
		require.NoError(t, s.Swap(dir))
		return dir
	}
	dir := place(first)
	require.Equal(t, s.Current()+".1", dir)
	text, err := os.ReadFile(filepath.Join(s.Current(), "slurm.conf"))
	require.NoError(t, err)
	require.Equal(t, "one", string(text))
	info, err := os.Stat(filepath.Join(s.Current(), "d/script"))
	require.NoError(t, err)
	require.EqualValues(t, 0o755, info.Mode())
	target, err := os.Readlink(filepath.Join(s.Current(), "slurm.key"))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(source, "slurm.key"), target)
	loaded, err := s.Load()
	require.NoError(t, err)
	require.True(t, first.Same(loaded.WithKeys(first)))

	// Whoever reads the one before goes on with it; older ones are gone.
	for range 3 {
		place(first.With("slurm.conf", []byte("two")))
	}
	root, err := os.OpenRoot(s.Dir)
	require.NoError(t, err)
	defer root.Close()
	numbers, err := s.numbers(root)
	require.NoError(t, err)
	require.Equal(t, []int{3, 4}, numbers)
}

// TestDroppedLate: a Drop of a set that is gone removes no other set. A precheck's Drop removed the last good
// configuration that had just been put back.
func TestDroppedLate(t *testing.T) {
	set, err := Read([]string{tree(t, small)})
	require.NoError(t, err)
	s := Store{Dir: t.TempDir(), Name: "conf", UID: os.Getuid(), GID: os.Getgid()}
	stage := func() string {
		dir, err := s.Stage(set, nil)
		require.NoError(t, err)
		return dir
	}
	edit, precheck := stage(), stage()
	require.NoError(t, s.Swap(edit)) // the precheck's is gone
	require.NoError(t, s.Swap(stage()))
	s.Drop(precheck)
	_, err = os.ReadFile(filepath.Join(s.Current(), Main))
	require.NoError(t, err)

	require.ErrorContains(t, s.Swap(precheck), "cannot put the configuration in place: ")
	_, err = os.ReadFile(filepath.Join(s.Current(), Main))
	require.NoError(t, err)
}

// TestLasting: what is kept has no keys, and is the same configuration.
func TestLasting(t *testing.T) {
	set, err := Read([]string{tree(t, small)})
	require.NoError(t, err)
	s := Store{Dir: t.TempDir(), Name: "conf", UID: os.Getuid(), GID: os.Getgid(), Lasting: true}
	dir, err := s.Stage(set, nil)
	require.NoError(t, err)
	require.NoError(t, s.Swap(dir))
	require.NoFileExists(t, filepath.Join(s.Current(), "slurm.key"))
	kept, err := s.Load()
	require.NoError(t, err)
	require.Equal(t, set.Hash, kept.Hash)
	require.True(t, set.Same(kept.WithKeys(set)))
}

// TestGivenAwayLast: as long as a set is not whole, its owner does not get in.
func TestGivenAwayLast(t *testing.T) {
	set, err := Read([]string{tree(t, small)})
	require.NoError(t, err)
	s := Store{Dir: t.TempDir(), Sub: "sub", Name: "conf", UID: os.Getuid(), GID: os.Getgid()}
	dir, err := s.Stage(set, func(dir *os.Root) error {
		info, err := dir.Stat(".")
		require.NoError(t, err)
		require.Equal(t, os.ModeDir|0o700, info.Mode())
		return dir.WriteFile("added.conf", []byte("added"), 0o600)
	})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(s.Dir, "sub", "conf.1"), dir)
	for name, mode := range map[string]os.FileMode{".": os.ModeDir | 0o755, "added.conf": 0o644} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode(), name)
	}
}

// TestLoadStaysInside: a link leads nowhere, not even to a file that root may read.
func TestLoadStaysInside(t *testing.T) {
	elsewhere := tree(t, map[string]string{"slurm.conf": "ClusterName=x\n", "job_submit.lua": "secret"})
	for name, plant := range map[string]func(s *Store) error{
		"the current set": func(s *Store) error { return os.Symlink(elsewhere, s.Current()) },
		"a relative one":  func(s *Store) error { return os.Symlink("../"+filepath.Base(elsewhere), s.Current()) },
		"a set": func(s *Store) error {
			return errors.Join(os.Symlink(elsewhere, s.Current()+".1"), os.Symlink("conf.1", s.Current()))
		},
		"a file in a set": func(s *Store) error {
			return errors.Join(os.Mkdir(s.Current()+".1", 0o755), os.Symlink("conf.1", s.Current()),
				os.WriteFile(s.Current()+".1/slurm.conf", []byte("ClusterName=y\n"), 0o600),
				os.Symlink(filepath.Join(elsewhere, "job_submit.lua"), s.Current()+".1/job_submit.lua"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := Store{Dir: t.TempDir(), Name: "conf", UID: os.Getuid(), GID: os.Getgid(), Lasting: true}
			require.NoError(t, plant(&s))
			set, err := s.Load()
			require.ErrorContains(t, err, "cannot read the last good configuration: ")
			require.Nil(t, set)
		})
	}
}

// TestStageFails: nothing is left of a set that does not fit.
func TestStageFails(t *testing.T) {
	set, err := Read([]string{tree(t, small)})
	require.NoError(t, err)
	set.Files[0].Name = "../../nonexistent/\x00"
	s := Store{Dir: t.TempDir(), Name: "conf", UID: os.Getuid(), GID: os.Getgid()}
	_, err = s.Stage(set, nil)
	require.ErrorContains(t, err, "cannot stage the configuration: ")
	left, err := os.ReadDir(s.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestNamed(t *testing.T) {
	dir := tree(t, small)
	set, err := Read([]string{dir})
	require.NoError(t, err)
	require.Equal(t, "line 3 of "+dir+"/slurm.conf", set.Named("/run/conf.2", "line 3 of /run/conf.2/slurm.conf"))
	require.Equal(t, "no "+dir+"/nosuch.conf", set.Named("/run/conf.2", "no /run/conf.2/nosuch.conf"))
}
