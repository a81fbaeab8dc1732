//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/testbed/pace"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/launcher"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// limit is how long anything may take that a user would wait for, on a busy
// machine. slurmctld asks a node again to end a job after KillWait and two MessageTimeouts (30 s each), and looks once
// a minute.
const limit = 3 * time.Minute

// grace is a pod's, as the agents in them are told.
const grace = 30 * time.Second

// patience is how many cases of one cluster may fail before the rest is let be.
const patience = 5

// cluster is a sandbox with the pods that "make up" makes.
type cluster struct {
	*sandbox.Sandbox
	sandbox.Cluster
	traces launcher.Traces
	name   string
}

// bed is what the clusters of a test stand on.
type bed struct {
	name string
	// clusters is how many of each version share the cases.
	clusters int
	noLimits bool
	start    starter
}

// eachVersion runs every case on a cluster of one Slurm version or of each. The clusters take the cases from a queue,
// run them one after the other, and know nothing of each other. A case leaves its cluster as it found it: all pods Ready.
func eachVersion(t *testing.T, b bed, cases []testCase) {
	t.Parallel()
	for at, version := range parts.Versions() {
		queue := make(chan testCase, len(cases))
		for i, one := range cases {
			if withTime() || isNamed(version) || one.on == both || one.on == versions(version) || one.on == either && i%len(parts.Versions()) == at {
				queue <- one
			}
		}
		close(queue)
		for n := range b.clusters {
			t.Run(version, func(t *testing.T) {
				t.Parallel()
				s := &series{bed: b, version: version}
				s.name = fmt.Sprintf("%s-%d-%d-%s", b.name, os.Getpid(), n, strings.ReplaceAll(version, ".", "-"))
				defer func() { s.end(t) }()
				for one := range queue {
					s.run(t, one)
				}
			})
		}
	}
}

// isNamed: -run names the version, so that it is for this one that somebody asks.
func isNamed(version string) bool {
	named := flag.Lookup("test.run")
	return named != nil && strings.Contains(strings.ReplaceAll(named.Value.String(), `\`, ""), version)
}

// series is what one cluster after the other runs.
type series struct {
	bed
	version string
	cluster *cluster
	failed  int
}

// run runs a case. The cluster is made by the first case that -run lets through, and anew after a case that failed:
// whatever that one left, the next does not suffer from it.
func (s *series) run(t *testing.T, one testCase) {
	passed := t.Run(one.name, func(t *testing.T) {
		if s.cluster == nil {
			s.cluster = empty(t, sandbox.Options{Name: fmt.Sprintf("%s-%d", s.name, s.failed), Slurm: s.version, NoLimits: s.noLimits})
			s.start(t, s.cluster)
		}
		one.run(t, s.cluster)
	})
	if !passed {
		s.end(t)
		s.failed++
		require.Less(t, s.failed, patience, "no more cases are run")
	}
}

func (s *series) end(t *testing.T) {
	if s.cluster != nil {
		s.cluster.end(t)
		s.cluster = nil
	}
}

// starter makes a cluster's pods: up, or one with more of them.
type starter func(t *testing.T, c *cluster)

// inTime are cases that need minutes and a machine for themselves:
// they run with SLURMLET_E2E_FULL=1.
func inTime(cases ...[]testCase) []testCase {
	if !withTime() {
		return nil
	}
	return slices.Concat(cases...)
}

type testCase struct {
	name string
	run  func(t *testing.T, c *cluster)
	on   versions
}

// versions says on which Slurm versions a case runs, or names the one. SLURMLET_E2E_FULL=1 runs each on both.
type versions string

const (
	// either is for a case whose code, ours and Slurm's, does the same on each version.
	either versions = "either"
	both   versions = "both"
	// only2411 is for what 24.11 alone is known to do.
	only2411 versions = "24.11"
)

// upAlone makes a sandbox without limits, with a cluster in it, for one test.
func upAlone(t *testing.T, name, version string) *cluster {
	c := empty(t, sandbox.Options{Name: name, Slurm: version, NoLimits: true})
	t.Cleanup(func() { c.end(t) })
	up(t, c)
	return c
}

func up(t *testing.T, c *cluster) {
	require.NoError(t, c.CreateAll(t.Context(), c.Slurmctld(), c.Node(0), c.Node(1), c.Login()))
	c.waitReady(t, sandbox.Slurmctld, "node-0", "node-1", "login")
}

// empty makes a sandbox without pods. Its end is the caller's.
func empty(t *testing.T, o sandbox.Options) *cluster {
	o.Binary, o.With, o.Progress = binary(), os.Getpid(), t.Logf
	s, err := sandbox.Up(context.WithoutCancel(t.Context()), o)
	require.NoError(t, err)
	c := &cluster{Sandbox: s, traces: s.Traces(), name: o.Name}
	c.Cluster, err = s.Cluster()
	assert.NoError(t, err)
	return c
}

// end removes the sandbox, and checks that nothing is left of it, whatever happened.
func (c *cluster) end(t *testing.T) {
	if t.Failed() {
		tellLogs(t, c.Sandbox, c.name)
	}
	assert.NoError(t, c.Down())
	assert.Empty(t, c.traces.Left(), "left of the sandbox")
}

func binary() string {
	dir, _ := os.Getwd()
	return filepath.Join(filepath.Dir(dir), "bin", "slurmlet-sandbox")
}

// tellLogs shows the last lines of each pod, and keeps all of them in bin/logs.
func tellLogs(t *testing.T, s *sandbox.Sandbox, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	dir := filepath.Join(filepath.Dir(binary()), "logs", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Log(err)
	}
	t.Log("all logs: " + dir)
	pods, _ := s.Status(ctx)
	for _, p := range pods {
		log, _ := s.Logs(ctx, p.Name)
		if err := os.WriteFile(filepath.Join(dir, p.Name+".log"), []byte(log), 0o644); err != nil {
			t.Log(err)
		}
		lines := strings.Split(log, "\n")
		t.Logf("%+v\n%s", p, strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
	console, _ := os.ReadFile(s.Console())
	t.Logf("console:\n%s", console)
}

func (c *cluster) waitReady(t *testing.T, pods ...string) {
	t.Helper()
	require.NoError(t, c.WaitReady(t.Context(), limit, t.Logf, pods...))
}

// removeNode deletes a pod and its node's record, whatever has become of them:
// the next case may need the name.
func (c *cluster) removeNode(t *testing.T, node string) {
	t.Helper()
	_, _, _, err := c.Exec(t.Context(), sandbox.Slurmctld, "scancel", "-w", node)
	assert.NoError(t, err)
	assert.NoError(t, c.Delete(t.Context(), node, grace))
	until(t, "the record of "+node+" is deleted", func() (bool, string) {
		if c.record(t, node) == nil {
			return true, ""
		}
		stdout, stderr, _, err := c.Exec(t.Context(), sandbox.Slurmctld, "scontrol", "delete", "nodename="+node)
		assert.NoError(t, err)
		return false, stdout + stderr
	})
}

// until waits for a condition; what it last saw is in the failure.
func until(t *testing.T, what string, met func() (bool, string)) {
	t.Helper()
	within(t, limit, what, met)
}

func within(t *testing.T, limit time.Duration, what string, met func() (bool, string)) {
	t.Helper()
	for began := time.Now(); ; {
		asked := time.Now()
		ok, saw := met()
		if ok {
			return
		}
		if time.Since(began) > limit {
			require.Fail(t, fmt.Sprintf("not within %v: %s; saw: %s", limit, what, saw))
		}
		<-time.After(pace.Pause(began, asked))
	}
}

// run runs a command in a pod as root and wants it to succeed.
func (c *cluster) run(t *testing.T, pod string, args ...string) string {
	t.Helper()
	return c.as(t, "root", pod, args...)
}

func (c *cluster) as(t *testing.T, user, pod string, args ...string) string {
	t.Helper()
	stdout, stderr, code, err := c.ExecAs(t.Context(), pod, sandbox.How{User: user, Dir: "/tmp"}, args...)
	require.NoError(t, err)
	require.Zero(t, code, "%v: %s%s", args, stdout, stderr)
	return stdout
}

// submit submits a script as alice from the login pod and returns the job's number.
func (c *cluster) submit(t *testing.T, script string, options ...string) string {
	t.Helper()
	args := append([]string{"sbatch", "--parsable", "--chdir=/shared", "--output=/shared/%j.out"}, options...)
	return strings.TrimSpace(c.as(t, "alice", "login", append(args, "--wrap", script)...))
}

// job returns fields of "scontrol show job".
func (c *cluster) job(t *testing.T, id string) map[string]string {
	t.Helper()
	fields := map[string]string{}
	for field := range strings.FieldsSeq(c.run(t, sandbox.Slurmctld, "scontrol", "--oneliner", "show", "job", id)) {
		key, value, _ := strings.Cut(field, "=")
		fields[key] = value
	}
	return fields
}

func (c *cluster) waitJob(t *testing.T, id, state string) map[string]string {
	t.Helper()
	var job map[string]string
	until(t, "job "+id+" is "+state, func() (bool, string) {
		job = c.job(t, id)
		return job["JobState"] == state, fmt.Sprint(job["JobState"], " ", job["Reason"])
	})
	return job
}

// completesAnew waits for the end of a job that was requeued. Slurm holds it back for two
// minutes, and does so again if it was told otherwise while the job was still COMPLETING. A credential of the second in
// which the former one was revoked would be refused.
func (c *cluster) completesAnew(t *testing.T, id string) map[string]string {
	t.Helper()
	var job map[string]string
	until(t, "job "+id+" is COMPLETED", func() (bool, string) {
		job = c.job(t, id)
		if job["Reason"] == "BeginTime" {
			_, _, _, err := c.Exec(t.Context(), sandbox.Slurmctld, "scontrol", "update", "jobid="+id, "starttime=now+3")
			require.NoError(t, err)
		}
		return job["JobState"] == "COMPLETED", fmt.Sprint(job["JobState"], " ", job["Reason"])
	})
	return job
}

// record is the node's record as slurmctld has it, nil for none.
func (c *cluster) record(t *testing.T, node string) *slurm.Node {
	t.Helper()
	var answer struct {
		Nodes []slurm.Node `json:"nodes"`
	}
	out := c.run(t, sandbox.Slurmctld, "scontrol", "show", "node", node, "--json")
	require.NoError(t, json.Unmarshal([]byte(out), &answer))
	if len(answer.Nodes) == 0 {
		return nil
	}
	return &answer.Nodes[0]
}

// agent is what the agent in a pod tells about itself on its socket.
func (c *cluster) agent(t *testing.T, pod string) agent.Status {
	t.Helper()
	var s agent.Status
	until(t, "the agent in "+pod+" answers", func() (bool, string) {
		s = agent.Status{} // nothing is left of an answer that ended too early
		err := c.AskAgent(t.Context(), pod, &s)
		return err == nil, fmt.Sprint(err)
	})
	return s
}

// measures: a line is in the metrics of a pod's agent.
func (c *cluster) measures(t *testing.T, pod, line string) {
	t.Helper()
	assert.Contains(t, c.metrics(t, pod), line)
}

func (c *cluster) metrics(t *testing.T, pod string) []string {
	t.Helper()
	response, err := c.HTTP().Get(fmt.Sprintf("http://%s:%d/metrics", pod, sandbox.AgentPort))
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return strings.Split(string(text), "\n")
}

func (c *cluster) pod(t *testing.T, name string) sandbox.PodStatus {
	t.Helper()
	pods, err := c.Status(t.Context())
	require.NoError(t, err)
	for _, p := range pods {
		if p.Name == name {
			return p
		}
	}
	require.Fail(t, "no pod "+name)
	return sandbox.PodStatus{}
}

// waitExit waits for the end of a pod's container and returns its status.
func (c *cluster) waitExit(t *testing.T, name string) int {
	t.Helper()
	return c.waitExitWithin(t, limit, name)
}

func (c *cluster) waitExitWithin(t *testing.T, limit time.Duration, name string) int {
	t.Helper()
	var p sandbox.PodStatus
	within(t, limit, name+" has exited", func() (bool, string) {
		p = c.pod(t, name)
		return p.State == sandbox.Exited, p.State
	})
	return p.ExitCode
}

// lines returns the pod's log lines of one source.
func (c *cluster) lines(t *testing.T, pod, source string) []map[string]any {
	t.Helper()
	log, err := c.Logs(t.Context(), pod)
	require.NoError(t, err)
	var lines []map[string]any
	for text := range strings.Lines(log) {
		line := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(text), &line), "the log is one JSON stream: %s", text)
		if line["source"] == source {
			lines = append(lines, line)
		}
	}
	return lines
}
