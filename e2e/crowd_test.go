//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// silentTo holds 900 connections to an address, says nothing on them, and makes anew those that are ended.
const silentTo = `setpriv --reuid 65534 --regid 65534 --clear-groups perl -e 'use Socket; my @c;
sub one { socket(my $f, FAMILY, SOCK_STREAM, 0) or die; connect($f, ADDRESS) or die $!; $f }
push @c, one() for 1..900;
while (1) { sleep 1; for (@c) {
	my $r = recv($_, my $b, 1, MSG_PEEK | MSG_DONTWAIT); $_ = one() if defined $r ? $b eq "" : $!{ECONNRESET} } }' >/dev/null 2>&1 & echo $!`

// crowdedLogin: sackd serves 150 connections at once, those to its port and its socket, and others are served all the same.
func crowdedLogin(t *testing.T, c *cluster) {
	main := c.agent(t, "login").Main
	require.NotNil(t, main)
	for address, told := range map[string]string{
		`AF_UNIX sockaddr_un("/run/slurm/sack.socket")`:    "uid 65534 has ",
		`AF_INET sockaddr_in(6818,inet_aton("127.0.0.1"))`: "of uid 65534",
	} {
		family, address, _ := strings.Cut(address, " ")
		script := strings.NewReplacer("FAMILY", family, "ADDRESS", address).Replace(silentTo)
		crowd := strings.TrimSpace(c.run(t, "login", "sh", "-c", script))
		defer c.run(t, "login", "sh", "-c", "kill "+crowd+" 2>/dev/null || true")
		began := time.Now()
		c.as(t, sandbox.User, "login", "squeue")
		until(t, "the status names the uid", func() (bool, string) {
			s := c.agent(t, "login")
			c.as(t, sandbox.User, "login", "squeue")
			return s.Sack != nil && strings.Contains(s.Sack.String(), told), s.Sack.String()
		})
		t.Logf("%s: the first ones took %v", address, time.Since(began))
		var longest time.Duration
		for i := 0; i < 3 || withTime() && time.Since(began) < 5*time.Minute; i++ {
			again := time.Now()
			c.as(t, sandbox.User, "login", "squeue")
			longest = max(longest, time.Since(again))
		}
		assert.Less(t, longest, 20*time.Second, address)
		t.Logf("%s: at most %v for %v", address, longest, time.Since(began))
		assert.Contains(t, c.run(t, "login", "slurmlet", "status"), told)
		c.run(t, "login", "kill", crowd)
	}
	s := c.agent(t, "login")
	assert.Equal(t, main, s.Main, "sackd lives on")
	assert.Equal(t, agent.Login, s.Role)
}
