package login

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSSSD(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	o := Options{SSSDConfig: filepath.Join(dir, "sssd.conf"), RunDir: t.TempDir()}
	l, err := Open(o)
	require.NoError(t, err)
	require.Empty(t, l.Services(), "it is not configured")

	require.NoError(t, os.WriteFile(o.SSSDConfig, nil, 0o600))
	_, err = Open(o)
	require.ErrorContains(t, err, "SLURMLET_SSSD_CONFIG", "and not installed")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "sssd"), nil, 0o755))
	l, err = Open(o)
	require.NoError(t, err)
	require.Len(t, l.Services(), 1)
	require.Equal(t, "sssd", l.Services()[0].Name)
	require.FileExists(t, filepath.Join(o.RunDir, "sssd", "sssd.conf"))
}
