package agent

import (
	"bufio"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/process"
)

// TestOnlyAnOldForkIsInTheWay: a slurmd that reconfigures soon after the hand-over that
// it came by has forks of its own.
func TestOnlyAnOldForkIsInTheWay(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	p, err := process.NewTable().Start(process.Command{
		Path: "/bin/sh", Args: []string{"-c", "(while :; do sleep 1; done) & echo up; wait $!; echo $?"}, Group: true, Stdout: w,
	})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	t.Cleanup(func() { _ = p.Signal(unix.SIGKILL) })
	out := bufio.NewScanner(r)
	require.True(t, out.Scan())
	told := 0
	a := &Agent{Options: Options{Root: "/", Observe: func(Notice) { told++ }}, main: p}

	a.freeHandOver(p, time.Now().Add(-time.Hour))
	assert.Zero(t, told, "it is younger than the words")
	a.freeHandOver(nil, time.Now())
	assert.Zero(t, told, "somebody else has taken over")
	a.freeHandOver(p, time.Now().Add(time.Hour))
	assert.Equal(t, 1, told)
	require.True(t, out.Scan())
	assert.Equal(t, "137", out.Text())
}
