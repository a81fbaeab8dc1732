package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const tick = 5 * time.Millisecond

// parent starts a shell with a child that runs script; the parent goes on with rest. It returns the child's pid.
func parent(t *testing.T, script, rest string) (*Process, int) {
	t.Helper()
	out := collect(t)
	command := shell(fmt.Sprintf("sh -c '%s' >/dev/null & echo $!; %s", script, rest))
	command.Stdout = out.File()
	p := start(t, command)
	pid, err := strconv.Atoi(out.text(t))
	require.NoError(t, err)
	return p, pid
}

func TestAdoptAnOrphan(t *testing.T) {
	hold := newGate(t)
	old, pid := parent(t, hold.wait()+"; exit 7", "")
	ended(t, old)
	p := adopt(t, pid)
	again, err := table.Adopt(pid)
	require.NoError(t, err)
	assert.Same(t, p, again)
	hold.open(t)
	assert.Equal(t, Status{Code: 7}, ended(t, p))
	assert.ErrorIs(t, p.Signal(unix.SIGTERM), ErrExited)
}

func TestStopAnOrphan(t *testing.T) {
	old, pid := parent(t, newGate(t).wait(), "")
	ended(t, old)
	assert.Equal(t, Status{TermSignal: unix.SIGTERM}, adopt(t, pid).Stop(t.Context(), unix.SIGTERM))
}

func TestAdoptBeforeTheParentEnds(t *testing.T) {
	hold, holdOld := newGate(t), newGate(t)
	old, pid := parent(t, hold.wait()+"; exit 9", holdOld.wait())
	p := adopt(t, pid)
	holdOld.open(t)
	assert.Equal(t, Status{}, ended(t, old))
	hold.open(t)
	assert.Equal(t, Status{Code: 9}, ended(t, p))
}

// The parent collects its child's status, and we never hear it; that the process is over must be known all the same.
func TestAdoptedProcessEndsUnderItsParent(t *testing.T) {
	hold, holdOld := newGate(t), newGate(t)
	old, pid := parent(t, hold.wait()+"; exit 9", "wait; "+holdOld.wait())
	p := adopt(t, pid)
	hold.open(t)
	assert.Equal(t, "ended, status unknown", ended(t, p).String())
	holdOld.open(t)
	assert.Equal(t, Status{}, ended(t, old))
}

func TestAdoptAfterTheExit(t *testing.T) {
	hold := newGate(t)
	old, pid := parent(t, hold.wait()+"; exit 5", "")
	ended(t, old)
	hold.open(t)
	require.Eventually(t, func() bool { return unix.Kill(pid, 0) == unix.ESRCH }, limit, tick)
	assert.Equal(t, Status{Code: 5}, ended(t, adopt(t, pid)))
	_, err := table.Adopt(pid)
	assert.ErrorContains(t, err, "no such process", "an exit is forgotten when it was adopted")
}

func TestAdoptAChildThatTheTableStarted(t *testing.T) {
	p := start(t, shell(newGate(t).wait()))
	assert.Same(t, p, adopt(t, p.PID()))
}

// A zombie that Reaped has not told of yet.
func TestAdoptBetweenExitAndReaped(t *testing.T) {
	table := NewTable()
	cmd := zombie(t)
	p, err := table.Adopt(cmd.Process.Pid)
	require.NoError(t, err)
	table.Reaped(cmd.Process.Pid, 3<<8)
	assert.Equal(t, Status{Code: 3}, ended(t, p))
}

// A zombie that Reaped has told of, and that is not collected yet.
func TestAdoptBetweenReapedAndTheEndOfThePID(t *testing.T) {
	table := NewTable()
	cmd := zombie(t)
	table.Reaped(cmd.Process.Pid, 3<<8)
	p, err := table.Adopt(cmd.Process.Pid)
	require.NoError(t, err)
	assert.Equal(t, Status{Code: 3}, ended(t, p))
}

// zombie is a child that has exited and that nobody has waited for.
func zombie(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", "exit 3")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	require.NoError(t, unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	return cmd
}

func TestAdoptAPIDThatSomebodyElseHadBefore(t *testing.T) {
	hold := newGate(t)
	old, pid := parent(t, hold.wait()+"; exit 6", "")
	ended(t, old)
	table.Reaped(pid, 1<<8) // the earlier owner, never adopted
	p := adopt(t, pid)
	hold.open(t)
	assert.Equal(t, Status{Code: 6}, ended(t, p))
}

func TestAdoptRefuses(t *testing.T) {
	for name, pid := range map[string]int{
		"our parent": os.Getppid(), "ourselves": os.Getpid(), "nobody": 1<<22 + 1, "zero": 0, "negative": -1,
	} {
		_, err := table.Adopt(pid)
		assert.ErrorContains(t, err, fmt.Sprintf("cannot adopt process %d: ", pid), name)
	}
}

// Orphans that end just when they are adopted: none may be missed, whatever comes first.
func TestAdoptRace(t *testing.T) {
	var workers sync.WaitGroup
	for worker := range 4 {
		workers.Go(func() {
			for i := range 250 {
				code := (worker*250 + i) % 256
				p, err := table.Adopt(endingOrphan(t, code))
				if assert.NoError(t, err) {
					assert.Equal(t, Status{Code: code}, ended(t, p))
				}
			}
		})
	}
	workers.Wait()
}

// endingOrphan returns the pid of an orphan that is just about to exit. It held on until its parent was over: that one could have
// collected it otherwise.
func endingOrphan(t *testing.T, code int) int {
	r, w, err := os.Pipe()
	assert.NoError(t, err)
	defer w.Close()
	cmd := exec.Command("sh", "-c", fmt.Sprintf("sh -c 'read x <&3; exit %d' >/dev/null 2>&1 & echo $!", code))
	cmd.ExtraFiles = []*os.File{r}
	output, err := cmd.Output()
	assert.NoError(t, errors.Join(err, r.Close()))
	pid, err := strconv.Atoi(strings.TrimSpace(string(output)))
	assert.NoError(t, err)
	return pid
}

func TestExitsAreBounded(t *testing.T) {
	e := exits{limit: 2}
	for _, step := range []struct {
		remember, take int
		code           int
		known          bool
	}{
		{remember: 10},
		{remember: 11},
		{remember: 12},
		{take: 10, known: false},
		{take: 12, code: 12, known: true},
		{take: 12, known: false},
		{remember: 11},
		{remember: 13},
		{take: 11, code: 11, known: true},
		{take: 13, code: 13, known: true},
	} {
		if step.remember != 0 {
			e.remember(step.remember, Status{Code: step.remember})
			continue
		}
		got, ok := e.take(step.take)
		assert.Equal(t, step.known, ok, "%+v", step)
		assert.Equal(t, step.code, got.Code, "%+v", step)
	}
	assert.Empty(t, e.order)
	assert.Empty(t, e.status)
}

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		ws   unix.WaitStatus
		code int
		text string
	}{
		{0, 0, "exit code 0"},
		{255 << 8, 255, "exit code 255"},
		{9, 137, "killed by SIGKILL"},
		{11 | 0x80, 139, "killed by SIGSEGV, core dumped"},
		{40, 168, "killed by signal 40"},
	} {
		s := statusOf(c.ws)
		assert.Equal(t, c.code, s.ExitCode())
		assert.Equal(t, c.text, s.String())
	}
	assert.Equal(t, 255, Status{Code: unknown}.ExitCode())
}
