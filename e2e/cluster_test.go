//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/sandbox"
	"github.com/slurmlet/slurmlet/e2e/sandbox/parts"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// limit is how long anything may take that a user would wait for, on a busy
// machine.
const limit = 2 * time.Minute

// grace is a pod's, as the agents in them are told.
const grace = 30 * time.Second

// patience is how many cases of one cluster may fail before the rest is let be.
const patience = 5

// cluster is a sandbox with the pods that "make up" makes.
type cluster struct {
	*sandbox.Sandbox
	sandbox.Cluster
	end func()
}

// eachVersion runs the cases, in order, on one cluster of each Slurm version;
// the clusters know nothing of each other.
// A case leaves the cluster as it found it: all pods Ready.
func eachVersion(t *testing.T, name string, start starter, cases []testCase) {
	for _, version := range parts.Versions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprintf("%s-%d-%s", name, os.Getpid(), strings.ReplaceAll(version, ".", "-"))
			c := start(t, name, version)
			failed := 0
			for _, one := range cases {
				if t.Run(one.name, func(t *testing.T) { one.run(t, c) }) {
					continue
				}
				// Whatever it left, the next case does not suffer from it.
				failed++
				require.Less(t, failed, patience, "no more cases are run")
				c.end()
				c = start(t, fmt.Sprintf("%s-%d", name, failed), version)
			}
		})
	}
}

// starter makes a cluster: up, or one with more in it.
type starter func(t *testing.T, name, version string) *cluster

// inTime are cases that need a quarter of an hour and a machine for themselves:
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
}

// up makes a sandbox with a cluster in it, and checks afterwards, whatever
// happened, that nothing is left of it.
func up(t *testing.T, name, version string) *cluster {
	c := empty(t, name, version)
	require.NoError(t, c.CreateAll(t.Context(), c.Controller(), c.Node(0), c.Node(1), c.Login()))
	c.waitReady(t, sandbox.Controller, "node-0", "node-1", "login")
	return c
}

// empty makes a sandbox without pods.
func empty(t *testing.T, name, version string) *cluster {
	s, err := sandbox.Up(t.Context(), sandbox.Options{Name: name, Slurm: version, Binary: binary(), Progress: t.Logf})
	require.NoError(t, err)
	c := &cluster{Sandbox: s}
	traces := s.Traces()
	c.end = sync.OnceFunc(func() {
		if t.Failed() {
			tellLogs(t, s, name)
		}
		require.NoError(t, s.Down())
		require.Empty(t, traces.Left(), "left of the sandbox")
	})
	t.Cleanup(c.end)
	c.Cluster, err = s.Cluster()
	require.NoError(t, err)
	return c
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
	_, _, _, err := c.Exec(t.Context(), sandbox.Controller, "scancel", "-w", node)
	assert.NoError(t, err)
	assert.NoError(t, c.Delete(t.Context(), node, grace))
	until(t, "the record of "+node+" is deleted", func() (bool, string) {
		if c.record(t, node) == nil {
			return true, ""
		}
		stdout, stderr, _, err := c.Exec(t.Context(), sandbox.Controller, "scontrol", "delete", "nodename="+node)
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
	end := time.Now().Add(limit)
	for {
		ok, saw := met()
		if ok {
			return
		}
		if time.Now().After(end) {
			require.Fail(t, fmt.Sprintf("not within %v: %s; saw: %s", limit, what, saw))
		}
		<-time.After(100 * time.Millisecond)
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
	for field := range strings.FieldsSeq(c.run(t, sandbox.Controller, "scontrol", "--oneliner", "show", "job", id)) {
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
// minutes, and does so again if it was told otherwise while the job was still COMPLETING.
func (c *cluster) completesAnew(t *testing.T, id string) map[string]string {
	t.Helper()
	var job map[string]string
	until(t, "job "+id+" is COMPLETED", func() (bool, string) {
		job = c.job(t, id)
		if job["Reason"] == "BeginTime" {
			_, _, _, err := c.Exec(t.Context(), sandbox.Controller, "scontrol", "update", "jobid="+id, "starttime=now")
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
	out := c.run(t, sandbox.Controller, "scontrol", "show", "node", node, "--json")
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
