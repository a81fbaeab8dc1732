package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNodeServices: a machine has one sssd, which is systemd's where there is systemd.
func TestNodeServices(t *testing.T) {
	dir := t.TempDir()
	a := &Agent{Options: Options{Config: Config{SSSDConfig: filepath.Join(dir, "sssd.conf"), RunDir: dir}}}
	t.Setenv("PATH", dir)
	t.Setenv("NOTIFY_SOCKET", "")
	services, err := nodeServices(a)
	require.NoError(t, err)
	require.Empty(t, services, "it is not configured")
	require.NoError(t, os.WriteFile(a.Config.SSSDConfig, nil, 0o600))
	_, err = nodeServices(a)
	require.ErrorContains(t, err, "SLURMLET_SSSD_CONFIG", "and not installed")
	t.Setenv("NOTIFY_SOCKET", "/run/systemd/notify")
	services, err = nodeServices(a)
	require.NoError(t, err)
	require.Empty(t, services)
}
