package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// contest runs contenders and hears their stand-in daemons.
type contest struct {
	fifo    string
	reports chan report
}

// report is a stand-in daemon's word: "start" or "SIGTERM", and when that was.
type report struct {
	what string
	at   moment
}

func newContest(dir string) (*contest, error) {
	c := &contest{fifo: filepath.Join(dir, "report"), reports: make(chan report, 16)}
	if err := unix.Mkfifo(c.fifo, 0o600); err != nil {
		return nil, fmt.Errorf("cannot make a fifo: %w", err)
	}
	// Open for writing too, it never comes to its end.
	f, err := os.OpenFile(c.fifo, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the fifo: %w", err)
	}
	go func() {
		for {
			var r report
			if _, err := fmt.Fscanln(f, &r.what, &r.at); err != nil {
				return // the next wait will say that nothing came
			}
			c.reports <- r
		}
	}()
	return c, nil
}

// running is a contender whose daemon runs and which is at rest.
type running struct {
	*exec.Cmd
	contest *contest
	output  *output
	// took is from just before the fork to the daemon's first instructions.
	took time.Duration
}

func (c *contest) start(who contender) (*running, error) {
	r := &running{Cmd: exec.Command(who.argv[0], who.argv[1:]...), contest: c, output: newOutput(who.ready)}
	// What make exports for the sandbox, SLURMLET_CACHE, the agent would refuse.
	r.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "BENCH_REPORT=" + c.fifo}, who.env...)
	pipe, err := r.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", who.name, err)
	}
	r.Stderr = r.Stdout
	began := now()
	if err := r.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", who.name, err)
	}
	go r.output.read(pipe)
	at, err := r.hear("start")
	if err == nil {
		r.took = at.sub(began)
		err = r.output.rest()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", who.name, err)
	}
	return r, nil
}

// lastWord is how long a daemon's word may be on its way when the contender has ended.
const lastWord = time.Second

// hear waits for the daemon's word. Where the contender fails, its own words say why.
func (r *running) hear(what string) (moment, error) {
	deadline, ended := time.After(native.Limit), r.output.ended
	for {
		select {
		case said := <-r.contest.reports:
			if said.what != what {
				return 0, fmt.Errorf("the stand-in daemon reported %q, not %q", said.what, what)
			}
			return said.at, nil
		case <-ended:
			deadline, ended = time.After(lastWord), nil
		case <-deadline:
			return 0, fmt.Errorf("the stand-in daemon did not report %q; the last words are:\n%s", what, r.output)
		}
	}
}

// stop sends SIGTERM, and returns how long it took to the daemon.
func (r *running) stop() (time.Duration, error) {
	sent := now()
	if err := r.Process.Signal(unix.SIGTERM); err != nil {
		return 0, fmt.Errorf("cannot signal %s: %w", r.Path, err)
	}
	at, err := r.hear("SIGTERM")
	if err != nil {
		return 0, fmt.Errorf("%s: %w", r.Path, err)
	}
	<-r.output.ended // Wait closes the pipe
	var failed *exec.ExitError
	if err := r.Wait(); err != nil && !errors.As(err, &failed) { // tini tells by its status how its child ended
		return 0, fmt.Errorf("cannot wait for %s: %w", r.Path, err)
	}
	return at.sub(sent), nil
}

// moment is CLOCK_MONOTONIC in nanoseconds, the same for all processes.
type moment int64

func now() moment {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // Linux always has it
	}
	return moment(t.Nano())
}

func (m moment) sub(earlier moment) time.Duration { return time.Duration(m - earlier) }
