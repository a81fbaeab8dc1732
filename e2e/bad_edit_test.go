//go:build e2e

package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

// badEdit is a slurm.conf that somebody has spoilt, or other files, and what the refusal must name.
type badEdit struct {
	name string
	file string // slurm.conf unless it is given
	text func(conf string) string
	says string
}

func add(line string) func(string) string {
	return func(conf string) string { return conf + line + "\n" }
}

func set(key, value string) func(string) string {
	return func(conf string) string {
		var lines []string
		for line := range strings.Lines(conf) {
			if !strings.HasPrefix(line, key+"=") {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "") + key + "=" + value + "\n"
	}
}

func only(text string) func(string) string { return func(string) string { return text } }

const confAt = "/etc/slurm/slurm.conf:"

// badEdits are each found out in another way.
var badEdits = []badEdit{
	{name: "a line that is none", text: add("Foo"), says: confAt},
	{name: "an unknown node in a partition", text: add("PartitionName=x Nodes=nosuch"), says: confAt + "23:23: error: partition x has nosuch"},
	{name: "an empty file", text: only(""), says: "/etc/slurm/slurm.conf: the file is empty"},
	{name: "licenses that are none", text: add("Licenses=foo:bar:1:2"), says: confAt + "23:10: error: Licenses is"},
	{name: "a plugin that slurmctld alone refuses", text: add("JobSubmitPlugins=job_submit/nosuch"), says: "job_submit/nosuch"},
	{name: "a script that is missing", text: add("JobSubmitPlugins=lua"), says: "job_submit"},
}

// moreBadEdits are tried with SLURMLET_E2E_FULL=1. What only the nodes do not take is noticed when none of them
// has taken it for a while.
var moreBadEdits = []badEdit{
	{name: "a plugin that slurmctld does not find", text: set("SchedulerType", "sched/nosuch"), says: confAt + "23:15: error: SchedulerType is sched/nosuch"},
	{name: "an unknown key", text: add("Foo=bar"), says: confAt},
	{name: "a plugin that slurmd does not find", text: set("TaskPlugin", "task/nosuch"), says: "changed: slurm.conf: TaskPlugin: task/cgroup → task/nosuch (slurm.conf:22:12)"},
	{name: "half a file", text: func(conf string) string { return conf[:strings.Index(conf, "PartitionName=")+5] }, says: confAt},
	{name: "a binary", text: func(conf string) string { return conf + "\x7fELF\x00\x01" }, says: confAt},
	{name: "a big file", text: func(conf string) string { return conf + strings.Repeat("# more\n", 2<<20) }, says: "/etc/slurm/slurm.conf: want at most"},
	{name: "an include loop", text: add("Include slurm.conf"), says: confAt},
	{name: "a missing include", text: add("Include nosuch.conf"), says: confAt},
	{name: "a number in words", text: set("MaxNodeCount", "lots"), says: confAt},
	{name: "a value that is none", text: set("ReturnToService", "maybe"), says: confAt},
	{name: "half a host list", text: add("PartitionName=x Nodes=node-[0-"), says: confAt},
	{name: "parameters that are none", text: set("SelectTypeParameters", "CR_Nonsense"), says: confAt},
	{name: "authentication that there is not", text: set("AuthType", "auth/nosuch"), says: confAt},
	{name: "a partition's state that is none", text: add("PartitionName=x Nodes=ALL State=SOON"), says: confAt},
	{name: "another port", text: set("SlurmctldPort", "6917"), says: confAt + "23:15: error: SlurmctldPort was \"6817\" and is \"6917\", which needs a restart of everything"},
	{name: "another cluster's name", text: set("ClusterName", "other"), says: "which needs a restart of everything"},
	{name: "a line of gres.conf that is none", file: "gres.conf", text: only("Foo\n"), says: "/etc/slurm/gres.conf:1:"},
	{name: "a line of cgroup.conf that is none", file: "cgroup.conf", text: only("Foo\n"), says: "/etc/slurm/cgroup.conf:1:"},
	{name: "a cgroup plugin that there is not", file: "cgroup.conf", text: only("CgroupPlugin=cgroup/v7\n"), says: "changed: cgroup.conf: CgroupPlugin: cgroup/v2 → cgroup/v7 (cgroup.conf:1:14)"},
}

func allBadEdits() []badEdit { return slices.Concat(badEdits, moreBadEdits) }

// badUnderJobs: with SLURMLET_E2E_FULL=1 all of them twice, every one after four good ones.
func (e *editing) badUnderJobs(t *testing.T) {
	id := e.submit(t, waits, "-N2", "--no-requeue")
	e.waitJob(t, id, "RUNNING")
	before := map[string]int{"node-0": e.agent(t, "node-0").Restarts, "node-1": e.agent(t, "node-1").Restarts}
	bad := badEdits
	if withTime() {
		bad = allBadEdits()
	}
	edits := 0
	for round := range rounds(1, 2) {
		for n, one := range bad {
			for range rounds(0, 4) {
				edits++
				good := e.agent(t, sandbox.Slurmctld).Conf.Good
				e.files = e.with("slurm.conf", set("PrologEpilogTimeout", fmt.Sprint(100+edits))(e.conf()))
				e.swap(t, e.files)
				e.waitLive(t, good)
			}
			t.Run(fmt.Sprintf("%d.%d %s", round, n, one.name), func(t *testing.T) { e.refuses(t, one) })
		}
	}
	e.swap(t, e.files)
	e.waitLive(t, "")
	assert.Equal(t, "RUNNING", e.job(t, id)["JobState"])
	e.let(t, id)
	e.waitJob(t, id, "COMPLETED")
	for node, restarts := range before {
		assert.Equal(t, restarts, e.agent(t, node).Restarts, node)
		assert.Zero(t, e.pod(t, node).Restarts)
	}
	assert.Zero(t, e.pod(t, sandbox.Slurmctld).Restarts)
}

func (e *editing) spoilt(bad badEdit) map[string]sandbox.File {
	file := cmp.Or(bad.file, "slurm.conf")
	return e.with(file, bad.text(string(e.files[file].Data)))
}

func (e *editing) refuses(t *testing.T, bad badEdit) {
	since, before := time.Now(), e.agent(t, sandbox.Slurmctld).Conf.Refused
	e.swap(t, e.spoilt(bad))
	var s *reconfig.Status
	until(t, "it is refused", func() (bool, string) {
		s = e.agent(t, sandbox.Slurmctld).Conf
		return s.Refused != nil && (before == nil || s.Refused.Since.After(before.Since)) && s.Doing == "" && s.Live == s.Good, tells(s)
	})
	t.Logf("%v: %s", time.Since(since).Round(10*time.Millisecond), strings.Join(s.Refused.Why, "\n"))
	assert.Contains(t, strings.Join(s.Refused.Why, "\n"), bad.says)
	e.measures(t, sandbox.Slurmctld, "slurmlet_config_refused 1")
	good := e.run(t, sandbox.Slurmctld, "cat", "/run/slurmlet/conf/slurm.conf")
	for _, node := range []string{"node-0", "node-1"} {
		until(t, "the last good one is in the cache", func() (bool, string) {
			have := e.run(t, node, "cat", "/var/spool/slurmd/conf-cache/slurm.conf")
			return have == good, have
		})
	}
}
