//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
	"github.com/slurmlet/slurmlet/kubectl-slurm/why"
)

// keepFacts has the facts of each cause written where the unit tests of package why find them.
var keepFacts = flag.Bool("facts", false, "write kubectl-slurm/why/testdata anew")

// sandboxWorld is a sandbox as package why asks it: pods that run are Ready there, and there are no machines.
type sandboxWorld struct {
	c   *cluster
	pod string
}

func (w sandboxWorld) Ask(ctx context.Context, command ...string) (string, error) {
	stdout, stderr, code, err := w.c.ExecAs(ctx, w.pod, sandbox.How{User: "root", Dir: "/tmp"}, command...)
	if err == nil && code != 0 {
		err = &slurm.Refusal{Command: command, Status: code, Said: stderr}
	}
	return stdout, err
}

func (w sandboxWorld) Pods(ctx context.Context) (map[string]*why.Pod, error) {
	pods, err := w.c.Status(ctx)
	all := map[string]*why.Pod{}
	for _, p := range pods {
		all[p.Name] = &why.Pod{Name: p.Name, Role: p.Role, Machine: "sandbox", Phase: p.State, Ready: p.State == sandbox.Running}
	}
	return all, err
}

func (w sandboxWorld) Machine(context.Context, string) (*why.Machine, error) { return nil, nil }

func (w sandboxWorld) Events(context.Context, string) ([]why.Event, error) { return nil, nil }

func (w sandboxWorld) LastWords(context.Context, string) ([]string, error) { return nil, nil }

func (w sandboxWorld) Inside(pod string) slurm.Asker { return sandboxWorld{w.c, pod} }

// waiter is a job that waits for one cause.
type waiter struct {
	name string
	// make has the job wait, and returns its number.
	make func(t *testing.T, c *cluster) string
	// kind is the surest cause's.
	kind string
	// text is a part of what is said.
	text string
	// reason is slurmctld's after the cure; empty for a job that begins.
	reason string
}

// waiters are causes made for real. The first command among the cures of the surest cause is run, and ends it.
var waiters = []waiter{
	{"held by its user", func(t *testing.T, c *cluster) string { return c.submit(t, "true", "--hold") }, "held", "alice, or an administrator", ""},
	{"held by an administrator", func(t *testing.T, c *cluster) string {
		id := c.submit(t, "true", "--begin=now+1hour")
		c.run(t, sandbox.Slurmctld, "scontrol", "hold", id)
		return id
	}, "held", "Its user cannot release it", "BeginTime"},
	{"begin time", func(t *testing.T, c *cluster) string { return c.submit(t, "true", "--begin=now+1hour") }, "begin time", "(in 59m", ""},
	{"dependency never satisfied", func(t *testing.T, c *cluster) string {
		failed := c.submit(t, "false")
		c.waitJob(t, failed, "FAILED")
		return c.submit(t, "true", "-d", "afterok:"+failed)
	}, "dependency never satisfied", "is FAILED", ""},
	{"partition down", func(t *testing.T, c *cluster) string {
		c.run(t, sandbox.Slurmctld, "scontrol", "update", "partitionname=many", "state=down")
		return c.submit(t, "true", "-p", "many")
	}, "partition down", "The partition many is DOWN", ""},
	{"time limit", func(t *testing.T, c *cluster) string { return c.submit(t, "true", "-p", "short", "-t", "20") }, "time limit", "wants 20m0s, and the partition short allows 10m0s", ""},
	{"too large", func(t *testing.T, c *cluster) string {
		require.NoError(t, c.Create(t.Context(), c.Node(1)))
		c.waitReady(t, "node-1")
		large := c.submit(t, "true", "--hold", "--mem=600")
		require.NoError(t, c.Delete(t.Context(), "node-1", grace))
		c.run(t, sandbox.Slurmctld, "scontrol", "release", large)
		return large
	}, "too large", "node-0: 448 MiB, and the job wants 600 MiB on a node", ""},
	{"too few nodes", func(t *testing.T, c *cluster) string {
		if strings.Contains(c.run(t, sandbox.Slurmctld, "scontrol", "--version"), "24.11") {
			t.Skip("24.11 takes no such job")
		}
		return c.submit(t, "true", "-N2", "--mem=10")
	}, "too few nodes", "The job wants 2 nodes, and the partition all has 1", ""},
	{"reservation", func(t *testing.T, c *cluster) string {
		c.reserve(t, "later", "alice")
		return c.submit(t, "true", "--reservation=later", "-t", "1")
	}, "reservation", "The reservation later begins at", ""},
	{"reserved for others", func(t *testing.T, c *cluster) string {
		c.reserve(t, "others", "root")
		return c.submit(t, "true", "-w", "node-0")
	}, "reserved", "The reservation others has node-0 from", ""},
	{"licenses", func(t *testing.T, c *cluster) string {
		c.waitJob(t, c.submit(t, "sleep 1000", "-p", "many", "--mem=10", "-L", "matlab:1"), "RUNNING")
		return c.submit(t, "true", "-p", "many", "--mem=10", "-L", "matlab:1")
	}, "license", "matlab: 1 of 1 are used", ""},
	{"drained", func(t *testing.T, c *cluster) string {
		c.run(t, sandbox.Slurmctld, "scontrol", "update", "nodename=node-0", "state=drain", "reason=disk | broken")
		return c.submit(t, "true")
	}, "drained", "node-0: drained by root since", ""},
	{"resources", func(t *testing.T, c *cluster) string {
		c.waitJob(t, c.submit(t, "sleep 1000", "--exclusive"), "RUNNING")
		return c.submit(t, "true", "--exclusive")
	}, "resources", "Other jobs have the nodes", "Resources"},
	{"priority", func(t *testing.T, c *cluster) string {
		c.waitJob(t, c.submit(t, "sleep 1000", "--exclusive"), "RUNNING")
		first := c.submit(t, "true", "--exclusive")
		c.waitsFor(t, first, "Resources")
		return c.submit(t, "true", "--exclusive")
	}, "priority", "is ahead, with priority", "Priority"},
	limited("a limit of the QOS", "many", "qos normal set MaxJobsPerUser=1", "QOSMaxJobsPerUserLimit", "the QOS normal", "qos normal set MaxJobsPerUser=-1"),
	limited("a limit of CPUs of a QOS", "many", "qos normal set MaxTRESPerUser=cpu=1", "QOSMaxCpuPerUserLimit", "the QOS normal", "qos normal set MaxTRESPerUser=cpu=-1"),
	limited("a limit of the QOS of the partition", "narrow", "qos narrow set GrpJobs=1", "QOSGrpJobsLimit", "the QOS narrow", "qos narrow set GrpJobs=-1"),
	// The user has the account's limit, and his own one overrides it.
	limited("a limit of the account for each user", "many", "account users set MaxJobs=1", "AssocMaxJobsLimit", "alice in the account users", "account users set MaxJobs=-1", "user alice set MaxJobs=-1"),
	limited("a limit of the account above", "many", "account faculty set GrpTRES=cpu=1", "AssocGrpCpuLimit", "the account faculty", "account faculty set GrpTRES=cpu=-1"),
}

// limited is a job that waits for a limit, which another job has used up: one that sacctmgr sets, and slurmctld names.
func limited(name, partition, set, reason, whose string, undo ...string) waiter {
	return waiter{name, func(t *testing.T, c *cluster) string {
		modify := func(ctx context.Context, what string) {
			command := append([]string{"sacctmgr", "-i", "modify"}, strings.Fields(what)...)
			_, said, status, err := c.ExecAs(ctx, sandbox.Slurmctld, sandbox.How{User: "root", Dir: "/tmp"}, command...)
			require.NoError(t, err)
			require.Zero(t, status, said)
		}
		t.Cleanup(func() {
			for _, one := range undo {
				modify(context.WithoutCancel(t.Context()), one)
			}
		})
		modify(t.Context(), set)
		c.waitJob(t, c.submit(t, "sleep 1000", "-p", partition, "--mem=10"), "RUNNING")
		return c.submit(t, "true", "-p", partition, "--mem=10")
	}, "limit", "A limit of " + whose + " is reached (" + reason + ")", ""}
}

// reserve has node-0 reserved in an hour.
func (c *cluster) reserve(t *testing.T, name, user string) {
	t.Helper()
	c.run(t, sandbox.Slurmctld, "scontrol", "create", "reservation", "reservationname="+name, "starttime=now+1hour", "duration=30", "users="+user, "nodes=node-0")
}

// waitsFor waits for slurmctld's reason.
func (c *cluster) waitsFor(t *testing.T, id, reason string) {
	t.Helper()
	until(t, "job "+id+" waits for "+reason, func() (bool, string) {
		saw := c.job(t, id)["Reason"]
		return saw == reason, saw
	})
}

// whyJobsWait makes causes for real, and ends each by a command that kubectl slurm why shows.
func whyJobsWait(t *testing.T, c *cluster) {
	e := &editing{cluster: c}
	swap := e.lives(t)
	for _, add := range []string{"account faculty", "account users parent=faculty", "user " + sandbox.User + " account=users", "qos narrow"} {
		c.run(t, sandbox.Slurmctld, append([]string{"sacctmgr", "-i", "add"}, strings.Fields(add)...)...)
	}
	// slurmctld looks at jobs that wait for a limit or a partition once a minute by itself.
	const narrow = "PartitionName=narrow Nodes=ALL OverSubscribe=FORCE:50 QOS=narrow\nSchedulerParameters=sched_interval=2,bf_interval=2\n"
	swap(c.SlurmConf + "AccountingStorageEnforce=limits\nLicenses=matlab:1\nPartitionName=short Nodes=ALL MaxTime=10\n" + narrow)
	for _, w := range waiters {
		t.Run(w.name, func(t *testing.T) { w.run(t, c) })
	}
	t.Run("a refused edit is told, too", func(t *testing.T) { refusedEditTold(t, c, e) })
	swap(c.SlurmConf)
	// slurmdbd tells slurmctld what is deleted, and 24.11's two wait for each other while slurmctld registers itself there.
	until(t, "slurmctld serves again", func() (bool, string) {
		saw, _, _, err := c.Exec(t.Context(), sandbox.Slurmctld, "scontrol", "ping")
		return err == nil && strings.Contains(saw, "is UP"), saw
	})
	for _, gone := range []string{"user " + sandbox.User, "account users,faculty", "qos narrow"} {
		c.run(t, sandbox.Slurmctld, append([]string{"sacctmgr", "-i", "delete"}, strings.Fields(gone)...)...)
	}
}

// lives edits slurm.conf, and waits until the edit is live.
func (e *editing) lives(t *testing.T) (swap func(conf string)) {
	before := e.agent(t, sandbox.Slurmctld).Conf.Good
	return func(conf string) {
		e.swap(t, map[string]sandbox.File{"slurm.conf": {Data: []byte(conf)}, "cgroup.conf": {Data: []byte(e.CgroupConf)}})
		before = e.waitLive(t, before)
	}
}

func (w waiter) run(t *testing.T, c *cluster) {
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, undo := range []string{"scancel --user=alice", "scontrol delete reservation=later", "scontrol delete reservation=others"} {
			_, _, _, _ = c.ExecAs(ctx, sandbox.Slurmctld, sandbox.How{User: "root", Dir: "/tmp"}, strings.Fields(undo)...)
		}
		until(t, "no job is left", func() (bool, string) {
			saw, _, _, _ := c.ExecAs(ctx, sandbox.Slurmctld, sandbox.How{User: "root", Dir: "/tmp"}, "squeue", "-h", "--user=alice")
			return saw == "", saw
		})
	})
	id := w.make(t, c)
	var facts why.Facts
	var answer why.Answer
	until(t, "why says "+w.kind, func() (bool, string) {
		var err error
		facts, err = why.GatherJob(t.Context(), sandboxWorld{c, sandbox.Slurmctld}, id, time.Now())
		require.NoError(t, err)
		answer = why.Judge(facts)
		text := said(answer)
		return len(answer.Causes) > 0 && answer.Causes[0].Kind == w.kind && answer.Causes[0].Sure == why.Certain && strings.Contains(text, w.text), text
	})
	assert.Empty(t, answer.Unknown)
	t.Log(said(answer))
	if *keepFacts {
		keep(t, c, w.name, facts)
	}
	cures := answer.Causes[0].Cures
	at := slices.IndexFunc(cures, func(one why.Cure) bool { return one.Command != nil })
	if at < 0 {
		return
	}
	command := cures[at].Command.Args
	switch {
	case cures[at].Command.Slurm:
	case len(command) == 4 && command[2] == "resume":
		command = []string{"scontrol", "update", "nodename=" + command[3], "state=resume"} // what kubectl slurm resume runs
	default:
		return // it shows more
	}
	c.run(t, sandbox.Slurmctld, command...)
	if w.reason != "" {
		c.waitsFor(t, id, w.reason)
		return
	}
	until(t, "the job has run", func() (bool, string) {
		saw := c.job(t, id)
		return saw["JobState"] == "COMPLETED", saw["JobState"] + " " + saw["Reason"]
	})
}

// said is an answer as people read it.
func said(a why.Answer) string {
	var text strings.Builder
	a.WriteText(&text, why.Runner{Slurm: []string{"kubectl", "exec", "-n", "slurm", "slurm-slurmctld-0", "-c", "slurmctld", "--"}, Namespace: "slurm"})
	return text.String()
}

func keep(t *testing.T, c *cluster, name string, facts why.Facts) {
	text, err := json.MarshalIndent(facts, "", " ")
	require.NoError(t, err)
	words := strings.Fields(c.run(t, sandbox.Slurmctld, "scontrol", "--version"))
	version := strings.Join(strings.Split(words[len(words)-1], ".")[:2], ".")
	file := strings.ReplaceAll(name, " ", "-") + "-" + version + ".json"
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(binary()), "..", "kubectl-slurm", "why", "testdata", file), append(text, '\n'), 0o644))
}

// refusedEditTold: whoever waits for an edit learns that it is refused.
func refusedEditTold(t *testing.T, c *cluster, e *editing) {
	id := c.submit(t, "true", "-p", "short", "-t", "20")
	c.waitsFor(t, id, "PartitionTimeLimit")
	e.swap(t, map[string]sandbox.File{"slurm.conf": {Data: []byte(c.SlurmConf + "PartitionName=short Nodes=ALL MaxTime=60\nMaxTme=1\n")}, "cgroup.conf": {Data: []byte(c.CgroupConf)}})
	until(t, "why tells of the edit", func() (bool, string) {
		facts, err := why.GatherJob(t.Context(), sandboxWorld{c, sandbox.Slurmctld}, id, time.Now())
		require.NoError(t, err)
		text := said(why.Judge(facts))
		if ok := strings.Contains(text, "An edit of slurm.conf is refused since") && strings.Contains(text, "MaxTme"); !ok {
			return false, text
		}
		if *keepFacts {
			keep(t, c, "refused edit", facts)
		}
		t.Log(text)
		return true, ""
	})
	e.swap(t, map[string]sandbox.File{"slurm.conf": {Data: []byte(c.SlurmConf + "PartitionName=short Nodes=ALL MaxTime=60\nSchedulerParameters=sched_interval=2,bf_interval=2\n")}, "cgroup.conf": {Data: []byte(c.CgroupConf)}})
	c.waitJob(t, id, "COMPLETED")
}
