//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/internal/pod/services"
)

// sshdLines is the name of the volume with the site's lines for sshd.
const sshdLines = "sshd-lines"

// sshdConfig: the site's lines for sshd count for whoever comes in after an edit, and sessions go on. Lines that sshd cannot
// read, or that hide logins from the agent, are refused with the file, the line and the value, and the last good ones stay.
func sshdConfig(t *testing.T, c *cluster) {
	lines := func(text string) map[string]sandbox.File {
		return map[string]sandbox.File{"site.conf": {Data: []byte(text)}}
	}
	spec := c.Login()
	spec.Volumes = append(spec.Volumes, sandbox.Volume{
		Name: sshdLines, Path: "/etc/slurmlet/sshd_config.d", Projected: true, Files: lines("SetEnv SITE=one\n"),
	})
	c.replace(t, spec)
	defer c.replace(t, c.Login())
	set := func(text string) { require.NoError(t, c.SetFiles(t.Context(), "login", sshdLines, lines(text))) }
	site := func(want string) {
		t.Helper()
		until(t, "a new session has SITE="+want, func() (bool, string) {
			client, err := dialSSH(t, c, userKey(t, c))
			if err != nil {
				return false, fmt.Sprint(err)
			}
			defer client.Close()
			got := runSSH(t, client, "printenv SITE")
			return got == want+"\n", got
		})
	}
	refused := func(want string) {
		t.Helper()
		until(t, "the agent refuses: "+want, func() (bool, string) {
			got := c.helper(t, "sshd").Refused
			return got == want, got
		})
	}
	first := comeIn(t, c)
	require.Equal(t, "one\n", runSSH(t, first, "printenv SITE"))
	before := c.helper(t, "sshd")
	set("SetEnv SITE=two\nMatch User alice\n\tX11Forwarding no\n")
	site("two")
	for text, want := range map[string]string{
		"SetEnv SITE=three\nPermitRootLogin maybe\n": `/etc/slurmlet/sshd_config.d/site.conf line 2: unsupported option "maybe".: ` +
			`the line is "PermitRootLogin maybe"`,
		"SetEnv SITE=three\nLogLevel ERROR\n": "/etc/slurmlet/sshd_config.d: LogLevel is ERROR, and the agent finds sessions by " +
			"sshd's log: want INFO, VERBOSE or DEBUG",
	} {
		set(text)
		refused(want)
		site("two")
	}
	assert.Contains(t, c.run(t, "login", "slurmlet", "status"), "sshd refuses its next configuration")
	assert.Equal(t, before.PID, c.helper(t, "sshd").PID, "no edit ends sshd")
	c.run(t, "login", "kill", "-9", strconv.Itoa(before.PID))
	until(t, "sshd is back", func() (bool, string) {
		s := c.helper(t, "sshd")
		return s.State == services.Running && s.PID != before.PID, fmt.Sprint(s)
	})
	site("two")
	set("SetEnv SITE=two\nMatch User alice\n\tX11Forwarding no\n")
	refused("")
	assert.Equal(t, "one\n", runSSH(t, first, "printenv SITE"), "the session goes on")

	// Without last good lines, nobody comes in by others than the site's.
	bad := c.Login()
	bad.Name, bad.Restart = "login-2", "Never"
	bad.Volumes = append(bad.Volumes, sandbox.Volume{
		Name: sshdLines, Path: "/etc/slurmlet/sshd_config.d", Projected: true, Files: lines("AllowGroup physics\n"),
	})
	require.NoError(t, c.Create(t.Context(), bad))
	defer func() { assert.NoError(t, c.Delete(t.Context(), bad.Name, grace)) }()
	assert.Equal(t, agent.ExitConfig, c.waitExit(t, bad.Name))
}
