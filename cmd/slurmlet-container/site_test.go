package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSite(t *testing.T) {
	for text, want := range map[string][2]string{
		"required spank_slurmlet.so image_dir=%h/images mount_home=1\n":                   {defaultStore, "%h/images"},
		"optional lua.so\n required /opt/spank_slurmlet.so store=/data image_dir=/i/%U\n": {"/data", "/i/%U"},
		"# required spank_slurmlet.so store=/data\n":                                      {defaultStore, ""},
		"required spank_slurmlet.so store=data image_dir=/images\n":                       {defaultStore, ""},
		"required\n": {defaultStore, ""},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "plugstack.conf"), []byte(text), 0o600))
		s := readSite(func(string) string { return filepath.Join(dir, "slurm.conf") })
		require.Equal(t, want, [2]string{s.store, s.ImageDir}, text)
	}
}
