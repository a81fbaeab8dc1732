package importer

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/layers"
)

func TestEnvironment(t *testing.T) {
	assert.Equal(t, "PATH=/bin\nA=b c\nE=\n", environment([]string{"PATH=/bin", "A=b c", "E=", "no line", "1=2", "N=a\nb", "=x"}))
	assert.Equal(t, "${ENROOT_ROOTFS}/a /a none x-create=dir,bind,rw,nosuid,nodev\n", volumes(map[string]struct{}{"/a": {}, "/b c": {}}))
}

// TestRC has a shell run it: with a command, without one, and with words that a shell would read otherwise.
func TestRC(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a $HOME`b`")
	for name, c := range map[string]struct {
		config v1.Config
		args   []string
		want   string
	}{
		"a command of the image's":     {v1.Config{Cmd: []string{"echo", "it's", "$HOME"}}, nil, "it's $HOME\n"},
		"an entrypoint":                {v1.Config{Entrypoint: []string{"echo", "in"}, Cmd: []string{"cmd"}}, nil, "in cmd\n"},
		"an entrypoint, and a command": {v1.Config{Entrypoint: []string{"echo", "in"}, Cmd: []string{"cmd"}}, []string{"a b", "$HOME"}, "in a b $HOME\n"},
		"a command":                    {v1.Config{}, []string{"echo", "x"}, "x\n"},
		"a label":                      {v1.Config{Labels: map[string]string{"a": "b\necho evil"}}, []string{"echo", "x"}, "x\n"},
		"the working directory":        {v1.Config{}, []string{"pwd"}, dir + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			script := filepath.Join(t.TempDir(), "rc")
			require.NoError(t, os.WriteFile(script, []byte(rc(dir, c.config)), 0o600))
			out, err := exec.Command("/bin/sh", append([]string{script}, c.args...)...).CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Equal(t, c.want, string(out))
		})
	}
}

func TestConfigure(t *testing.T) {
	tree := layers.New()
	require.NoError(t, configure(tree, v1.Config{WorkingDir: "/work/deep"}))
	for _, name := range []string{"work/deep", "etc/rc", "etc/environment", "etc/fstab", "etc/rc.local"} {
		_, there := tree.Lookup(name)
		assert.True(t, there, name)
	}
	require.ErrorContains(t, configure(layers.New(), v1.Config{WorkingDir: "/a\"b"}), "cannot name")
}
