//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/internal/kit/releases"
)

// versionsKnown: each role's agent knows which Slurm its daemon is, down to Debian's revision, and what is known against
// it. dpkg's database of a further node is that of an older revision.
func versionsKnown(t *testing.T, c *cluster) {
	const dpkg = "/var/lib/dpkg/status"
	for pod, name := range map[string]string{
		sandbox.Slurmctld: "slurmctld", "node-0": "slurmd", "login": "sackd", sandbox.Slurmdbd: "slurmdbd", sandbox.Slurmrestd: "slurmrestd",
	} {
		want := strings.TrimSpace(c.run(t, pod, "sh", "-c", `sed -n "/^Package: `+name+`$/,/^$/s/^Version: //p" `+dpkg))
		report := c.slurmOf(t, pod)
		assert.Equal(t, want, report.Version, pod)
		assert.NotContains(t, c.run(t, pod, "slurmlet", "status"), "CVE-", "%s: Debian has mended %s", pod, want)
		assert.Contains(t, c.run(t, pod, "curl", "-s", "localhost:8817/metrics"), `slurmlet_slurm_info{version="`+want+`"`)
	}
	if c.slurmOf(t, "node-0").Version != "24.11.5-4+deb13u1" {
		return
	}
	spec := c.Node(1)
	spec.Volumes = append(spec.Volumes, sandbox.Volume{Name: "dpkg", Path: "/var/lib/dpkg", Files: map[string]sandbox.File{
		"status": {Data: []byte("Package: slurmd\nStatus: install ok installed\nVersion: 24.11.5-4\n\nPackage: slurmctld\nVersion: 24.11.5-4\n")},
	}})
	require.NoError(t, c.CreateAll(t.Context(), spec))
	c.waitReady(t, spec.Name)
	c.slurmOf(t, spec.Name)
	status := c.run(t, spec.Name, "slurmlet", "status")
	for _, cve := range september {
		assert.Contains(t, status, cve+": ")
	}
	assert.Regexp(t, `Upgrade +to 26\.05\.5\nUpgrades +one step reaches 25\.05, 25\.11, 26\.05\n`, status)
	said := c.run(t, spec.Name, "slurmlet", "check", "-o", "github", "/var/spool/slurmd/conf-cache/slurm.conf")
	assert.Contains(t, said, "title=slurm-security::Slurm 24.11.5-4 has known faults: "+strings.Join(september, ", "))
	c.removeNode(t, spec.Name)
}

// september are the CVEs that 24.11.5-4+deb13u1 mends.
var september = []string{
	"CVE-2026-65107", "CVE-2026-65108", "CVE-2026-65109", "CVE-2026-65138", "CVE-2026-65139", "CVE-2026-65140", "CVE-2026-65165",
	"CVE-2026-65168",
}

// slurmOf waits until an agent knows its Slurm, which is after the daemon's start.
func (c *cluster) slurmOf(t *testing.T, pod string) (report releases.Report) {
	t.Helper()
	until(t, "the agent in "+pod+" knows its Slurm", func() (bool, string) {
		s := c.agent(t, pod)
		if s.Release != nil {
			report = *s.Release
		}
		return s.Release != nil, string(s.State)
	})
	return report
}
