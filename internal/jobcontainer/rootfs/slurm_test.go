package rootfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/options"
)

func TestSlurmIsLastInPath(t *testing.T) {
	var s Spec
	assert.Equal(t, []string{"A=1", "PATH=/opt:/.slurmlet/bin"}, s.withSlurm([]string{"A=1", "PATH=/opt"}))
	t.Setenv("PATH", "/of/the/job")
	assert.Equal(t, []string{"PATH=/of/the/job:/.slurmlet/bin"}, s.withSlurm(nil))
	t.Setenv("PATH", "")
	assert.Equal(t, []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/.slurmlet/bin"}, s.withSlurm(nil))
}

// TestOwnContainer: Slurm gives the options of a job to its steps, and a step's own container is in their place.
func TestOwnContainer(t *testing.T) {
	job := func() []string {
		return []string{"A=1", "SLURM_SPANK__SLURM_SPANK_OPTION_slurmlet_container_image=/a", "SLURM_SPANK__SLURM_SPANK_OPTION_other_x=1"}
	}
	assert.Equal(t, job(), ownContainer([]string{"-n2", "--container-mounts=/a", "true"}, job()))
	const name = "SLURM_SPANK__SLURM_SPANK_OPTION_slurmlet_container_name=x"
	assert.Equal(t, []string{"A=b:c", name},
		ownContainer([]string{"true"}, []string{"A=b:c", name + ":create", "SLURM_SPANK__SLURM_SPANK_OPTION_slurmlet_container_save=/x"}))
	for _, args := range [][]string{{"--container-image=/b"}, {"-n2", "--container-image", "/b"}, {"--container-name=x"}} {
		assert.Equal(t, []string{"A=1", "SLURM_SPANK__SLURM_SPANK_OPTION_other_x=1"}, ownContainer(args, job()), args)
	}
}

func TestDaemonLine(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	t.Setenv("SLURM_CONF", conf)
	for text, want := range map[string]string{
		"ClusterName=x\n slurmuser = root # not slurm\n": "root:",
		"# SlurmUser=root\n":                             "",
		"SlurmUser=nobody-has-this\n":                    "",
		"ClusterName=x\n":                                "",
	} {
		require.NoError(t, os.WriteFile(conf, []byte(text), 0o600))
		got := daemonLine("alice:x:1000:1000::/:/bin/sh\n")
		if want == "" {
			assert.Empty(t, got, text)
			continue
		}
		assert.Regexp(t, "^"+want+"[^\n]*\n$", got, text)
		assert.Empty(t, daemonLine(want+"x:7:7::/:/bin/sh\n"), "the image's own line stays")
	}
}

func TestIsSlurm(t *testing.T) {
	assert.True(t, IsSlurm("/.slurmlet/bin/srun"))
	assert.True(t, IsSlurm("squeue"))
	assert.False(t, IsSlurm("slurmlet-container"))
}

// TestSlurmOfTheImage: an image with its own Slurm keeps it, and one that cannot have the node's says so where it is
// asked.
func TestSlurmOfTheImage(t *testing.T) {
	root := t.TempDir()
	in, err := openInside(root)
	require.NoError(t, err)
	s := Spec{Options: options.Options{NoSlurm: true}}
	require.NoError(t, s.addSlurm(in))
	assert.False(t, s.hasSlurm)
	if _, is := findSlurm(); is {
		t.Skip("this machine has Slurm")
	}
	s = Spec{}
	require.NoError(t, s.addSlurm(in))
	s = Spec{Options: options.Options{WantSlurm: true}}
	require.ErrorContains(t, s.addSlurm(in), "--container-slurm: the node has no srun")
}
