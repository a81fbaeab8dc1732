package process

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestEndForks(t *testing.T) {
	out := collect(t)
	command := shell("sleep 600 & other=$!; until read name </proc/$other/comm && [ $name = sleep ]; do :; done; (while :; do read x <>$0; done) & echo $other; wait $!; echo $?; wait")
	command.Args = append(command.Args, newGate(t).path)
	command.Stdout = out.File()
	p := start(t, command)
	other, err := strconv.Atoi(strings.TrimSpace(out.text(t)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Kill(other, unix.SIGKILL) })
	all, none := func(int) bool { return true }, func(pid int) bool {
		assert.NotEqual(t, other, pid, "it executes another program")
		return false
	}
	assert.Zero(t, p.EndForks(none))
	assert.Equal(t, 1, p.EndForks(all))
	assert.Equal(t, strconv.Itoa(128+int(unix.SIGKILL)), out.text(t), "the parent goes on")
	assert.Zero(t, p.EndForks(all), "what executes another program is left alone")
	assert.NoError(t, unix.Kill(other, 0))
}

func TestEndForksOfWhatIsOver(t *testing.T) {
	p := start(t, shell("exit"))
	ended(t, p)
	assert.Zero(t, p.EndForks(func(int) bool { return true }))
}
