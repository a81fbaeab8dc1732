package adopt

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
)

func put(t *testing.T, root string, paths ...string) {
	t.Helper()
	for _, path := range paths {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, path), nil, 0o644))
	}
}

func TestOptions(t *testing.T) {
	const head = "# slurmlet writes this file at each start. sshd lets those in who have a job on this node, by their keys.\n" +
		"auth required pam_deny.so\naccount required pam_nologin.so\n"
	const adopt = "account required pam_slurm_adopt.so service=slurmlet-node nodename=gpu-0 action_no_jobs=deny action_unknown=newest " +
		"action_adopt_failure=deny action_generic_failure=deny\n"
	const end = "session required pam_limits.so\nsession required pam_env.so\n"
	for name, c := range map[string]struct {
		files []string
		want  string
	}{
		"Debian": {
			[]string{"usr/lib/x86_64-linux-gnu/security/pam_slurm_adopt.so", "etc/pam.d/common-account", "etc/pam.d/common-session"},
			head + "account substack common-account\n" + adopt + "session substack common-session\n" + end,
		},
		"Fedora": {
			[]string{"usr/lib64/security/pam_slurm_adopt.so", "etc/pam.d/password-auth", "etc/pam.d/system-auth"},
			head + "account substack password-auth\n" + adopt + "session substack password-auth\n" + end,
		},
		"neither": {
			[]string{"lib/security/pam_slurm_adopt.so", "etc/pam.d/other"},
			head + "account required pam_unix.so\n" + adopt + "session required pam_unix.so\n" + end,
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			put(t, root, c.files...)
			options, err := Options(root, "gpu-0")
			require.NoError(t, err)
			require.Contains(t, options, "PAMServiceName slurmlet-node")
			text, err := os.ReadFile(filepath.Join(root, "etc/pam.d/slurmlet-node"))
			require.NoError(t, err)
			require.Equal(t, c.want, string(text))
		})
	}
}

// TestNobodyComesInWithout the module, or without its rules.
func TestNobodyComesInWithout(t *testing.T) {
	root := t.TempDir()
	put(t, root, "etc/pam.d/common-account")
	_, err := Options(root, "gpu-0")
	fault, is := errors.AsType[*exitcode.Fault](err)
	require.True(t, is)
	require.Equal(t, exitcode.Missing, fault.Code)
	require.EqualError(t, err, "SLURMLET_SSH=yes: cannot find pam_slurm_adopt.so of PAM: install libpam-slurm-adopt, or slurm-pam_slurm")

	root = t.TempDir()
	put(t, root, "lib/security/pam_slurm_adopt.so")
	_, err = Options(root, "gpu-0")
	require.ErrorContains(t, err, "SLURMLET_SSH=yes: cannot write the PAM service of sshd: ")
}
