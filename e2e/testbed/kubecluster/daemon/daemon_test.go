package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStartAndStop(t *testing.T) {
	d := &Daemon{Name: "sh", Path: "/bin/sh", Args: []string{"-c", `trap 'echo "$WORD"; exit' TERM; echo up; while :; do sleep 0.01; done`}, Env: []string{"WORD=down"}, Logs: t.TempDir()}
	log := func() string {
		text, err := os.ReadFile(filepath.Join(d.Logs, "sh.log"))
		require.NoError(t, err)
		return string(text)
	}
	require.EqualError(t, d.Stop(time.Second), "cannot stop sh: it does not run")
	for _, want := range []string{"up\n", "up\ndown\nup\n"} {
		require.NoError(t, d.Start())
		require.EqualError(t, d.Start(), "cannot start sh: it runs")
		require.Eventually(t, func() bool { return log() == want }, 10*time.Second, time.Millisecond)
		require.NoError(t, d.Stop(10*time.Second))
	}
	assert.Equal(t, "up\ndown\nup\ndown\n", log())
	<-d.Ended()
}

func TestOneThatDoesNotListenIsKilled(t *testing.T) {
	d := &Daemon{Name: "sh", Path: "/bin/sh", Args: []string{"-c", "trap '' TERM; while :; do sleep 0.01; done"}, Logs: t.TempDir()}
	require.NoError(t, d.Start())
	require.NoError(t, d.Stop(50*time.Millisecond))
	<-d.Ended()
}

func TestNoSuchProgram(t *testing.T) {
	d := &Daemon{Name: "none", Path: "/does/not/exist", Logs: t.TempDir()}
	require.ErrorContains(t, d.Start(), "cannot start none")
}
