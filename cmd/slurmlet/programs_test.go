package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic/programs"
)

// withSets is slurmctld's container with a set of three nodes, of which c-0 is up.
func withSets(env ...string) given {
	return given{role: "slurmctld", env: append(env, "SLURMLET_LOG_LEVEL=debug"), files: map[string]string{
		"sets/c.json": `{"nodes":"c-[0-2]","cpuLimit":"1","memoryLimit":"364Mi"}`,
		"nodes":       nodesUp("c-0"), "configuring": "5 6",
	}}
}

func nodesUp(up ...string) string {
	var text strings.Builder
	for _, name := range []string{"c-0", "c-1", "c-2"} {
		state := "IDLE+CLOUD+POWERING_UP"
		for _, one := range up {
			if one == name {
				state = "IDLE+CLOUD"
			}
		}
		fmt.Fprintln(&text, name, state)
	}
	return text.String()
}

// startWithSets starts it as soon as its stage's path is known.
func startWithSets(t *testing.T, env ...string) *container {
	t.Helper()
	sets := filepath.Join(t.TempDir(), "sets")
	require.NoError(t, os.Mkdir(sets, 0o755))
	g := withSets(append(env, "SLURMLET_ELASTIC_SETS="+sets)...)
	require.NoError(t, os.WriteFile(filepath.Join(sets, "c.json"), []byte(g.files["sets/c.json"]), 0o644))
	c := start(t, g)
	c.await(phase{name: "it is Ready", want: []condition{isReady}})
	return c
}

// program runs one of slurmctld's programs as slurmctld does: by its link, with no environment but the job's.
func (c *container) program(p programs.Program, env ...string) func() outcome {
	c.t.Helper()
	return c.programAs(string(p), p, env...)
}

func (c *container) programAs(name string, p programs.Program, env ...string) func() outcome {
	c.t.Helper()
	var out, err bytes.Buffer
	cmd := exec.CommandContext(c.t.Context(), c.path("run/programs/"+string(p)))
	cmd.Args, cmd.Env, cmd.Stdout, cmd.Stderr = []string{name}, append(env, "GORACE=atexit_sleep_ms=0"), &out, &err
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	require.NoError(c.t, cmd.Start())
	return func() outcome {
		_ = cmd.Wait()
		return outcome{cmd.ProcessState.ExitCode(), out.String(), err.String()}
	}
}

func job(id, nodes string) []string {
	return []string{"SLURM_JOB_ID=" + id, "SLURM_JOB_NODELIST=" + nodes, "SLURM_JOB_START_TIME=" + fmt.Sprint(time.Now().Unix())}
}

// begin returns what the program leads to, once it has ended.
func begin(wait func() outcome) <-chan outcome {
	ended := make(chan outcome, 1)
	go func() { ended <- wait() }()
	return ended
}

// askedFor: slurmctld was asked for a job's state so often.
func askedFor(id string, times int) condition {
	return func(c *container) error {
		if n := strings.Count(c.journal(), "--format=%A %T --jobs="+id+"\n"); n < times {
			return fmt.Errorf("slurmctld was asked for job %s %d times", id, n)
		}
		return nil
	}
}

func soon(t *testing.T, ended <-chan outcome, within time.Duration) outcome {
	t.Helper()
	select {
	case o := <-ended:
		return o
	case <-time.After(within):
		require.FailNow(t, "the program has not ended")
		panic("unreachable")
	}
}

// TestWaitNodes: a job waits until all of its nodes are up, and no longer than it is CONFIGURING.
func TestWaitNodes(t *testing.T) {
	t.Parallel()
	c := startWithSets(t)
	for _, nodes := range []string{"c-0", "s-[1-9]", "c-0,s-1"} {
		require.Equal(t, outcome{}, soon(t, begin(c.program(programs.WaitNodes, job("5", nodes)...)), limit), nodes)
	}
	first, second := begin(c.program(programs.WaitNodes, job("5", "c-[0-1]")...)), begin(c.program(programs.WaitNodes, job("6", "c-[1-2],s-7")...))
	c.await(phase{name: "both wait", want: []condition{askedFor("5,6", 2)}})
	c.put("nodes.next", nodesUp("c-0", "c-1"))
	require.NoError(t, os.Rename(c.path("nodes.next"), c.path("nodes")))
	require.Equal(t, outcome{}, soon(t, first, limit))
	c.await(phase{name: "the other one waits on", want: []condition{askedFor("6", 1)}})
	require.Empty(t, second)
	c.put("configuring", "7")
	require.Equal(t, outcome{}, soon(t, second, limit), "it was cancelled, or requeued")
	third := c.program(programs.WaitNodes, job("7", "c-2")...)
	ended := begin(third)
	c.await(phase{name: "a third waits", want: []condition{askedFor("7", 1)}})
	c.put("down", "")
	require.Equal(t, outcome{}, soon(t, ended, limit), "slurmctld does not answer, and looks for the node itself")
	c.await(phase{name: "the agent says so", want: []condition{logged(entry{"level": "WARN", "job": "7", "why": "slurmctld does not answer"})}})
}

// TestProgramsWake: slurmctld 26.05 gives the others no path in argv[0].
func TestProgramsWake(t *testing.T) {
	t.Parallel()
	c := startWithSets(t)
	for _, p := range []programs.Program{programs.Resume, programs.Suspend, programs.ResumeFailed} {
		require.Equal(t, outcome{}, c.program(p)(), p)
		require.Equal(t, outcome{}, c.programAs(c.path("run/programs/"+string(p)), p)(), p)
		c.await(phase{name: "the agent hears of it", want: []condition{logged(entry{"msg": "slurmctld has run " + string(p)})}})
	}
	o := c.program(programs.WaitNodes)()
	require.Equal(t, 64, o.code)
	require.Contains(t, o.stderr, "want SLURM_JOB_ID")
	for _, bad := range [][]string{job("x", "c-1"), job("5", "c-["), job("5", "")} {
		require.Equal(t, outcome{}, soon(t, begin(c.program(programs.WaitNodes, bad...)), limit), "a PrologSlurmctld that fails would hold its job: %q", bad)
	}
}

// TestProgramsBesideHalfRequests: connections that say nothing, or only a half, keep no program from the agent.
func TestProgramsBesideHalfRequests(t *testing.T) {
	t.Parallel()
	c := startWithSets(t)
	dial := func(text string) net.Conn {
		conn, err := net.Dial("unix", c.path("run/programs/agent.sock"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = conn.Write([]byte(text))
		require.NoError(t, err)
		return conn
	}
	for range 100 {
		dial("")
		dial("POST /wait-nodes?job=5&nodes=c-1 HTTP/1.1\r\nHost:")
	}
	halfBody := dial("POST /notify?program=resume HTTP/1.1\r\nHost: agent\r\nContent-Length: 1000\r\n\r\n")
	require.NoError(t, halfBody.SetReadDeadline(time.Now().Add(limit)))
	answer, err := http.ReadResponse(bufio.NewReader(halfBody), nil)
	require.NoError(t, err, "nobody waits for a body")
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusBadRequest, answer.StatusCode)
	require.Equal(t, outcome{}, c.program(programs.Suspend)())
	require.Equal(t, outcome{}, soon(t, begin(c.program(programs.WaitNodes, job("5", "c-0")...)), limit))
}

// TestProgramsWithoutAnAgent: whatever the agent does, slurmctld does not wait for long, and no job is held.
func TestProgramsWithoutAnAgent(t *testing.T) {
	t.Parallel()
	for _, story := range []struct {
		name string
		do   act
	}{
		{"it hangs", signal(unix.SIGSTOP)},
		{"it is away", func(c *container) { require.NoError(c.t, os.Remove(c.path("run/programs/agent.sock"))) }},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			c := startWithSets(t)
			story.do(c)
			stir, wait := begin(c.program(programs.Resume)), begin(c.program(programs.WaitNodes, job("5", "c-1")...))
			o := soon(t, stir, limit)
			require.Equal(t, 69, o.code)
			require.Contains(t, o.stderr, "resume: no agent answers")
			require.Zero(t, soon(t, wait, 2*limit).code)
		})
	}
}

// TestProgramsOfStrangers: only slurmctld's user may ask, and nothing but what the programs ask.
func TestProgramsOfStrangers(t *testing.T) {
	t.Parallel()
	c := startWithSets(t, "SLURMLET_SLURM_USER=nobody")
	for uid, want := range map[uint32]string{0: "<nil>\n", 65534: "<nil>\n", 1: "permission denied\n"} {
		cmd := exec.CommandContext(t.Context(), c.path("bin/connect"), "unix", c.path("run/programs/agent.sock"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, string(said))
		require.True(t, bytes.HasSuffix(said, []byte(want)), "user %d: %s", uid, said)
	}
	for path, status := range map[string]int{"/notify?program=resume": 200, "/notify?program=drain": 400, "/drain": 404, "/resume": 404, "/status": 404, "/reload": 404} {
		response, err := agent.Tell(t.Context(), c.path("run/programs"), path)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, response.Body)
		require.NoError(t, response.Body.Close())
		require.Equal(t, status, response.StatusCode, path)
	}
}

// TestNoPrograms: without sets there are none.
func TestNoPrograms(t *testing.T) {
	t.Parallel()
	c := start(t, given{role: "slurmctld"})
	c.await(phase{name: "it is Ready", want: []condition{isReady}})
	require.NoFileExists(t, c.path("run/programs"))
	require.NotContains(t, c.journal(), "PrologSlurmctld")
}
