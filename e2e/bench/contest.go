package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/native"
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
	// took is from just before the fork to the daemon's first instructions.
	took time.Duration
}

func (c *contest) start(who contender) (*running, error) {
	cmd := exec.Command(who.argv[0], who.argv[1:]...)
	// What make exports for the sandbox, SLURMLET_CACHE, the agent would refuse.
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "BENCH_REPORT=" + c.fifo}, who.env...)
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", who.name, err)
	}
	began := now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", who.name, err)
	}
	at, err := c.wait("start")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", who.name, err)
	}
	return &running{cmd, c, at.sub(began)}, rest(output, who)
}

// rest waits for the text that says so, and drops all other output.
func rest(output io.Reader, who contender) error {
	ready := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(output)
		for said := who.ready == ""; ; {
			if said {
				close(ready)
				_, _ = io.Copy(io.Discard, output)
				return
			}
			if !lines.Scan() {
				return
			}
			said = strings.Contains(lines.Text(), who.ready)
		}
	}()
	select {
	case <-ready:
		return nil
	case <-time.After(native.Limit):
		return fmt.Errorf("%s: it did not say %q within %v", who.name, who.ready, native.Limit)
	}
}

func (c *contest) wait(what string) (moment, error) {
	select {
	case r := <-c.reports:
		if r.what != what {
			return 0, fmt.Errorf("the stand-in daemon reported %q, not %q", r.what, what)
		}
		return r.at, nil
	case <-time.After(native.Limit):
		return 0, fmt.Errorf("the stand-in daemon did not report %q within %v", what, native.Limit)
	}
}

// stop sends SIGTERM, and returns how long it took to the daemon.
func (r *running) stop() (time.Duration, error) {
	sent := now()
	if err := r.Process.Signal(unix.SIGTERM); err != nil {
		return 0, fmt.Errorf("cannot signal %s: %w", r.Path, err)
	}
	at, err := r.contest.wait("SIGTERM")
	if err != nil {
		return 0, fmt.Errorf("%s: %w", r.Path, err)
	}
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
