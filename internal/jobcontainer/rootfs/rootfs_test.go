package rootfs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/options"
)

func TestReadEnvironment(t *testing.T) {
	text := "PATH=\"/bin\"\nexport A='b c'\nEMPTY=\n# comment=1\n1X=2\nno line\nB=a=b\nQ=\"\n  S=1  \n"
	assert.Equal(t, []string{"PATH=/bin", "A=b c", "EMPTY=", "B=a=b", `Q="`, "S=1"}, readEnvironment(text))
}

func TestEnvironment(t *testing.T) {
	t.Setenv("KEPT", "job") // LC_ALL is not the job's, so it is the image's
	image := []string{"A=1", "A=2", "HOME=/x", "SLURM_JOB_ID=7", "PMIX_RANK=1", "KEPT=image", "LANG=C"}
	s := Spec{Options: options.Options{Env: []string{"KEPT", "LC_ALL"}}}
	assert.Equal(t, []string{"A=2", "LANG=C", "LANGUAGE", "LC_ALL"}, s.environment(image))
	s.RemapRoot = true
	assert.Equal(t, []string{"A=2", "HOME=/root", "LANG=C", "LANGUAGE", "LC_ALL"}, s.environment(image))
}

func TestDerivedVariables(t *testing.T) {
	image := []string{"PYTORCH_VERSION=2"}
	var s Spec
	for name, value := range map[string]string{
		"PMIX_SECURITY_MODE": "native", "PMIX_GDS_MODULE": "hash", "PMIX_MCA_gds": "mine",
		"SLURM_STEP_NODELIST": "gpu[07-12],x", "SLURM_JOB_ID": "9073", "SLURM_STEP_NUM_TASKS": "8",
	} {
		t.Setenv(name, value)
	}
	want := []string{"PMIX_MCA_psec=native", "MASTER_ADDR=gpu07", "MASTER_PORT=61001", "WORLD_SIZE=8"}
	assert.Equal(t, want, s.derived(image))
	assert.Equal(t, want[:1], s.derived(nil))
	t.Setenv("MASTER_ADDR", "mine")
	assert.Equal(t, []string{want[0], want[2], want[3]}, s.derived(image))
	t.Setenv("SLURM_STEP_NODELIST", "")
	assert.Equal(t, want[:1], s.derived(image), "a batch script's steps have their own")
}

// TestEntrypointEnvironment: pyxis gives an entrypoint none of the job's variables but those that are asked for.
func TestEntrypointEnvironment(t *testing.T) {
	for name, value := range map[string]string{"MINE": "job", "ASKED": "job", "SLURM_JOB_ID": "7", "TERM": "dumb"} {
		t.Setenv(name, value)
	}
	s := Spec{Options: options.Options{Env: []string{"ASKED"}}}
	got := s.entrypointEnvironment([]string{"ASKED=image", "ONLY=image"})
	assert.Subset(t, got, []string{"ONLY=image", "ASKED=job", "SLURM_JOB_ID=7", "TERM=dumb"})
	assert.NotContains(t, got, "MINE=job")
	assert.Less(t, slices.Index(got, "ASKED=image"), slices.Index(got, "ASKED=job"), "the last one wins")
}

func TestHasID(t *testing.T) {
	text := "root:x:0:0:root:/root:/bin/sh\nbad:1000\nalice:x:1000:1000::/:/bin/sh\n"
	assert.True(t, hasID(text, ":1000:"))
	assert.False(t, hasID(text, ":100:"))
}

// TestPlaces: what an image's links say leads nowhere but into the image.
func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "real"), 0o755))
	for name, to := range map[string]string{"up": "../..", "abs": "/real", "gone": "/nowhere"} {
		require.NoError(t, os.Symlink(to, filepath.Join(root, name)))
	}
	in, err := openInside(root)
	require.NoError(t, err)
	for path, made := range map[string]string{
		"/a/b": "a/b", "../../c": "c", "/up/d": "d", "/abs/e/f": "real/e/f", "/up/../up/g": "g",
	} {
		_, err := in.place(path, false)
		require.NoError(t, err, path)
		assert.DirExists(t, filepath.Join(root, made), path)
	}
	_, err = in.place("/abs/file", true)
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(root, "real/file"))
	_, err = in.place("/gone/x", false)
	require.ErrorContains(t, err, "cannot make /gone/x")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1)
}

// FuzzReadEnvironment: an image's file gives names and values alone.
func FuzzReadEnvironment(f *testing.F) {
	f.Add("A=1\nB=\"2\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, entry := range readEnvironment(text) {
			require.Regexp(t, `^[A-Za-z_][A-Za-z0-9_]*=`, entry)
			require.NotContains(t, entry, "\x00")
		}
	})
}

func TestWorkdirOf(t *testing.T) {
	for rc, want := range map[string]string{
		"": "",
		"mkdir -p \"/work\" 2> /dev/null\ncd \"/work\" && unset OLDPWD || exit 1\n": "/work",
		"cd '/a b'\ncd \"/c\"": "/a b",
		"cd \"\"\n cd \"/no\"\ncd \"open\ncd /plain\ncd \"/yes'": "/yes",
	} {
		assert.Equal(t, want, workdirOf(rc), rc)
	}
}
