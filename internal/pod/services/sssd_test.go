package services

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSSSD(t *testing.T) {
	dir, runDir := t.TempDir(), t.TempDir()
	t.Setenv("PATH", dir)
	config := filepath.Join(dir, "sssd.conf")
	s := New(Options{})
	require.NoError(t, s.AddSSSD(config, runDir, true))
	require.Empty(t, s.Statuses(), "it is not configured")

	require.NoError(t, os.WriteFile(config, []byte("[domain/site]\n"), 0o600))
	require.ErrorContains(t, s.AddSSSD(config, runDir, true), "SLURMLET_SSSD_CONFIG", "and not installed")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "sssd"), nil, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.crt"), nil, 0o644))
	require.NoError(t, s.AddSSSD(config, runDir, true))
	require.Len(t, s.Statuses(), 1)
	require.Equal(t, "sssd", s.Statuses()[0].Name)
	text, err := os.ReadFile(filepath.Join(runDir, "sssd", "sssd.conf"))
	require.NoError(t, err)
	require.Equal(t, "[domain/site]\nldap_tls_cacert = "+dir+"/ca.crt\n\n[pam]\npam_initgroups_scheme = always\n", string(text))
}

// TestTrust: each domain knows its directory by the certificates, unless sssd.conf says by which.
func TestTrust(t *testing.T) {
	for text, want := range map[string]string{
		"[sssd]\n[domain/a]\nid_provider = ldap\n[domain/b]\n": "[sssd]\n[domain/a]\nldap_tls_cacert = /ca\nid_provider = ldap\n" +
			"[domain/b]\nldap_tls_cacert = /ca\n",
		"[domain/a]\n[domain/a/b]\n":          "[domain/a]\nldap_tls_cacert = /ca\n[domain/a/b]\n",
		"[domain/a]\nldap_tls_cacert = /mine": "[domain/a]\nldap_tls_cacert = /mine",
	} {
		require.Equal(t, want, trust(text, "/ca"))
	}
}

func TestAskAnew(t *testing.T) {
	for text, want := range map[string]string{
		"[sssd]\n":                               "[sssd]\n\n[pam]\npam_initgroups_scheme = always\n",
		"[pam]\nverbosity = 3\n[sssd]\n":         "[pam]\npam_initgroups_scheme = always\nverbosity = 3\n[sssd]\n",
		"[pam]\npam_initgroups_scheme = never\n": "[pam]\npam_initgroups_scheme = never\n",
	} {
		require.Equal(t, want, askAnew(text))
	}
}
