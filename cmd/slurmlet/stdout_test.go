package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestOutputThatNobodyReads: a log collector that stands still costs lines, and nothing else.
func TestOutputThatNobodyReads(t *testing.T) {
	t.Parallel()
	chatty := map[string]string{"chatty": ""}
	for _, story := range []struct {
		name   string
		given  given
		phases []phase
	}{{
		// A daemon that is stopped as it starts has a third of the time for jobs to answer: 4.7 s by default, in which a loaded
		// machine writes no 10,000 lines.
		name:  "slurmd serves and ends in order all the same",
		given: given{role: "slurmd", env: []string{"SLURMLET_GRACE_PERIOD=5m"}, files: chatty, unread: true},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady, probes(200, 200, 200), wrote("start", 1), losesLines}},
			{"slurmd is killed", []act{signalMain(unix.SIGKILL)}, []condition{isReady, restarts(1)}},
			{"SIGTERM", term, []condition{ends(0), wrote(sigterm, 1), wrote(deleted, 1), recordIs("")}},
		},
	}, {
		// What a chatty daemon writes costs each part of the way down more.
		name:  "slurmd waits for a job, and its deadlines hold",
		given: unread(withJob([]string{"SLURMLET_GRACE_PERIOD=60s"}, "chatty")),
		phases: []phase{
			{"it is Ready", nil, append(settled, losesLines)},
			{"SIGTERM", term, []condition{waits, inOrder(terminating)}},
			{"the job goes on: it is requeued in time, and the node leaves", nil, []condition{ends(0), inOrder("requeue", deleted, sigterm)}},
		},
	}, {
		name:  "slurmctld serves, and serves again when it was killed",
		given: given{role: "slurmctld", env: []string{"SLURMLET_GRACE_PERIOD=5m"}, files: chatty, unread: true},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady, losesLines}},
			{"it is killed", []act{signalMain(unix.SIGKILL)}, []condition{wrote("start uid", 2), isReady}},
			{"SIGTERM", term, []condition{ends(0)}},
		},
	}, {
		name:  "a configuration with faults",
		given: given{role: "slurmd", env: []string{"SLURMLET_GRACE_PERIOD=soon"}, unread: true},
		phases: []phase{
			{"it is refused", nil, []condition{ends(78)}},
		},
	}, {
		name:  "what was lost is counted once somebody reads, and nothing is lost any more",
		given: given{role: "slurmd", env: []string{"SLURMLET_GRACE_PERIOD=5m"}, files: chatty, unread: true},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady, losesLines}},
			{"somebody reads", []act{readOutput}, []condition{logged(entry{"source": "slurmlet", "level": "WARN", "msg": "lines were lost: nobody read the container's output"}), countsAllLines}},
			{"SIGTERM", term, []condition{exits(0), logged(entry{"source": "slurmd", "msg": "shutdown completing"})}},
		},
	}} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			play(t, story.given, story.phases...)
		})
	}
}

func unread(g given) given {
	g.unread = true
	return g
}

// keepUnread gives the agent a pipe for its output that is full already. What it returns is called once the agent has it.
func (c *container) keepUnread(unread bool) (begun func()) {
	if !unread {
		return func() {}
	}
	var fds [2]int
	require.NoError(c.t, unix.Pipe2(fds[:], unix.O_CLOEXEC))
	c.output = os.NewFile(uintptr(fds[0]), "output")
	full := []byte(strings.Repeat("\n", 4096))
	require.NoError(c.t, unix.SetNonblock(fds[1], true))
	var err error
	for err == nil {
		_, err = unix.Write(fds[1], full)
	}
	require.Equal(c.t, unix.EAGAIN, err)
	require.NoError(c.t, unix.SetNonblock(fds[1], false))
	write := os.NewFile(uintptr(fds[1]), "output")
	c.agent.Stdout = write
	c.t.Cleanup(func() { _ = c.output.Close() })
	return func() { _ = write.Close() }
}

// readOutput reads what the pipe holds, after the filling.
func readOutput(c *container) { go func() { _, _ = io.Copy(c.log, &trimmed{from: c.output}) }() }

// trimmed drops the newlines that filled the pipe, and no later one.
type trimmed struct {
	from  io.Reader
	begun bool
}

func (r *trimmed) Read(data []byte) (int, error) {
	n, err := r.from.Read(data)
	if !r.begun {
		n = copy(data, strings.TrimLeft(string(data[:n]), "\n"))
		r.begun = n > 0
	}
	return n, err
}

// ends: the agent has ended with a status, whatever of its log was read.
func ends(code int) condition {
	return func(c *container) error {
		if !c.ended() {
			return fmt.Errorf("the agent has not ended")
		}
		if have := c.agent.ProcessState.ExitCode(); have != code {
			return fmt.Errorf("want exit status %d, have %v", code, c.agent.ProcessState)
		}
		return nil
	}
}

// losesLines: the metrics count them.
func losesLines(c *container) error {
	text, _, err := c.get("/metrics")
	if err != nil {
		return err
	}
	_, rest, found := strings.Cut(string(text), "\nslurmlet_log_lines_lost_total ")
	if count, _, _ := strings.Cut(rest, "\n"); !found || count == "0" {
		return fmt.Errorf("no line was lost")
	}
	return nil
}

// countsAllLines: what was read and what was lost is what the daemon has said, and some more.
func countsAllLines(c *container) error {
	said, lost := 0, 0
	for line := range strings.Lines(c.log.String()) {
		var fields struct {
			Source, Msg string
			Lines       int
		}
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			return fmt.Errorf("a line of the log is not whole: %q", line)
		}
		lost += fields.Lines
		if strings.HasPrefix(fields.Msg, "debug2: line ") || strings.HasPrefix(fields.Msg, "line ") {
			said++
		}
	}
	if sum := said + lost; sum < 10_000 || sum > 10_100 {
		return fmt.Errorf("%d lines were read and %d lost, of 10,000 and a few", said, lost)
	}
	return nil
}
