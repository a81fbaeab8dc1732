package confset

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// tree makes a directory with files.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, files)
	return dir
}

func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
}

// volume makes a directory as the kubelet does for a ConfigMap.
func volume(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	swap(t, dir, "..2026_01", files)
	for name := range files {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
	return dir
}

func swap(t *testing.T, dir, name string, files map[string]string) {
	t.Helper()
	put(t, filepath.Join(dir, name), files)
	require.NoError(t, os.Symlink(name, filepath.Join(dir, "..data_tmp")))
	require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
}

var small = map[string]string{"slurm.conf": "ClusterName=c\n", "cgroup.conf": "", "slurm.key": "secret"}

func TestRead(t *testing.T) {
	for name, dir := range map[string]string{"a directory": tree(t, small), "a ConfigMap volume": volume(t, small)} {
		t.Run(name, func(t *testing.T) {
			set, err := Read([]string{dir})
			require.NoError(t, err)
			require.Len(t, set.Files, 2)
			require.Equal(t, File{"slurm.conf", []byte("ClusterName=c\n"), 0o644, filepath.Join(dir, "slurm.conf")}, set.Files[1])
			require.Equal(t, []Key{{Name: "slurm.key", Target: filepath.Join(dir, "slurm.key"), digest: set.Keys[0].digest}}, set.Keys)
		})
	}
}

// TestReadScripts: what slurmctld and the nodes run is executable, whatever the volume's mode is.
func TestReadScripts(t *testing.T) {
	dir := volume(t, map[string]string{"prolog": "#!/bin/sh\n", "private": "#!/bin/sh\n", "slurm.conf": "ClusterName=c\n"})
	for name, mode := range map[string]fs.FileMode{"prolog": 0o644, "private": 0o440, "slurm.conf": 0o555} {
		require.NoError(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	set, err := Read([]string{dir})
	require.NoError(t, err)
	for name, want := range map[string]fs.FileMode{"prolog": 0o755, "private": 0o550, "slurm.conf": 0o444} {
		f, found := set.File(name)
		require.True(t, found, name)
		require.Equal(t, want, f.Mode, name)
	}
}

func TestReadSeveral(t *testing.T) {
	set, err := Read([]string{tree(t, map[string]string{"slurm.conf": "ClusterName=c", "prolog.d/10": "#!/bin/sh"}), tree(t, map[string]string{"gres.conf": ""})})
	require.NoError(t, err)
	var names []string
	for _, f := range set.Files {
		names = append(names, f.Name)
	}
	require.Equal(t, []string{"gres.conf", "prolog.d/10", "slurm.conf"}, names)
}

func TestHash(t *testing.T) {
	read := func(files map[string]string) *Set {
		set, err := Read([]string{tree(t, files)})
		require.NoError(t, err)
		return set
	}
	base := read(small)
	for _, c := range []struct {
		name          string
		files         map[string]string
		hash, keyHash bool // are the same
	}{
		{"the same elsewhere", small, true, true},
		{"what is no configuration", map[string]string{"slurm.conf": "ClusterName=c\n", "cgroup.conf": "", "slurm.key": "secret", ".slurm.conf.swp": "x", "slurm.conf~": "x", "#slurm.conf#": "", ".git/x": ""}, true, true},
		{"a value", map[string]string{"slurm.conf": "ClusterName=d\n", "cgroup.conf": "", "slurm.key": "secret"}, false, true},
		{"a key", map[string]string{"slurm.conf": "ClusterName=c\n", "cgroup.conf": "", "slurm.key": "public"}, true, false},
		{"an empty file less", map[string]string{"slurm.conf": "ClusterName=c\n", "slurm.key": "secret"}, false, true},
		{"another name", map[string]string{"slurm.conf": "ClusterName=c\n", "gres.conf": "", "slurm.key": "secret"}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := read(c.files)
			require.Equal(t, c.hash, set.Hash == base.Hash)
			require.Equal(t, c.keyHash, set.KeyHash == base.KeyHash)
			require.Equal(t, c.hash && c.keyHash, set.Same(base))
		})
	}
	with := base.With("slurm.conf", []byte("ClusterName=d\n"))
	require.NotEqual(t, base.Hash, with.Hash)
	require.Equal(t, "ClusterName=c\n", string(base.Files[1].Data))
}

func TestRefused(t *testing.T) {
	big := func(dir string) error { return os.Truncate(filepath.Join(dir, "slurm.conf"), 100<<20) }
	for _, c := range []struct {
		name  string
		files map[string]string
		do    func(dir string) error
		says  string // $ is the directory
	}{
		{"no slurm.conf", map[string]string{"cgroup.conf": ""}, nil, "cannot find slurm.conf in $"},
		{"an empty slurm.conf", map[string]string{"slurm.conf": " \n\n"}, nil, "$/slurm.conf: the file is empty"},
		{"a binary", map[string]string{"slurm.conf": "ClusterName=c\n\x7fELF\x00"}, nil, "$/slurm.conf:2: want text, not the byte 0"},
		{"100 MB", small, big, "$/slurm.conf: want at most 8388608 bytes, not 104857600"},
		{"a pipe", small, func(dir string) error { return unix.Mkfifo(filepath.Join(dir, "gres.conf"), 0o644) }, "$/gres.conf: want a file, not a p"},
		{"a link to nothing", small, func(dir string) error { return os.Symlink("/nonexistent", filepath.Join(dir, "gres.conf")) }, "no such file"},
		{"no directory", small, os.RemoveAll, "no such file or directory"},
		{"two faults", map[string]string{"slurm.conf": "\x00", "gres.conf": "\x00"}, nil, "$/gres.conf:1: want text, not the byte 0\n$/slurm.conf:1: want text, not the byte 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := tree(t, c.files)
			if c.do != nil {
				require.NoError(t, c.do(dir))
			}
			_, err := Read([]string{dir})
			require.Error(t, err)
			require.Contains(t, err.Error(), strings.ReplaceAll(c.says, "$", dir))
		})
	}
	t.Run("one name in two directories", func(t *testing.T) {
		a, b := tree(t, small), tree(t, map[string]string{"cgroup.conf": ""})
		_, err := Read([]string{a, b})
		require.EqualError(t, err, fmt.Sprintf("%s/cgroup.conf: there is %s/cgroup.conf too, and a set has one file of a name", b, a))
	})
}

// TestSwappedWhileRead: a set is never half of one ConfigMap and half of the next.
func TestSwappedWhileRead(t *testing.T) {
	text := func(n int) map[string]string {
		data := string(bytes.Repeat([]byte{byte('a' + n%2)}, 100))
		return map[string]string{"slurm.conf": data, "gres.conf": data}
	}
	dir := volume(t, text(0))
	over, read := make(chan struct{}), make(chan []*Set)
	var some atomic.Bool // a reader that gets no CPU meets a swap each time
	go func() {
		var sets []*Set
		for {
			select {
			case <-over:
				read <- sets
				return
			default:
			}
			if set, err := Read([]string{dir}); err == nil {
				sets = append(sets, set)
				some.Store(true)
			}
		}
	}()
	for n := 0; n < 300 || !some.Load() && n < 100_000; n++ {
		swap(t, dir, fmt.Sprintf("..n%d", n), text(n))
		_ = os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..n%d", n-1)))
	}
	close(over)
	sets := <-read
	require.NotEmpty(t, sets)
	for _, set := range sets {
		require.Equal(t, set.Files[0].Data, set.Files[1].Data)
	}
}

func TestDirs(t *testing.T) {
	dir := volume(t, map[string]string{"slurm.conf": ""})
	have, err := Dirs(dir)
	require.NoError(t, err)
	require.Equal(t, []string{dir, filepath.Join(dir, "..2026_01")}, have)
	plain := tree(t, map[string]string{"slurm.conf": "", "d/x": "", ".git/x": ""})
	have, err = Dirs(plain)
	require.NoError(t, err)
	require.Equal(t, []string{plain, filepath.Join(plain, "d")}, have)
}
