//go:build e2e

package kube

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/papers"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// olderSlurm is the version from which the upgrade comes.
const olderSlurm = "24.11"

// slurmUpgrade: a chart with a newer Slurm changes nothing of a cluster with an older one before slurm.upgrade=true. Then
// jobs run on, and the commands of docs/run/upgrade.md bring the older one back.
func slurmUpgrade(t *testing.T, all *cluster) {
	if all.version != parts.Newest() {
		t.Skip("it upgrades to " + parts.Newest())
	}
	for _, role := range []string{"slurmctld", "slurmd", "login", "slurmdbd"} {
		require.NoError(t, all.Import(t.Context(), repository("bin/images/"+role+"-"+strings.ReplaceAll(olderSlurm, ".", "-")+".tar")))
	}
	c := all.within(t, "slurm", "baseline") // as the page has it
	c.version = olderSlurm
	// A node waits as long for its job as the newer slurmdbd takes to convert its database.
	values := []string{"--set", "accounting.enabled=true,nodeDefaults.terminationGracePeriodSeconds=900,accounting.mariadb.image=" + databaseImage}
	c.install(t, values...)
	c.accounts(t)
	counted := c.ask(t, "sacct -n -P -X -o JobID,State -S now-1hour")
	const end = "/tmp/end"
	runs := c.running(t, "until test -e "+end+"; do sleep 0.2; done", "-w", "slurm-cpu-0")

	t.Run("it is refused", func(t *testing.T) {
		pods, made := c.pods(t), c.generations(t)
		said := c.helmFails(t, slices.Concat([]string{"upgrade", release, chart, "--namespace", c.namespace, "-f", "values.yaml", "-f", "testdata/values.yaml"}, values)...)
		assert.Contains(t, said, "slurmctld is of Slurm 24.11, and image.slurm=26.05 would convert its state and the database for good: "+
			"set slurm.upgrade=true to have it, or image.slurm=24.11 to stay")
		assert.Equal(t, made, c.generations(t), "the upgrade has changed something")
		assert.Equal(t, pods, c.pods(t))
		assert.Equal(t, "RUNNING", runs.is(t, "JobState"))
	})
	t.Run("it is taken with leave", func(t *testing.T) {
		c.upgrade(t, "--set", "slurm.upgrade=true,image.slurm="+all.version)
		c.served(t, all.version)
		assert.Equal(t, "RUNNING", runs.is(t, "JobState"), "under the newer slurmctld")
		status := c.kubectl(t, "exec", "slurm-slurmdbd-0", "--", "slurmlet", "status")
		assert.Regexp(t, `\nDump +/var/spool/slurmdbd/slurm_acct_db-before-26\.05-\w+\.sql\.gz, `, status)
		t.Log(status)
		c.kubectl(t, "exec", "slurm-cpu-0", "--", "touch", end)
		runs.completes(t, "0")
		c.bothIdle(t)
		assert.Contains(t, c.ask(t, "sacct -n -P -X -o JobID,State -S now-1hour"), counted)
		c.accounts(t)
		c.upgrade(t, "--set", "slurm.upgrade=false")
		c.served(t, all.version)
		assert.Empty(t, c.field(t, "pod/slurm-slurmdbd-0", `.spec.volumes[?(@.name=="dumps")]`))
		assert.Equal(t, "Bound", c.field(t, "persistentvolumeclaim/slurm-slurmdbd-dumps", ".status.phase"))
		c.runHelm(t, "upgrade", release, chart, "--reuse-values", "--set", "slurm.upgrade=true", "--dry-run=server") // which takes the claim again
	})
	t.Run("it is taken back by the page's commands", func(t *testing.T) {
		c.takeBack(t)
		c.served(t, olderSlurm)
		c.bothIdle(t)
		saw := c.ask(t, "sacct -n -P -X -o JobID,State -S now-1hour")
		assert.Contains(t, saw, counted)
		c.accounts(t)
	})
	c.leave(t)
	// A namespace that is deleted beside a pod on its way down is looked at again after half of that pod's grace period,
	// which are 12 hours of slurmdbd's.
	c.kubectl(t, "wait", "--for=delete", "pod", "--all", "--timeout", limit.String())
}

// generations are those of the StatefulSets, which any change of theirs moves.
func (c *cluster) generations(t *testing.T) string {
	t.Helper()
	return c.kubectl(t, "get", "statefulsets", "-o", "jsonpath={range .items[*]}{.metadata.name} {.metadata.generation} {end}")
}

// served waits until slurmctld, slurmdbd and the login pod are of a version, and serve.
func (c *cluster) served(t *testing.T, version string) {
	t.Helper()
	for _, name := range []string{"slurmdbd", "slurmctld", "login"} {
		c.kubectl(t, "rollout", "status", "statefulset/slurm-"+name, "--timeout", limit.String())
	}
	until(t, "slurmctld is of "+version, func() (bool, string) {
		saw := c.ask(t, "scontrol show config | grep SLURM_VERSION")
		return strings.Contains(saw, "= "+version+"."), saw
	})
	until(t, "slurmdbd answers", func() (bool, string) {
		saw := c.ask(t, "sacctmgr -n -P show cluster format=Cluster")
		return saw == release, saw
	})
}

// takeBack runs all commands of the page's way back, with the testbed's images, and what it finds by them.
func (c *cluster) takeBack(t *testing.T) {
	t.Helper()
	page, err := papers.Read(repository("."), "docs/run/upgrade.md")
	require.NoError(t, err)
	at := func(heading string) int { return slices.Index(page.Lines, heading) + 1 }
	from, to := at("## The way back"), at("## A dump of your own")
	require.True(t, 0 < from && from < to)
	snapshot, dump := regexp.MustCompile(`24\.11-to-26\.05-\w+`), regexp.MustCompile(`slurm_acct_db-before-\S+\.sql\.gz`)
	found := map[*regexp.Regexp]string{}
	for _, block := range page.Blocks {
		if block.Line < from || block.Line > to {
			continue
		}
		text := strings.NewReplacer(
			"docker.io/library/debian:trixie-slim", databaseImage, "docker.io/library/mariadb:11.8", databaseImage,
			"helm upgrade slurm charts/slurm", fmt.Sprintf("%s upgrade slurm %s", c.helm, chart),
		).Replace(block.Text)
		for name, is := range found {
			text = name.ReplaceAllLiteralString(text, is)
		}
		out, status := c.shell(t, "set -eu\n"+text)
		require.Zero(t, status, "%s: %s", block, out)
		t.Logf("%s%s", text, out)
		for _, name := range []*regexp.Regexp{snapshot, dump} {
			if is := name.FindString(out); is != "" {
				found[name] = is
			}
		}
	}
	require.Len(t, found, 2)
}
