package confset

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
	assert.Equal(t, TextsDigest(base), TextsDigest(map[string]string{"slurm.conf": "a", "cgroup.conf": "", "slurm.key": "x"}))
	_, err := Texts(filepath.Join(t.TempDir(), "none"))
	require.Error(t, err)
}
