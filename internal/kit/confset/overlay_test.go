package confset

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReadOver: what lies over a directory is the same set as the kubelet's delivery of it.
func TestReadOver(t *testing.T) {
	next := map[string]string{"slurm.conf": "ClusterName=d\n", "prolog": "#!/bin/sh\n", ".hidden": "x"}
	chmod := func(dir string, names ...string) {
		for _, name := range names {
			require.NoError(t, os.Chmod(filepath.Join(dir, name), 0o440))
		}
	}
	dir := volume(t, small)
	chmod(dir, "slurm.conf", "cgroup.conf", "slurm.key")
	over, err := ReadOver([]string{dir}, &Overlay{dir, next})
	require.NoError(t, err)
	require.Len(t, over.Files, 2)
	assert.Equal(t, filepath.Join(dir, "slurm.conf"), over.Files[1].Source, "people find the file where it will be")
	assert.EqualValues(t, 0o550, over.Files[0].Mode, "a script that may be read may be run")

	swap(t, dir, "..2026_02", map[string]string{"slurm.conf": "ClusterName=d\n", "prolog": "#!/bin/sh\n", ".hidden": "x", "slurm.key": "secret"})
	require.NoError(t, os.Symlink("..data/prolog", filepath.Join(dir, "prolog")))
	chmod(dir, "slurm.conf", "prolog", "slurm.key")
	delivered, err := Read([]string{dir})
	require.NoError(t, err)
	assert.True(t, delivered.Same(over))
	texts, err := Texts(dir)
	require.NoError(t, err)
	assert.Equal(t, TextsDigest(next), TextsDigest(texts))
}

func TestReadOverFaults(t *testing.T) {
	other := tree(t, map[string]string{"gres.conf": ""})
	for name, c := range map[string]struct {
		files map[string]string
		says  string // $ is the directory
	}{
		"no slurm.conf":        {map[string]string{"cgroup.conf": ""}, "cannot find slurm.conf in $"},
		"an empty slurm.conf":  {map[string]string{"slurm.conf": "\n"}, "$/slurm.conf: the file is empty"},
		"a binary":             {map[string]string{"slurm.conf": "ClusterName=c\n\x00"}, "$/slurm.conf:2: want text, not the byte 0"},
		"a file that is there": {map[string]string{"slurm.conf": "ClusterName=c\n", "gres.conf": ""}, "and a set has one file of a name"},
		"too much":             {map[string]string{"slurm.conf": strings.Repeat("#", MaxFile+1)}, "want at most 8388608 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, small)
			_, err := ReadOver([]string{dir, other}, &Overlay{dir, c.files})
			require.ErrorContains(t, err, strings.ReplaceAll(c.says, "$", dir))
		})
	}
	dir := tree(t, small)
	set, err := ReadOver([]string{dir}, &Overlay{dir, map[string]string{"slurm.conf": "ClusterName=c\n", "slurm.key": "other"}})
	require.NoError(t, err)
	plain, err := Read([]string{dir})
	require.NoError(t, err)
	assert.Equal(t, plain.KeyHash, set.KeyHash, "the keys are the directory's")
	require.Len(t, set.Files, 1)
}

// TestTextsDigest tells contents from one another, whatever a set would make of them.
func TestTextsDigest(t *testing.T) {
	texts := func(files map[string]string) string {
		all, err := Texts(tree(t, files))
		require.NoError(t, err)
		return TextsDigest(all)
	}
	base := map[string]string{"slurm.conf": "a", "cgroup.conf": ""}
	for name, c := range map[string]struct {
		files map[string]string
		same  bool
	}{
		"the same":            {map[string]string{"slurm.conf": "a", "cgroup.conf": ""}, true},
		"a key":               {map[string]string{"slurm.conf": "a", "cgroup.conf": "", "slurm.key": "x"}, true},
		"what an editor left": {map[string]string{"slurm.conf": "a", "cgroup.conf": "", "slurm.conf~": "x"}, true},
		"another text":        {map[string]string{"slurm.conf": "b", "cgroup.conf": ""}, false},
		"an empty file more":  {map[string]string{"slurm.conf": "a", "cgroup.conf": "", "gres.conf": ""}, false},
		"a file less":         {map[string]string{"slurm.conf": "a"}, false},
		"a file in a folder":  {map[string]string{"slurm.conf": "a", "cgroup.conf": "", "d/x": ""}, false},
		"what no set can be":  {map[string]string{"slurm.conf": "\x00", "cgroup.conf": ""}, false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.same, texts(c.files) == TextsDigest(base)) })
	}
	_, err := Texts(filepath.Join(t.TempDir(), "none"))
	require.Error(t, err)
}
