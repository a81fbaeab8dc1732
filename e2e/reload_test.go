//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

var reloadCases = []testCase{
	{"a silent connection to slurmctld", silentConnection, either},
	{"a node that missed an edit fetches it", missedEdit, either},
	{"edits of a ConfigMap", configMapEdits, both},
	{"edits of a plain file", plainEdits, either},
}

// configMapEdits share a slurmctld: to have another takes longer than most of them.
func configMapEdits(t *testing.T, c *cluster) {
	withConfigMap(t, c, "", func(e *editing) {
		t.Run("an edit is live on all nodes", e.isLive)
		t.Run("the last of many edits is live", e.lastIsLive)
		t.Run("bad edits under running jobs", e.badUnderJobs)
		t.Run("a partition with jobs is not taken away", e.partitionStays)
		t.Run("scripts are run", e.scriptsRun)
		t.Run("killed right after a bad edit", e.killedAfterABadOne)
	})
}

// editing is slurmctld with files at /etc/slurm that are edited, of a ConfigMap's volume or plain ones.
type editing struct {
	*cluster
	files map[string]sandbox.File
}

// configMap is slurmctld's pod with such a volume.
func (c *cluster) configMap() (sandbox.PodSpec, *editing) {
	spec := c.Slurmctld()
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
	c.replace(t, c.Slurmctld())
}

// replace has another pod in the place of the one with its name.
func (c *cluster) replace(t *testing.T, spec sandbox.PodSpec) {
	t.Helper()
	require.NoError(t, c.Delete(t.Context(), spec.Name, grace))
	require.NoError(t, c.Create(t.Context(), spec))
	c.waitReady(t, spec.Name, "node-0", "node-1")
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
	require.NoError(t, e.SetFiles(t.Context(), sandbox.Slurmctld, "etc", files))
}

// waitLive waits until slurmctld and both nodes have what is live, and returns when slurmctld's agent was sure of it.
func (e *editing) waitLive(t *testing.T, former string) string {
	t.Helper()
	var s *reconfig.Status
	until(t, "the edit is live", func() (bool, string) {
		s = e.agent(t, sandbox.Slurmctld).Conf
		return s.Good != former && s.Live == s.Good && s.Doing == "" && s.Refused == nil, tells(s)
	})
	return s.Good
}

func tells(s *reconfig.Status) string {
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
			have, missing, _, err := e.Exec(t.Context(), pod, "cat", dir+"/slurm.conf") // a sackd that is restarted has none for a moment
			require.NoError(t, err)
			return strings.Contains(have, text), have + missing
		})
	}
}

// sinceSwap is how long after the last swap of ..data, by the pods' clock, the last node had another slurmd.
func (e *editing) sinceSwap(t *testing.T) time.Duration {
	t.Helper()
	seconds, err := strconv.ParseFloat(strings.TrimSpace(e.run(t, sandbox.Slurmctld, "stat", "-c", "%.9Y", "/etc/slurm/..data")), 64)
	require.NoError(t, err)
	swap := time.Unix(0, int64(seconds*1e9))
	last := swap
	for _, node := range []string{"node-0", "node-1"} {
		until(t, node+" has another slurmd", func() (bool, string) {
			since := e.agent(t, node).Main.Since
			if since.After(last) {
				last = since
			}
			return since.After(swap), since.String()
		})
	}
	return last.Sub(swap)
}

// isLive: make bench says how long it takes beside a bare scontrol reconfigure.
func (e *editing) isLive(t *testing.T) {
	good := e.agent(t, sandbox.Slurmctld).Conf.Good
	for n := range rounds(1, 5) {
		value := fmt.Sprintf("PrologEpilogTimeout=%d", 70+n)
		e.swap(t, e.with("slurm.conf", strings.Replace(e.conf(), "PrologEpilogTimeout=60", value, 1)))
		good = e.waitLive(t, good)
		t.Logf("from the swap of ..data to the last node's new slurmd %v", e.sinceSwap(t))
		e.inCopies(t, value)
		e.waitReady(t, sandbox.Slurmctld, "node-0", "node-1")
	}
}

// lastIsLive: ten in a row, and the last one counts.
func (e *editing) lastIsLive(t *testing.T) {
	for n := range 10 {
		e.swap(t, e.with("slurm.conf", strings.Replace(e.conf(), "PrologEpilogTimeout=60", fmt.Sprintf("PrologEpilogTimeout=%d", 80+n), 1)))
	}
	until(t, "the last edit is live", func() (bool, string) {
		s := e.agent(t, sandbox.Slurmctld).Conf
		out := e.run(t, sandbox.Slurmctld, "scontrol", "show", "config")
		return strings.Contains(out, "PrologEpilogTimeout     = 89") && s.Doing == "" && s.Live == s.Good, tells(s)
	})
	e.inCopies(t, "PrologEpilogTimeout=89")
}

// killedAfterABadOne: both daemons come back on the last good configuration.
func (e *editing) killedAfterABadOne(t *testing.T) {
	id := e.submit(t, waits, "-w", "node-0", "--no-requeue")
	e.waitJob(t, id, "RUNNING")
	e.run(t, sandbox.Slurmctld, "scontrol", "update", "jobid="+id, "comment=surely-saved")
	until(t, "slurmctld has saved that the job runs", func() (bool, string) {
		_, said, code, err := e.Exec(t.Context(), sandbox.Slurmctld, "grep", "-q", "surely-saved", "/var/spool/slurmctld/job_state")
		return err == nil && code == 0, said
	})
	good := e.agent(t, sandbox.Slurmctld).Conf.Good
	for _, bad := range badEdits[:rounds(1, 2)] {
		e.swap(t, e.spoilt(bad))
		require.NoError(t, e.Kill(t.Context(), sandbox.Slurmctld, "KILL"))
		e.run(t, "node-1", "pkill", "-9", "-x", "slurmd")
		e.waitReady(t, sandbox.Slurmctld, "node-0", "node-1")
		until(t, "it says what was refused", func() (bool, string) {
			s := e.agent(t, sandbox.Slurmctld).Conf
			return s.Refused != nil && s.Live == good && s.Doing == "", tells(s)
		})
	}
	e.let(t, id)
	assert.Equal(t, "0", e.waitJob(t, id, "COMPLETED")["Restarts"])
}

// hungSlurmctld: slurmctld waits for its threads before it reconfigures, and for ever
// if one of them does; meanwhile nobody can speak to it.
func hungSlurmctld(t *testing.T, c *cluster) {
	withConfigMap(t, c, "", func(e *editing) {
		id := e.submit(t, waits, "-w", "node-0", "--no-requeue")
		e.waitJob(t, id, "RUNNING")
		former := e.agent(t, sandbox.Slurmctld)
		restarts := e.pod(t, sandbox.Slurmctld).Restarts
		e.run(t, sandbox.Slurmctld, "kill", "-STOP", strconv.Itoa(former.Main.PID))
		e.swap(t, e.with("slurm.conf", strings.Replace(e.conf(), "PrologEpilogTimeout=60", "PrologEpilogTimeout=76", 1)))
		within(t, 8*time.Minute, "another container", func() (bool, string) {
			<-time.After(time.Second)
			return e.pod(t, sandbox.Slurmctld).Restarts > restarts, tells(e.agent(t, sandbox.Slurmctld).Conf)
		})
		assert.Contains(t, fmt.Sprint(e.lines(t, sandbox.Slurmctld, agent.Source)), "slurmctld hangs")
		e.waitReady(t, sandbox.Slurmctld, "node-0", "node-1")
		e.waitLive(t, former.Conf.Good)
		e.inCopies(t, "PrologEpilogTimeout=76")
		e.let(t, id)
		assert.Equal(t, "0", e.waitJob(t, id, "COMPLETED")["Restarts"])
	})
}

// silentConnection: a user of the login pod has connections to slurmctld and says nothing, and a job runs. 24.11 would
// serve nobody any more, 26.05 ends them.
func silentConnection(t *testing.T, c *cluster) {
	withConfigMap(t, c, "", func(e *editing) {
		id := e.submit(t, waits, "-w", "node-0", "--no-requeue")
		e.waitJob(t, id, "RUNNING")
		former, before := e.agent(t, sandbox.Slurmctld), e.pod(t, sandbox.Slurmctld).Restarts
		e.as(t, "alice", "login", "bash", "-c", "for i in 1 2 3; do exec {fd}<>/dev/tcp/slurmctld/6817; done; sleep 600 </dev/null >/dev/null 2>&1 &")
		defer func() { e.run(t, "login", "pkill", "-x", "sleep") }()
		began := time.Now()
		e.swap(t, e.with("slurm.conf", strings.Replace(e.conf(), "PrologEpilogTimeout=60", "PrologEpilogTimeout=77", 1)))
		within(t, 2*time.Minute, "the edit is live", func() (bool, string) {
			<-time.After(time.Second)
			s := e.agent(t, sandbox.Slurmctld)
			return s.State == supervisor.Ready && s.Conf.Good != former.Conf.Good, tells(s.Conf)
		})
		restarts := e.pod(t, sandbox.Slurmctld).Restarts - before
		t.Logf("the edit is live after %v and %d restarts", time.Since(began), restarts)
		assert.Equal(t, restarts > 0, strings.Contains(fmt.Sprint(e.lines(t, sandbox.Slurmctld, agent.Source)), "slurmctld hangs: before it reconfigures, it waits for 3 connections"))
		e.waitReady(t, sandbox.Slurmctld, "node-0", "node-1")
		e.inCopies(t, "PrologEpilogTimeout=77")
		e.let(t, id)
		assert.Equal(t, "0", e.waitJob(t, id, "COMPLETED")["Restarts"])
	})
}

// missedEdit: the cables of a node and of the login pod are out when the configuration is pushed, and
// when it is reloaded by hand as it is.
func missedEdit(t *testing.T, c *cluster) {
	withConfigMap(t, c, "", func(e *editing) {
		good := e.agent(t, sandbox.Slurmctld).Conf.Good
		missing := []string{"node-1", "login"}
		for _, pod := range missing {
			require.NoError(t, e.Link(t.Context(), pod, false))
		}
		e.swap(t, e.with("slurm.conf", strings.Replace(e.conf(), "PrologEpilogTimeout=60", "PrologEpilogTimeout=75", 1)))
		until(t, "the others have it", func() (bool, string) {
			s := e.agent(t, sandbox.Slurmctld).Conf
			return s.Good != good || s.Refused != nil, tells(s)
		})
		t.Logf("%+v", *e.agent(t, sandbox.Slurmctld).Conf)
		e.run(t, sandbox.Slurmctld, "slurmlet", "reload")
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
		assert.Empty(t, e.agent(t, sandbox.Slurmctld).Conf.Costs)
	})
}

// plainEdits: in place, by an editor's rename, many at once, during a reconfigure, and while slurmctld is down. The last
// content wins, and nothing is reconfigured for those between.
func plainEdits(t *testing.T, c *cluster) {
	e := &editing{cluster: c}
	edit := func(from, to int, around string) {
		t.Helper()
		replace := fmt.Sprintf("sed -i s/PrologEpilogTimeout=%d/PrologEpilogTimeout=%d/ /etc/slurm/slurm.conf", from, to)
		_, _, _, err := e.Exec(t.Context(), sandbox.Slurmctld, "sh", "-c", fmt.Sprintf(around, replace))
		require.NoError(t, err)
		text := fmt.Sprintf("PrologEpilogTimeout=%d", to)
		until(t, text+" is live", func() (bool, string) {
			have, _, _, _ := e.Exec(t.Context(), sandbox.Slurmctld, "cat", "/run/slurmlet/conf/slurm.conf")
			return strings.Contains(have, text), have
		})
		e.waitReady(t, sandbox.Slurmctld)
		e.waitLive(t, "")
		e.inCopies(t, text)
	}
	lives := func() (n int) {
		for _, line := range e.lines(t, sandbox.Slurmctld, agent.Source) {
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
	e.waitReady(t, sandbox.Slurmctld, "node-0", "node-1")
	assert.Contains(t, e.run(t, sandbox.Slurmctld, "scontrol", "show", "config"), "PrologEpilogTimeout     = 81")
	c.replace(t, c.Slurmctld())
}

// partitionStays: a partition that is taken away has its jobs to their end first.
func (e *editing) partitionStays(t *testing.T) {
	without, with := e.files, e.with("slurm.conf", e.conf()+"PartitionName=extra Nodes=ALL\n")
	former := e.agent(t, sandbox.Slurmctld).Conf.Good
	e.swap(t, with)
	good := e.waitLive(t, former)
	first := e.submit(t, waits, "-p", "extra", "-w", "node-0", "--no-requeue")
	e.waitJob(t, first, "RUNNING")
	waiting := e.submit(t, "echo ran", "-p", "extra", "--hold")
	choosy := e.submit(t, "echo ran", "-p", "extra,all", "--hold")

	e.swap(t, without)
	why := e.waitKept(t, good, first, waiting)
	old := strings.Contains(e.run(t, sandbox.Slurmctld, "scontrol", "-V"), "24.11")
	assert.Equal(t, old, strings.Contains(why, choosy), "until 25.05 a job needs all of its partitions: %s", why)
	<-time.After(25 * time.Second) // it is looked at again
	e.waitKept(t, good, first, waiting)
	assert.Equal(t, []string{"RUNNING", "PENDING", "PENDING"}, []string{e.job(t, first)["JobState"], e.job(t, waiting)["JobState"], e.job(t, choosy)["JobState"]})
	assert.Len(t, e.refusals(t, "PartitionName=extra"), 1, "it is said once")

	// A slurmctld that starts cannot be asked: it comes up with the last good set.
	require.NoError(t, e.Restart(t.Context(), sandbox.Slurmctld, grace))
	e.waitReady(t, sandbox.Slurmctld, "node-0", "node-1")
	e.waitKept(t, good, first, waiting)
	assert.Equal(t, "RUNNING", e.job(t, first)["JobState"])

	e.run(t, sandbox.Slurmctld, "scancel", waiting)
	if old {
		until(t, "the job is in another partition", func() (bool, string) {
			// 24.11 answers with the errno of something else now and then: EAGAIN, EOPNOTSUPP.
			_, said, code, err := e.Exec(t.Context(), sandbox.Slurmctld, "scontrol", "update", "jobid="+choosy, "partition=all")
			return err == nil && code == 0, said
		})
	}
	e.let(t, first)
	assert.Equal(t, "0", e.waitJob(t, first, "COMPLETED")["Restarts"])
	since := time.Now()
	assert.Equal(t, former, e.waitLive(t, good))
	t.Logf("the edit is live %v after the last job's end", time.Since(since).Round(100*time.Millisecond))
	assert.Less(t, time.Since(since), 45*time.Second)
	assert.NotContains(t, e.run(t, sandbox.Slurmctld, "scontrol", "show", "partition"), "PartitionName=extra")
	e.run(t, sandbox.Slurmctld, "scontrol", "release", choosy)
	e.waitJob(t, choosy, "COMPLETED")
}

// waitKept waits until an edit is refused because of these jobs, and returns what is said.
func (e *editing) waitKept(t *testing.T, good string, jobs ...string) string {
	t.Helper()
	why := ""
	until(t, "jobs keep the edit from being used", func() (bool, string) {
		s := e.agent(t, sandbox.Slurmctld).Conf
		if s.Refused != nil {
			why = strings.Join(s.Refused.Why, "\n")
		}
		return s.Refused != nil && s.Doing == "" && s.Live == good && s.Good == good, tells(s)
	})
	assert.Contains(t, why, "/etc/slurm/slurm.conf: error: PartitionName=extra is not there any more, but ")
	for _, id := range jobs {
		assert.Contains(t, why, id)
	}
	return why
}

// refusals are the log's lines about edits that were refused, with these words.
func (e *editing) refusals(t *testing.T, words string) (all []map[string]any) {
	for _, line := range e.lines(t, sandbox.Slurmctld, agent.Source) {
		if line["msg"] == "the configuration is refused; the last good one stays" && strings.Contains(fmt.Sprint(line["error"]), words) {
			all = append(all, line)
		}
	}
	return all
}
