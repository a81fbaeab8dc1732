package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/login"
)

// TestNodeLogin: a machine has one sssd, which is systemd's where there is systemd.
func TestNodeLogin(t *testing.T) {
	a := &Agent{Options: Options{Config: Config{SSSDConfig: "/etc/sssd/sssd.conf"}}}
	for socket, want := range map[string]string{"": "/etc/sssd/sssd.conf", "/run/systemd/notify": ""} {
		t.Setenv("NOTIFY_SOCKET", socket)
		var o login.Options
		nodeLogin(a, &o)
		require.Equal(t, login.Options{SSSDConfig: want}, o)
	}
}
