//go:build e2e

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/sandbox"
)

var reloadCases = []testCase{
	{"an edit is live on all nodes", editIsLive},
	{"bad edits under running jobs", badEdits},
	{"killed right after a bad edit", killedAfterABadEdit},
	{"a node that missed an edit fetches it", missedEdit},
	{"a slurm.conf of three lines", threeLines},
	{"edits of a plain file", plainEdits},
	{"what slurmctld ends over is tried before", fullPreflight},
}

// editing is slurmctld with files at /etc/slurm that are edited, of a ConfigMap's volume or plain ones.
type editing struct {
	*cluster
	files map[string]sandbox.File
}

// configMap is slurmctld's pod with such a volume.
func (c *cluster) configMap() (sandbox.PodSpec, *editing) {
	spec := c.Controller()
	e := &editing{cluster: c}
	for i := range spec.Volumes {
		if spec.Volumes[i].Path == "/etc/slurm" {
			spec.Volumes[i].Projected = true
			e.files = spec.Volumes[i].Files
		}
	}
	return spec, e
}

// withConfigMap runs f with such a slurmctld, and puts the usual one back.
func withConfigMap(t *testing.T, c *cluster, conf string, f func(e *editing)) {
	spec, e := c.configMap()
	if conf != "" {
		e.files["slurm.conf"] = sandbox.File{Data: []byte(conf)}
		delete(e.files, "cgroup.conf")
	}
	c.replace(t, spec)
	f(e)
	c.replace(t, c.Controller())
}

// replace has another pod run slurmctld.
func (c *cluster) replace(t *testing.T, controller sandbox.PodSpec) {
	t.Helper()
	require.NoError(t, c.Delete(t.Context(), sandbox.Controller, grace))
	require.NoError(t, c.Create(t.Context(), controller))
	c.waitReady(t, sandbox.Controller, "node-0", "node-1")
}

// with is the files with one of them changed.
func (e *editing) with(name, text string) map[string]sandbox.File {
	files := maps.Clone(e.files)
	files[name] = sandbox.File{Data: []byte(text)}
	return files
}

func (e *editing) conf() string { return string(e.files["slurm.conf"].Data) }

func (e *editing) swap(t *testing.T, files map[string]sandbox.File) {
	t.Helper()
	require.NoError(t, e.SetFiles(t.Context(), sandbox.Controller, "etc", files))
}

// waitLive waits until slurmctld and both nodes have what is live, and returns when slurmctld's agent was sure of it.
func (e *editing) waitLive(t *testing.T, former string) string {
	t.Helper()
	var s *agent.ConfStatus
	until(t, "the edit is live", func() (bool, string) {
		s = e.agent(t, sandbox.Controller).Conf
		return s.Good != former && s.Live == s.Good && s.Doing == "" && s.Refused == nil, tells(s)
	})
	return s.Good
}

func tells(s *agent.ConfStatus) string {
	text, _ := json.Marshal(s) // cannot fail
	return string(text)
}

// copies are where daemons keep what they have fetched.
var copies = map[string]string{"node-0": "/var/spool/slurmd/conf-cache", "node-1": "/var/spool/slurmd/conf-cache", "login": "/run/slurm/conf"}

// inCopies waits for sackd, whom nobody asks; slurmds have the text already, because slurmctld's agent has asked for them.
func (e *editing) inCopies(t *testing.T, text string) {
	t.Helper()
	for pod, dir := range copies {
		until(t, pod+" has the text", func() (bool, string) {
			have := e.run(t, pod, "cat", dir+"/slurm.conf")
			return strings.Contains(have, text), have
		})
	}
}

// sinceSwap is how long after a moment, in seconds of the pods' clock, the last node had another slurmd.
func (e *editing) sinceSwap(t *testing.T, moment string) time.Duration {
	t.Helper()
	seconds, err := strconv.ParseFloat(strings.TrimSpace(moment), 64)
	require.NoError(t, err)
	from := time.Unix(0, int64(seconds*1e9))
	last := from
	for _, node := range []string{"node-0", "node-1"} {
		until(t, node+" has another slurmd", func() (bool, string) {
			since := e.agent(t, node).Main.Since
			if since.After(last) {
				last = since
			}
			return since.After(from), since.String()
		})
	}
	return last.Sub(from)
}

func editIsLive(t *testing.T, c *cluster) {
	withConfigMap(t, c, "", func(e *editing) {
		good := e.agent(t, sandbox.Controller).Conf.Good
		var edited, bare []time.Duration
		for n := range 5 {
			value := fmt.Sprintf("PrologEpilogTimeout=%d", 70+n)
			e.swap(t, e.with("slurm.conf", strings.Replace(e.conf(), "PrologEpilogTimeout=60", value, 1)))
			good = e.waitLive(t, good)
			edited = append(edited, e.sinceSwap(t, e.run(t, sandbox.Controller, "stat", "-c", "%.9Y", "/etc/slurm/..data")))
			e.inCopies(t, value)
			e.waitReady(t, sandbox.Controller, "node-0", "node-1")
			bare = append(bare, e.sinceSwap(t, e.run(t, sandbox.Controller, "sh", "-c", "date +%s.%N; scontrol reconfigure")))
			e.waitReady(t, sandbox.Controller, "node-0", "node-1")
		}
		slices.Sort(edited)
		slices.Sort(bare)
		t.Logf("from the swap of ..data to the last node's new slurmd %v; from a bare scontrol reconfigure %v (medians %v and %v)", edited, bare, edited[2], bare[2])
		// Ten in a row: the last one counts.
		for n := range 10 {
			e.swap(t, e.with("slurm.conf", strings.Replace(e.conf(), "PrologEpilogTimeout=60", fmt.Sprintf("PrologEpilogTimeout=%d", 80+n), 1)))
		}
		until(t, "the last edit is live", func() (bool, string) {
			s := e.agent(t, sandbox.Controller).Conf
			out := e.run(t, sandbox.Controller, "scontrol", "show", "config")
			return strings.Contains(out, "PrologEpilogTimeout     = 89") && s.Doing == "" && s.Live == s.Good, tells(s)
		})
		e.inCopies(t, "PrologEpilogTimeout=89")
	})
}

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

var badSlurmConfs = []badEdit{
	{name: "a line that is none", text: add("Foo"), says: confAt},
	{name: "an unknown key", text: add("Foo=bar"), says: confAt},
	{name: "an unknown node in a partition", text: add("PartitionName=x Nodes=nosuch"), says: confAt + "23:23: error: partition x has nosuch"},
	{name: "a plugin that slurmctld does not find", text: set("SchedulerType", "sched/nosuch"), says: confAt + "23:15: error: SchedulerType is sched/nosuch"},
	{name: "a plugin that slurmd does not find", text: set("TaskPlugin", "task/nosuch"), says: "changed: slurm.conf: TaskPlugin: task/cgroup → task/nosuch (slurm.conf:22:12)"},
	{name: "half a file", text: func(conf string) string { return conf[:strings.Index(conf, "PartitionName=")+5] }, says: confAt},
	{name: "an empty file", text: only(""), says: "/etc/slurm/slurm.conf: the file is empty"},
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

// badEdits: 22 of them, and with SLURMLET_E2E_FULL=1 ten times as many, every one after four good ones.
func badEdits(t *testing.T, c *cluster) {
	withConfigMap(t, c, "", func(e *editing) {
		id := e.submit(t, "for i in $(seq 100000); do sleep 0.1; test -e /shared/stop && exit 0; done", "-N2", "--no-requeue")
		e.waitJob(t, id, "RUNNING")
		before := map[string]int{"node-0": e.agent(t, "node-0").Restarts, "node-1": e.agent(t, "node-1").Restarts}
		edits := 0
		for round := range reloadRounds() {
			for n, bad := range badSlurmConfs {
				if withTime() {
					for range 4 {
						edits++
						good := e.agent(t, sandbox.Controller).Conf.Good
						e.files = e.with("slurm.conf", set("PrologEpilogTimeout", fmt.Sprint(100+edits))(e.conf()))
						e.swap(t, e.files)
						e.waitLive(t, good)
					}
				}
				t.Run(fmt.Sprintf("%d.%d %s", round, n, bad.name), func(t *testing.T) { e.refuses(t, bad) })
			}
		}
		e.swap(t, e.files)
		e.waitLive(t, "")
		assert.Equal(t, "RUNNING", e.job(t, id)["JobState"])
		e.run(t, "login", "touch", "/shared/stop")
		e.waitJob(t, id, "COMPLETED")
		e.run(t, "login", "rm", "/shared/stop")
		for node, restarts := range before {
			assert.Equal(t, restarts, e.agent(t, node).Restarts, node)
			assert.Zero(t, e.pod(t, node).Restarts)
		}
		assert.Zero(t, e.pod(t, sandbox.Controller).Restarts)
	})
}

func reloadRounds() int {
	if os.Getenv("SLURMLET_E2E_FULL") != "" {
		return 2
	}
	return 1
}

func (e *editing) spoilt(bad badEdit) map[string]sandbox.File {
	file := cmp.Or(bad.file, "slurm.conf")
	return e.with(file, bad.text(string(e.files[file].Data)))
}

func (e *editing) refuses(t *testing.T, bad badEdit) {
	since, before := time.Now(), e.agent(t, sandbox.Controller).Conf.Refused
	e.swap(t, e.spoilt(bad))
	var s *agent.ConfStatus
	until(t, "it is refused", func() (bool, string) {
		s = e.agent(t, sandbox.Controller).Conf
		return s.Refused != nil && (before == nil || s.Refused.Since.After(before.Since)) && s.Doing == "" && s.Live == s.Good, tells(s)
	})
	t.Logf("%v: %s", time.Since(since).Round(10*time.Millisecond), strings.Join(s.Refused.Why, "\n"))
	assert.Contains(t, strings.Join(s.Refused.Why, "\n"), bad.says)
	e.measures(t, sandbox.Controller, "slurmlet_config_refused 1")
	good := e.run(t, sandbox.Controller, "cat", "/run/slurmlet/conf/slurm.conf")
	for _, node := range []string{"node-0", "node-1"} {
		until(t, "the last good one is in the cache", func() (bool, string) {
			have := e.run(t, node, "cat", "/var/spool/slurmd/conf-cache/slurm.conf")
			return have == good, have
		})
	}
}

// killedAfterABadEdit: both daemons come back on the last good configuration.
func killedAfterABadEdit(t *testing.T, c *cluster) {
	withConfigMap(t, c, "", func(e *editing) {
		id := e.submit(t, "sleep 20; echo done", "-w", "node-0", "--no-requeue")
		e.waitJob(t, id, "RUNNING")
		good := e.agent(t, sandbox.Controller).Conf.Good
		for _, text := range []string{add("Foo=bar")(e.conf()), add("PartitionName=x Nodes=nosuch")(e.conf())} {
			e.swap(t, e.with("slurm.conf", text))
			require.NoError(t, e.Kill(t.Context(), sandbox.Controller, "KILL"))
			e.run(t, "node-1", "pkill", "-9", "-x", "slurmd")
			e.waitReady(t, sandbox.Controller, "node-0", "node-1")
			until(t, "it says what was refused", func() (bool, string) {
				s := e.agent(t, sandbox.Controller).Conf
				return s.Refused != nil && s.Live == good && s.Doing == "", tells(s)
			})
		}
		assert.Equal(t, "0", e.waitJob(t, id, "COMPLETED")["Restarts"])
	})
}

// missedEdit: the cables of a node and of the login pod are out when the configuration is pushed.
func missedEdit(t *testing.T, c *cluster) {
	withConfigMap(t, c, "", func(e *editing) {
		good := e.agent(t, sandbox.Controller).Conf.Good
		missing := []string{"node-1", "login"}
		for _, pod := range missing {
			require.NoError(t, e.Link(t.Context(), pod, false))
		}
		e.swap(t, e.with("slurm.conf", strings.Replace(e.conf(), "PrologEpilogTimeout=60", "PrologEpilogTimeout=75", 1)))
		until(t, "the others have it", func() (bool, string) {
			s := e.agent(t, sandbox.Controller).Conf
			return s.Good != good || s.Refused != nil, tells(s)
		})
		t.Logf("%+v", *e.agent(t, sandbox.Controller).Conf)
		for _, pod := range missing {
			require.NoError(t, e.Link(t.Context(), pod, true))
		}
		back := time.Now()
		e.inCopies(t, "PrologEpilogTimeout=75")
		t.Logf("they have it %v after their cables were back", time.Since(back))
		e.waitReady(t, missing...)
	})
}

// threeLines: what pods need besides is added.
func threeLines(t *testing.T, c *cluster) {
	conf := "ClusterName=sandbox\nSlurmctldHost=slurmctld\nPartitionName=all Nodes=ALL Default=yes\n"
	withConfigMap(t, c, conf, func(e *editing) {
		out := e.as(t, "alice", "login", "srun", "-N2", "hostname")
		assert.ElementsMatch(t, []string{"node-0", "node-1"}, strings.Fields(out))
		assert.Empty(t, e.agent(t, sandbox.Controller).Conf.Costs)
	})
}

// plainEdits: in place, by an editor's rename, many at once, during a reconfigure, and while slurmctld is down. The last
// content wins, and nothing is reconfigured for those between.
func plainEdits(t *testing.T, c *cluster) {
	e := &editing{cluster: c}
	edit := func(from, to int, around string) {
		t.Helper()
		replace := fmt.Sprintf("sed -i s/PrologEpilogTimeout=%d/PrologEpilogTimeout=%d/ /etc/slurm/slurm.conf", from, to)
		_, _, _, err := e.Exec(t.Context(), sandbox.Controller, "sh", "-c", fmt.Sprintf(around, replace))
		require.NoError(t, err)
		text := fmt.Sprintf("PrologEpilogTimeout=%d", to)
		until(t, text+" is live", func() (bool, string) {
			have, _, _, _ := e.Exec(t.Context(), sandbox.Controller, "cat", "/run/slurmlet/conf/slurm.conf")
			return strings.Contains(have, text), have
		})
		e.waitReady(t, sandbox.Controller)
		e.waitLive(t, "")
		e.inCopies(t, text)
	}
	lives := func() (n int) {
		for _, line := range e.lines(t, sandbox.Controller, agent.Source) {
			if line["msg"] == "the configuration is live" {
				n++
			}
		}
		return n
	}
	edit(60, 61, `f=/etc/slurm/slurm.conf; cp $f /tmp/c; sed -i s/PrologEpilogTimeout=60/PrologEpilogTimeout=61/ /tmp/c; : %.0s; cat /tmp/c > $f`)
	edit(61, 62, "%s")
	before := lives()
	edit(62, 79, `%.0sfor i in $(seq 62 78); do sed -i s/PrologEpilogTimeout=$i/PrologEpilogTimeout=$((i + 1))/ /etc/slurm/slurm.conf; done`)
	assert.LessOrEqual(t, lives()-before, 3)
	edit(79, 80, "scontrol reconfigure & sleep 0.2; %s; wait")
	edit(80, 81, "%s; pkill -9 -x slurmctld")
	e.waitReady(t, sandbox.Controller, "node-0", "node-1")
	assert.Contains(t, e.run(t, sandbox.Controller, "scontrol", "show", "config"), "PrologEpilogTimeout     = 81")
	c.replace(t, c.Controller())
}
