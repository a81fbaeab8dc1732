package main

import (
	"bytes"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// TestStranger: a process of the container that is not the main one claims to be it.
func TestStranger(t *testing.T) {
	t.Parallel()
	play(t, given{role: "slurmd", files: map[string]string{"stranger": "", "mute": ""}}, phase{
		"it is refused, and nothing changes", nil, []condition{
			logged(entry{"source": "slurmlet", "level": "WARN", "msg": "a notification was refused", "uid": "0", "error": "not one of ours"}),
			is(supervisor.Starting, launching, ""),
		},
	})
}

// TestUser: a user's process can talk to neither of the agent's sockets.
func TestUser(t *testing.T) {
	t.Parallel()
	c := start(t, given{role: "slurmd"})
	c.await(phase{name: "it is Ready", want: []condition{isReady}})
	for network, socket := range map[string]string{"unixgram": "notify.sock", "unix": "agent.sock"} {
		for uid, want := range map[uint32]string{0: "<nil>\n", 65534: "permission denied\n"} {
			cmd := exec.CommandContext(t.Context(), c.path("bin/connect"), network, c.path("run/"+socket))
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
			said, err := cmd.CombinedOutput()
			require.NoError(t, err, string(said))
			require.True(t, bytes.HasSuffix(said, []byte(want)), "user %d, %s: %s", uid, socket, said)
		}
	}
}
