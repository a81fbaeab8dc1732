package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// slurmlet is the program under test. fakeSlurm and peersServer are on its other sides: Slurm's daemons and commands, and the
// controller's server of the peers.
var slurmlet, fakeSlurm, peersServer string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "slurmlet-")
	if err == nil {
		slurmlet, fakeSlurm, peersServer = filepath.Join(dir, "slurmlet"), filepath.Join(dir, "fakeslurm"), filepath.Join(dir, "peers-server")
		err = errors.Join(
			os.Chmod(dir, 0o755), // other users run the fake Slurm too
			build(slurmlet, ".", os.Environ(), "-race="+raceEnabled()),
			build(fakeSlurm, "github.com/slurmlet/slurmlet/e2e/fakeslurm", append(os.Environ(), "CGO_ENABLED=0")),
			build(peersServer, "github.com/slurmlet/slurmlet/e2e/fakecontroller/serve", append(os.Environ(), "CGO_ENABLED=0")),
		)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func build(output, pkg string, env []string, flags ...string) error {
	cmd := exec.Command("go", append(append([]string{"build", "-o", output}, flags...), pkg)...)
	cmd.Env = env
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build %s: %w\n%s", pkg, err, said)
	}
	return nil
}

// raceEnabled says whether the tests were built with -race; the agent is then built so too.
func raceEnabled() string {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value
		}
	}
	return "false"
}

// surroundings is what a program is run in.
type surroundings struct {
	dir   string
	env   []string // besides what every one has
	stdin string
}

// environ: a race detector that has found something must not wait a second before it says so.
func (s surroundings) environ() []string {
	return append([]string{
		"PATH=" + filepath.Join(s.dir, "bin"),
		"GORACE=atexit_sleep_ms=0",
		"SLURMLET_RUN_DIR=" + filepath.Join(s.dir, "run"),
		"SLURMLET_CONF_DIR=" + filepath.Join(s.dir, "conf"),
		"SLURMLET_STATE_DIR=" + filepath.Join(s.dir, "state"),
		"SLURMLET_AGENT_PORT=0",
		"SLURMLET_PEERS_DIR=" + filepath.Join(s.dir, "peers"),
		"SLURMLET_LISTEN=127.0.0.1:0",
		"SLURMLET_CGROUP=off", // the cgroups here are the machine's
	}, s.env...)
}

// newStage makes a directory with Slurm's programs, a cluster's key and an empty journal in it.
func newStage(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "slurmlet-") // t.TempDir is too long for a socket, and closed to others
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o777))
	for _, sub := range []string{"bin", "conf", "spool", "jobs", "podinfo"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
	}
	for _, name := range []string{"slurmctld", "slurmd", "scontrol", "scancel", "sinfo", "squeue", "sdiag", "container", "connect", "stranger"} {
		require.NoError(t, os.Symlink(fakeSlurm, filepath.Join(dir, "bin", name)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "conf", "slurm.key"), []byte(firstKey), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "conf", "slurm.conf"), []byte(firstConf), 0o644))
	journal := filepath.Join(dir, "journal")
	require.NoError(t, os.WriteFile(journal, nil, 0o666))
	require.NoError(t, os.Chmod(journal, 0o666))
	return dir
}

// firstKey is a cluster's key before anybody edits it.
const firstKey = "a key of sixteen bytes, and more"

// firstConf is a cluster's slurm.conf before anybody edits it.
const firstConf = "MailDomain=first\nClusterName=c\nSlurmctldHost=ctl\n"

// outcome is how a program that ends by itself ended.
type outcome struct {
	code           int
	stdout, stderr string
}

func (s surroundings) run(t testing.TB, args ...string) outcome {
	t.Helper()
	return s.launch(t, args...)()
}

// launch returns what waits for the program's end.
func (s surroundings) launch(t testing.TB, args ...string) (wait func() outcome) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), slurmlet, args...)
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = s.environ(), &stdout, &stderr
	if s.stdin != "" {
		cmd.Stdin = strings.NewReader(s.stdin)
	}
	require.NoError(t, cmd.Start())
	return func() outcome {
		t.Helper()
		err := cmd.Wait()
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			require.NoError(t, err)
		}
		return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	}
}
