package pid1

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const limit = time.Minute

func TestRun(t *testing.T) {
	phases := []struct{ name, role, want string }{
		{"an orphan's status arrives as it was", "statuses", "exit 7\nsignal terminated\n"},
		{"an orphan is still a zombie when it is reported", "zombie", "a zombie\n"},
		{"what ended before body returned is reaped, then body's result returned", "late", "exit 3\nresult 42\n"},
		{"a closed stderr does not end the program, and children have SIGPIPE as it was", "sigpipe", "broken pipe, default\n"},
	}
	for _, way := range ways {
		for _, phase := range phases {
			t.Run(way.name+"/"+phase.name, func(t *testing.T) {
				assert.Equal(t, phase.want, play(t, way.asInit, phase.role))
			})
		}
	}
}

func TestRunOffTheMainThread(t *testing.T) {
	_, err := Run(nil, nil)
	assert.EqualError(t, err, "cannot reap orphans: not on the main goroutine")
}

// statusesRole leaves two orphans behind, one after the other, and prints how they ended.
func statusesRole() int {
	exits := make(chan Exit, 1)
	return mustRun(func(e Exit) { exits <- e }, func() int {
		orphan("exit 7")
		printExit(next(exits))
		orphan("kill -TERM $$")
		printExit(next(exits))
		return 0
	})
}

func zombieRole() int {
	exits := make(chan bool, 1)
	return mustRun(func(e Exit) { exits <- unix.Kill(e.PID, 0) == nil }, func() int {
		orphan("exit 0")
		if next(exits) {
			fmt.Println("a zombie")
		}
		return 0
	})
}

// lateRole holds the reaper up with a first orphan until a second one has ended and the body has returned.
func lateRole() int {
	held, ended := make(chan bool, 1), make(chan struct{})
	first := true
	code := mustRun(func(e Exit) {
		if first {
			first = false
			held <- true
			<-ended
			return
		}
		printExit(e)
	}, func() int {
		orphan("exit 0")
		next(held) // the second one must not end before it
		last := orphan("exit 3")
		defer close(ended)
		must(unix.Waitid(unix.P_PID, last, nil, unix.WEXITED|unix.WNOWAIT, nil))
		return 42
	})
	fmt.Println("result", code)
	return 0
}

func sigpipeRole() int {
	return mustRun(func(Exit) {}, func() int {
		r, w, _ := os.Pipe()
		_ = r.Close()
		_ = unix.Dup2(int(w.Fd()), 2)
		_, err := os.Stderr.WriteString("nobody reads this")
		ignored, _ := exec.Command("sh", "-c", "kill -PIPE $$; echo ignored").Output()
		fmt.Printf("%v, %s\n", errors.Unwrap(err), cmp.Or(string(ignored), "default"))
		return 0
	})
}

func mustRun(reaped func(Exit), body func() int) int {
	code, err := Run(reaped, body)
	must(err)
	return code
}

// orphan starts a shell that executes script as soon as its parent is over, and returns its pid. (A parent that lives on could
// collect it.)
func orphan(script string) int {
	r, w, err := os.Pipe()
	must(err)
	defer w.Close() // this is what the shell waits for
	defer r.Close()
	cmd := exec.Command("sh", "-c", "sh -c 'read x <&3; "+script+"' >/dev/null 2>&1 & echo $!")
	cmd.ExtraFiles = []*os.File{r}
	output, err := cmd.Output()
	must(err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(output)))
	must(err)
	return pid
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func next[T any](c <-chan T) T {
	select {
	case v := <-c:
		return v
	case <-time.After(limit):
		panic("nothing came")
	}
}

func printExit(e Exit) {
	if e.Status.Signaled() {
		fmt.Println("signal", e.Status.Signal())
		return
	}
	fmt.Println("exit", e.Status.ExitStatus())
}

func TestWaitStatus(t *testing.T) {
	for _, c := range []struct {
		code, status int32
		exit         int
		signal       unix.Signal
		core         bool
	}{
		{code: 1, status: 0, signal: -1},
		{code: 1, status: 255, exit: 255, signal: -1},
		{code: 2, status: 9, exit: -1, signal: unix.SIGKILL},
		{code: 2, status: 64, exit: -1, signal: 64},
		{code: 3, status: 11, exit: -1, signal: unix.SIGSEGV, core: true},
	} {
		ws := childInfo{code: c.code, status: c.status}.waitStatus()
		assert.Equal(t, c.exit, ws.ExitStatus(), "%+v", c)
		assert.Equal(t, c.signal, ws.Signal(), "%+v", c)
		assert.Equal(t, c.core, ws.CoreDump(), "%+v", c)
	}
}

func TestSignals(t *testing.T) {
	signals, stop := Signals()
	defer stop()
	for _, sig := range []unix.Signal{
		unix.SIGURG, unix.SIGCHLD, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGPWR, unix.SIGHUP,
	} {
		require.NoError(t, unix.Kill(os.Getpid(), sig))
	}
	assert.Equal(t, unix.SIGHUP, next(signals), "the others stay away, and do no harm")
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGQUIT, sigrtmin3} {
		require.NoError(t, unix.Kill(os.Getpid(), sig))
		assert.Equal(t, sig, next(signals))
	}
}
