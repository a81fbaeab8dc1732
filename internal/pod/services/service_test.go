package services

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/pod/process"
)

const limit = time.Minute

// logbook keeps the states that services have logged, and when.
type logbook struct {
	mu     sync.Mutex
	states []string
	at     []time.Time
}

func (b *logbook) log(level slog.Level, text string, attrs ...slog.Attr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	line := text
	for _, a := range attrs {
		line += " " + a.Value.String()
	}
	b.states, b.at = append(b.states, strings.TrimSpace(line)), append(b.at, time.Now())
}

// read returns copies.
func (b *logbook) read() (states []string, at []time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.states), slices.Clone(b.at)
}

// changes are the lines but for those that tell of a machine that is slow.
func (b *logbook) changes() string {
	states, _ := b.read()
	states = slices.DeleteFunc(states, func(line string) bool { return strings.HasSuffix(line, "not up") })
	return strings.ReplaceAll(strings.Join(states, ", "), "service script ", "")
}

// playing is a service that runs a script of sh. It answers as soon as the script has made
// the file up.
type playing struct {
	*Service
	book logbook
	dir  string
}

func play(t *testing.T, script string) *playing {
	p := &playing{dir: t.TempDir()}
	all := New(Options{Table: process.NewTable(), Log: p.book.log, Heard: func(process.Line) {}})
	answers := func(context.Context) error {
		if _, err := os.Stat(filepath.Join(p.dir, "up")); err != nil {
			return errors.New("not up")
		}
		return nil
	}
	var err error
	p.Service, err = all.Add("script", "/bin/sh", []string{"-c", "cd " + p.dir + "; " + script}, answers, func(string) {})
	require.NoError(t, err)
	t.Cleanup(func() {
		p.stop()
		p.kill()
		select {
		case <-p.over:
		case <-time.After(limit):
			t.Error("it does not stop")
		}
	})
	return p
}

func (p *playing) await(t *testing.T, state State) Status {
	t.Helper()
	require.Eventually(t, func() bool { return p.status.Load().State == state }, limit, time.Millisecond, "%+v", p.status.Load())
	return *p.status.Load()
}

const lives = "touch up; while :; do read x <>fifo; done"

func TestAServiceIsSupervised(t *testing.T) {
	p := play(t, "mkfifo fifo; "+lives)
	assert.Equal(t, Waiting, p.status.Load().State)
	go p.supervise()
	first := p.await(t, Running)
	assert.NotZero(t, first.PID)
	assert.Empty(t, first.Reason)

	require.NoError(t, unix.Kill(first.PID, unix.SIGKILL))
	require.Eventually(t, func() bool { s := p.status.Load(); return s.State == Running && s.PID != first.PID }, limit, time.Millisecond)
	again := p.await(t, Running)
	assert.Equal(t, 1, again.Restarts)
	assert.True(t, again.Since.After(first.Since))

	p.stop()
	last := p.await(t, Stopped)
	assert.Zero(t, last.PID)
	assert.Equal(t, "killed by SIGTERM", last.Reason)
	<-p.over
	assert.Equal(t, "Starting, Running, Backoff killed by SIGKILL, Starting killed by SIGKILL, Running, Stopping, Stopped killed by SIGTERM", p.book.changes())
}

func TestServices(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		// until is when it is to stop.
		until  State
		reason string
		logged string
	}{
		"ends at once":               {"exit 3", Backoff, "exit code 3", ""},
		"is stopped before it is up": {"exec sleep 1000", Starting, "killed by SIGTERM", ""},
		"ends in order":              {"trap 'exit 5' TERM; mkfifo fifo; " + lives, Running, "exit code 5", "Starting, Running, Stopping, Stopped exit code 5"},
	} {
		t.Run(name, func(t *testing.T) {
			p := play(t, c.script)
			go p.supervise()
			p.await(t, c.until)
			p.stop()
			assert.Equal(t, c.reason, p.await(t, Stopped).Reason)
			<-p.over
			if c.logged != "" {
				assert.Equal(t, c.logged, p.book.changes())
			}
		})
	}
}

// TestKilled: a service that ignores SIGTERM gets SIGKILL.
func TestKilled(t *testing.T) {
	p := play(t, "trap '' TERM; mkfifo fifo; "+lives)
	l := &Services{all: []*Service{p.Service}}
	l.Start()
	p.await(t, Running)
	began := time.Now()
	l.Close()
	assert.GreaterOrEqual(t, time.Since(began), closeLimit)
	assert.Equal(t, "killed by SIGKILL", l.Statuses()[0].Reason)
}

// TestATurn: a service waits until the one before it answers, or has failed.
func TestATurn(t *testing.T) {
	for _, script := range []string{"mkfifo fifo; " + lives, "exit 1"} {
		first, second := play(t, script), play(t, "mkfifo fifo; "+lives)
		second.after = first.Service
		go second.supervise()
		assert.Equal(t, Waiting, second.status.Load().State)
		go first.supervise()
		second.await(t, Running)
		_, tried := first.book.read() // Starting, then Running or Backoff
		_, started := second.book.read()
		assert.False(t, started[0].Before(tried[1]), script)
	}
}

// TestNobodyWantsIt: no process is started for a service that was stopped before.
func TestNobodyWantsIt(t *testing.T) {
	first, second := play(t, "exit 1"), play(t, "exit 1")
	second.after = first.Service
	go second.supervise()
	second.stop()
	second.await(t, Stopped)
	<-second.over
	assert.Equal(t, "Stopped", second.book.changes())
	first.stop()
	go first.supervise() // for the cleanup
}

// TestNoProgram: a service that cannot be started is tried again.
func TestNoProgram(t *testing.T) {
	p := play(t, "")
	p.command.Path = filepath.Join(p.dir, "none")
	go p.supervise()
	require.Eventually(t, func() bool { return p.status.Load().Restarts > 1 }, limit, time.Millisecond)
	assert.Contains(t, p.status.Load().Reason, "cannot start "+p.command.Path)
	var pauses []time.Time
	states, at := p.book.read()
	for i, line := range states {
		if strings.Contains(line, string(Backoff)) {
			pauses = append(pauses, at[i])
		}
	}
	require.GreaterOrEqual(t, len(pauses), 2)
	assert.Greater(t, pauses[1].Sub(pauses[0]), 100*time.Millisecond)
}

// TestLongWithoutAnswer: nobody is ready at once, but the third try is logged.
func TestLongWithoutAnswer(t *testing.T) {
	p := play(t, "exec sleep 1000")
	go p.supervise()
	require.Eventually(t, func() bool { states, _ := p.book.read(); return len(states) == 2 }, limit, time.Millisecond)
	states, _ := p.book.read()
	assert.Equal(t, []string{"service script Starting", "service script Starting not up"}, states)
}
