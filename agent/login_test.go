package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSSSD: a machine has one sssd, which is systemd's where there is systemd.
func TestSSSD(t *testing.T) {
	for socket, want := range map[string]bool{"": true, "/run/systemd/notify": false} {
		t.Setenv("NOTIFY_SOCKET", socket)
		require.Equal(t, want, daemon{part: partOf(Slurmd)}.hasSSSD(), socket)
	}
	t.Setenv("NOTIFY_SOCKET", "")
	require.True(t, daemon{part: partOf(Login)}.hasSSSD())
	require.False(t, daemon{part: partOf(Slurmctld)}.hasSSSD())
}

// TestSSHUnderSystemd: a second sshd would take the machine's port, and its PAM service.
func TestSSHUnderSystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/run/systemd/notify")
	err := (&Agent{Options: Options{Config: Config{SSH: true}}, daemon: daemon{part: partOf(Slurmd)}}).openServices()
	require.ErrorContains(t, err, "SLURMLET_SSH=yes: on a machine with systemd")
	require.Equal(t, ExitConfig, codeOf(err))
}
