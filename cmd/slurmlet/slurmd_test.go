package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

const (
	reaching   = "reaching what the daemon needs"
	launching  = "waiting for the daemon's READY"
	confirming = "waiting for the service to be confirmed"
	leaving    = "waiting for the old node record to be free"
	pausing    = "pausing before the next start"
)

func TestSlurmd(t *testing.T) {
	t.Parallel()
	for _, story := range []struct {
		name   string
		given  given
		phases []phase
	}{{
		name:  "waits for slurmctld, and starts once it is there",
		given: given{role: "slurmd", noSlurmctld: true},
		phases: []phase{
			{"it waits and says why", nil, []condition{
				is(supervisor.Starting, reaching, "connection refused"), probes(200, 503, 503), never("slurmd"),
				logged(entry{"source": "slurmlet", "level": "WARN", "state": "Starting", "reason": "connection refused"}),
			}},
			{"slurmctld appears", []act{openSlurmctld}, []condition{isReady, probes(200, 200, 200), restarts(0), atMost("start uid=0", 1)}},
		},
	}, {
		name:  "hands over with barriers",
		given: given{role: "slurmd", files: map[string]string{"barrier": ""}},
		phases: slices.Concat(
			[]phase{{"it is Ready", nil, []condition{isReady}}},
			handOvers(3),
			[]phase{{"every barrier was released", nil, []condition{wrote("barrier was released", 4), never("was not released")}}},
		),
	}, {
		name:  "is Ready after a hand-over that takes longer than the second in which the successor began",
		given: given{role: "slurmd", files: map[string]string{"straddle": ""}},
		phases: slices.Concat(
			[]phase{{"it is Ready", nil, []condition{isReady}}},
			handOvers(1),
		),
	}, {
		name:  "is restarted when it is killed, for its steps live on",
		given: given{role: "slurmd"},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady, measures("slurmlet_daemon_restarts_total 0", `slurmlet_node_info{node="n1"} 1`, "slurmlet_node_memory_bytes 314572800")}},
			{"SIGKILL", []act{signalMain(unix.SIGKILL)}, []condition{
				isReady, restarts(1), probes(200, 200, 200), measures("slurmlet_ready 1", "slurmlet_daemon_restarts_total 1"), logged(entry{"source": "slurmlet", "reason": "killed by SIGKILL"}),
			}},
			{"and again", []act{signalMain(unix.SIGKILL)}, []condition{isReady, restarts(2)}},
		},
	}, {
		name:  "that ends at every start is tried again after a pause",
		given: given{role: "slurmd", files: map[string]string{"exit-at-start": ""}},
		phases: []phase{
			{"it is paused", nil, []condition{
				is(supervisor.Starting, pausing, "exit code 1: cannot read the configuration"), restarts(3), probes(200, 503, 503),
			}},
			{"it is repaired", []act{drop("exit-at-start")}, []condition{isReady, probes(200, 200, 200)}},
		},
	}, {
		name:  "is told to register again when its record is missing",
		given: given{role: "slurmd", files: map[string]string{"lost-at-start": ""}},
		phases: []phase{
			{"it is Ready after SIGHUP", nil, []condition{
				isReady, wrote("hands over", 1), restarts(0), logged(entry{"source": "slurmlet", "reason": "is MaxNodeCount reached?"}),
			}},
		},
	}} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			play(t, story.given, story.phases...)
		})
	}
}

// TestSlurmdStart holds slurmd's arguments and environment against testdata/slurmd.start.
func TestSlurmdStart(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := start(t, given{role: "slurmd", env: []string{
		"SLURMLET_DAEMON_ARGS=-v --extra=x", "INVOCATION_ID=1", "NOTIFY_SOCKET=/elsewhere", "SLURMD_BOOT_TIME=1", "LANG=C.UTF-8",
	}})
	c.await(phase{name: "it is Ready", want: []condition{isReady}})
	text, err := os.ReadFile(c.path("slurmd.start"))
	require.NoError(t, err)

	have := strings.NewReplacer(c.dir, "$DIR", "127.0.0.1:"+c.slurmctldPort(), "$SLURMCTLD").Replace(string(text))
	boot := regexp.MustCompile(`SLURMD_BOOT_TIME=(\d+)`)
	want, err := os.ReadFile(filepath.Join("testdata", "slurmd.start"))
	require.NoError(t, err)
	require.Equal(t, string(want), boot.ReplaceAllString(have, "SLURMD_BOOT_TIME=$$BOOT"))

	seconds, err := strconv.ParseInt(boot.FindStringSubmatch(have)[1], 10, 64)
	require.NoError(t, err)
	require.GreaterOrEqual(t, seconds, began.Unix()-1, "the container's start, not the machine's")
}

// TestStatus asks the program and the TCP port, where all else asks the socket.
func TestStatus(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	c := start(t, given{role: "slurmd", noSlurmctld: true, env: []string{"SLURMLET_LISTEN=" + port}})
	c.await(phase{name: "it waits", want: []condition{is(supervisor.Starting, reaching, "connection refused")}})
	require.Equal(t, 75, c.run(t, "status").code)
	require.Equal(t, 503, httpStatus(t, port, "/readyz"))
	require.Equal(t, 69, surroundings{dir: t.TempDir()}.run(t, "probe", "liveness").code)
	require.Equal(t, 64, c.run(t, "probe", "luck").code)
	for name, code := range map[string]int{"startup": 75, "readiness": 75, "liveness": 0} {
		have := c.run(t, "probe", name)
		require.Equal(t, code, have.code, name)
		require.Contains(t, have.stdout, "connection refused", "the kubelet shows the reason")
	}

	c.openSlurmctld()
	c.await(phase{name: "it is Ready", want: []condition{isReady}})
	told := c.run(t, "status", "-o", "json")
	require.Equal(t, 0, told.code, told.stderr)
	var s agent.Status
	require.NoError(t, json.Unmarshal([]byte(told.stdout), &s))
	require.Equal(t, supervisor.Ready, s.State)
	require.Equal(t, "n1", s.Node.Name)
	require.Equal(t, "CPUs=1 RealMemory=300 TmpDisk=100", s.Node.Conf)
	require.Equal(t, "SLURMLET_MEMORY_LIMIT", s.Node.Limits.Memory.Source)
	require.Contains(t, s.LastError.Text, "this is an error of")

	text := c.run(t, "status")
	require.Equal(t, 0, text.code)
	require.Regexp(t, `(?m)^State +Ready since`, text.stdout)
	require.Regexp(t, `(?m)^Node +n1 CPUs=1 RealMemory=300 TmpDisk=100$`, text.stdout)

	for _, name := range []string{"startup", "readiness", "liveness"} {
		require.Equal(t, 0, c.run(t, "probe", name).code, name)
	}
	for path, code := range map[string]int{"/livez": 200, "/readyz": 200, "/startupz": 200, "/status": 200, "/": 404} {
		require.Equal(t, code, httpStatus(t, port, path), path)
	}
}
