package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/launcher"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// realBinary names a built slurmlet-sandbox. With it these tests make real pods;
// they need root.
const realBinary = "SLURMLET_SANDBOX_TEST"

func TestRealPods(t *testing.T) {
	s := fresh(t, "test-pods")
	ctx := t.Context()
	require.NoError(t, s.Create(ctx, PodSpec{
		Name: "a", CPU: 1.5, Memory: 64 << 20, OOMGroup: true,
		Args:    []string{"sh", "-c", "trap 'echo asked to end; exit 3' TERM; echo started; touch /fresh; while :; do sleep 0.1; done"},
		Volumes: []Volume{{Name: "v", Path: "/v"}, {Name: "conf", Path: "/conf", Projected: true, Files: map[string]File{"a.conf": {Data: []byte("1")}}}},
	}))
	require.NoError(t, s.Create(ctx, PodSpec{Name: "b", Args: []string{"sleep", "1000"}, CgroupReadOnly: true}))

	t.Run("limits", func(t *testing.T) {
		out := sh(t, s, "a", "cd /sys/fs/cgroup; cat cpu.max memory.max memory.swap.max memory.oom.group; mkdir own && cat /proc/self/cgroup")
		assert.Equal(t, "150000 100000\n67108864\n0\n1\n0::/\n", out)
	})
	t.Run("read-only cgroup", func(t *testing.T) {
		_, stderr, code, err := s.Exec(ctx, "b", "mkdir", "/sys/fs/cgroup/own")
		require.NoError(t, err)
		assert.NotZero(t, code)
		assert.Contains(t, stderr, "Read-only file system")
	})
	t.Run("names", func(t *testing.T) {
		assert.Equal(t, "a\n", sh(t, s, "a", "hostname"))
		assert.Equal(t, sh(t, s, "a", "getent hosts b"), sh(t, s, "b", "getent hosts b"))
	})
	t.Run("link", func(t *testing.T) {
		reach := "exec 3<>/dev/tcp/10.88.0.1/9"
		before := sh(t, s, "a", "timeout 5 bash -c '"+reach+"' 2>&1 || true")
		require.Contains(t, before, "refused", "the bridge answers")
		require.NoError(t, s.Link(ctx, "a", false))
		require.NotContains(t, sh(t, s, "a", "timeout 1 bash -c '"+reach+"' 2>&1 || true"), "refused")
		require.NoError(t, s.Link(ctx, "a", true))
		// The kernel may still know from before that nobody answers.
		require.Contains(t, sh(t, s, "a", "timeout 20 sh -c \"until bash -c '"+reach+"' 2>&1 | grep refused; do sleep 0.1; done\""), "refused")
		require.ErrorContains(t, s.Link(ctx, "none", false), `no pod "none"`)
	})
	t.Run("files", func(t *testing.T) {
		require.NoError(t, s.SetFiles(ctx, "a", "conf", map[string]File{"a.conf": {Data: []byte("2")}}))
		assert.Equal(t, "2", sh(t, s, "a", "cat /conf/a.conf"))
	})
	t.Run("user", func(t *testing.T) {
		stdout, _, code, err := s.ExecAs(ctx, "a", How{User: "alice", Dir: "/tmp", Env: []string{"A=b c"}}, "sh", "-c", `echo "$(id -un) $PWD $A"; exit 7`)
		require.NoError(t, err)
		assert.Equal(t, "alice /tmp b c\n", stdout)
		assert.Equal(t, 7, code)
	})
	t.Run("restart", func(t *testing.T) {
		before := status(t, s, "a")
		sh(t, s, "a", "touch /v/kept /lost")
		require.NoError(t, s.Restart(ctx, "a", 20*time.Second))
		after := status(t, s, "a")
		assert.Equal(t, before.IP, after.IP)
		assert.Equal(t, 1, after.Restarts)
		assert.NotEqual(t, before.PID, after.PID)
		assert.Equal(t, "kept gone\n", sh(t, s, "a", "test -e /v/kept && ! test -e /lost && echo kept gone"))
		assert.EventuallyWithT(t, func(t *assert.CollectT) { // the next container runs, and writes a moment later
			log, err := s.Logs(ctx, "a")
			require.NoError(t, err)
			assert.Equal(t, "started\nasked to end\nstarted\n", log)
		}, 20*time.Second, 10*time.Millisecond)
	})
	t.Run("container OOM", func(t *testing.T) {
		_, _, code, err := s.Exec(ctx, "a", "perl", "-e", `$x = "a" x (200 << 20)`)
		require.NoError(t, err)
		assert.NotZero(t, code)
		ended := wait(t, s, "a", Exited)
		assert.Equal(t, 137, ended.ExitCode, "memory.oom.group takes PID 1 too")
		assert.NotZero(t, ended.OOMKills)
	})
	t.Run("kill", func(t *testing.T) {
		require.NoError(t, s.Kill(ctx, "b", "KILL"))
		assert.Equal(t, "SIGKILL", wait(t, s, "b", Exited).Signal)
	})
	t.Run("commands while PID 1 moves from cgroup to cgroup", func(t *testing.T) {
		const move = "cd /sys/fs/cgroup; i=0; while :; do mkdir c$i; echo 1 > c$i/cgroup.procs; rmdir c? 2> /dev/null; i=$(((i + 1) % 10)); done"
		require.NoError(t, s.Create(ctx, PodSpec{Name: "mover", Args: []string{"sh", "-c", move}}))
		for range 50 {
			_, stderr, code, err := s.ExecAs(ctx, "mover", How{Enter: true}, "true")
			require.NoError(t, err)
			require.Zero(t, code, stderr)
		}
		require.NoError(t, s.Delete(ctx, "mover", 0))
	})
	t.Run("delete", func(t *testing.T) {
		last, err := s.End(ctx, "a", time.Second)
		require.NoError(t, err)
		assert.Equal(t, 137, last.ExitCode)
		require.ErrorContains(t, s.Delete(ctx, "a", time.Second), `no pod "a"; there are: b`)
	})
}

// Up that cannot work leaves nothing, and says what happened.
func TestRealFailedUp(t *testing.T) {
	binary(t)
	fake := t.TempDir() + "/slurmlet-sandbox"
	require.NoError(t, os.WriteFile(fake, []byte("#!/bin/sh\necho no luck\nexit 1\n"), 0o700))
	_, err := Up(t.Context(), Options{Name: "test-failed", Binary: fake})
	require.ErrorContains(t, err, "no luck")
	assert.Empty(t, left("test-failed"))
}

func TestRealCancelledUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := Up(ctx, Options{Name: "test-cancelled", Binary: binary(t)})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Empty(t, left("test-cancelled"))
}

// Two sandboxes know nothing of each other, and killing the launcher is enough.
func TestRealTwo(t *testing.T) {
	a, b := fresh(t, "test-one"), fresh(t, "test-two")
	for _, s := range []*Sandbox{a, b} {
		require.NoError(t, s.Create(t.Context(), PodSpec{Name: "same", Args: []string{"sleep", "1000"}}))
	}
	_, err := Up(t.Context(), Options{Name: "test-one", Binary: binary(t)})
	require.ErrorContains(t, err, `sandbox "test-one" is up already`)
	traces := a.Traces()
	require.NoError(t, a.launcher.Kill())
	assert.Empty(t, traces.Processes())
	assert.Equal(t, "same\n", sh(t, b, "same", "hostname"))
}

// TestRealGuard: a sandbox whose maker is killed leaves nothing.
func TestRealGuard(t *testing.T) {
	maker := exec.Command("sleep", "1000")
	require.NoError(t, maker.Start())
	t.Cleanup(func() { _ = maker.Process.Kill(); _ = maker.Wait() })
	s, err := Up(t.Context(), Options{Name: "test-guard", Binary: binary(t), With: maker.Process.Pid, Progress: t.Logf})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Down()) })
	traces := s.Traces()
	require.NoError(t, maker.Process.Kill())
	require.Eventually(t, func() bool { return len(traces.Left()) == 0 }, time.Minute, 50*time.Millisecond, "%v", traces.Left())
}

// left is what is there of a sandbox that never was up.
func left(name string) []string {
	return launcher.Traces{Paths: []string{filepath.Join(Dir, name)}}.Left()
}

func binary(t *testing.T) string {
	path := os.Getenv(realBinary)
	if path == "" {
		t.Skipf("set %s to a built slurmlet-sandbox", realBinary)
	}
	return path
}

// fresh makes a sandbox that is gone without a trace after the test.
func fresh(t *testing.T, name string) *Sandbox {
	s, err := Up(t.Context(), Options{Name: name, Binary: binary(t), Progress: t.Logf})
	require.NoError(t, err)
	traces := s.Traces()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.consoleTail())
		}
		require.NoError(t, s.Down())
		assert.Empty(t, traces.Left())
	})
	return s
}

func sh(t *testing.T, s *Sandbox, pod, script string) string {
	t.Helper()
	stdout, stderr, code, err := s.Exec(t.Context(), pod, "sh", "-c", script)
	require.NoError(t, err)
	require.Zero(t, code, stderr)
	return stdout
}

func status(t *testing.T, s *Sandbox, pod string) PodStatus {
	t.Helper()
	pods, err := s.Status(t.Context())
	require.NoError(t, err)
	for _, p := range pods {
		if p.Name == pod {
			return p
		}
	}
	require.Fail(t, fmt.Sprintf("no pod %s in %v", pod, pods))
	return PodStatus{}
}

func wait(t *testing.T, s *Sandbox, pod, state string) PodStatus {
	t.Helper()
	var now PodStatus
	require.Eventually(t, func() bool { now = status(t, s, pod); return strings.EqualFold(now.State, state) }, time.Minute, 50*time.Millisecond)
	return now
}
