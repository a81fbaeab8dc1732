package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// status asks the agent's socket.
func (c *container) status() (agent.Status, error) {
	var s agent.Status
	body, _, err := c.get("/status")
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(body, &s)
}

func (c *container) get(path string) (body []byte, code int, err error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	response, err := agent.Ask(ctx, c.path("run"), path)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return body, response.StatusCode, err
}

// is compares what the status says in words.
func is(state supervisor.Phase, doing, reason string) condition {
	return func(c *container) error {
		s, err := c.status()
		if err != nil {
			return err
		}
		if s.State != state || s.Doing != doing || !strings.Contains(s.Reason, reason) {
			return fmt.Errorf("want %s, %s (… %s …); have %s, %s (%s)", state, doing, reason, s.State, s.Doing, s.Reason)
		}
		return nil
	}
}

var isReady = is(supervisor.Ready, "", "")

// restarts is at least that many.
func restarts(n int) condition {
	return func(c *container) error {
		s, err := c.status()
		if err == nil && s.Restarts < n {
			err = fmt.Errorf("want %d restarts, have %d", n, s.Restarts)
		}
		return err
	}
}

// isPaused after that many restarts, so for a while.
func isPaused(n int) condition {
	return func(c *container) error {
		s, err := c.status()
		if err == nil && (s.Doing != pausing || s.Restarts < n) {
			err = fmt.Errorf("want a pause after %d restarts; have %s (%s) after %d", n, s.Doing, s.Reason, s.Restarts)
		}
		return err
	}
}

// probes are the HTTP statuses of /livez, /readyz and /startupz.
func probes(live, ready, startup int) condition { //nolint:unparam // a table names all three
	return func(c *container) error {
		for path, want := range map[string]int{"/livez": live, "/readyz": ready, "/startupz": startup} {
			_, code, err := c.get(path)
			if err != nil {
				return err
			}
			if code != want {
				return fmt.Errorf("%s: want %d, have %d", path, want, code)
			}
		}
		return nil
	}
}

// handedOver: another process is the main one, was not counted as a restart, and its lines are in the log.
func handedOver(c *container) error {
	s, err := c.status()
	switch {
	case err != nil:
		return err
	case s.Main == nil || s.Main.PID == c.before:
		return fmt.Errorf("the main process is %v still", s.Main)
	case s.Restarts != 0:
		return fmt.Errorf("a hand-over was counted as a restart")
	}
	source := string(s.Role)
	return c.check([]condition{
		logged(entry{"source": source, "level": "INFO", "msg": fmt.Sprintf("version 26.05.5 runs as %d", s.Main.PID)}),
		logged(entry{"source": source, "level": "ERROR", "msg": fmt.Sprintf("this is an error of %d", s.Main.PID)}),
	})
}

// stays: the main process is the one that was remembered.
func stays(c *container) error {
	s, err := c.status()
	if err == nil && (s.Main == nil || s.Main.PID != c.before) {
		err = fmt.Errorf("the main process is %v, not %d", s.Main, c.before)
	}
	return err
}

// processes are all there are in the container, zombies too.
func processes(n int) condition {
	return func(c *container) error {
		if inside := c.pids(); len(inside) != n {
			return fmt.Errorf("want %d processes, have %v", n, inside)
		}
		return nil
	}
}

func logged(want entry) condition { return func(c *container) error { return c.log.find(want) } }

func notLogged(what entry) condition {
	return func(c *container) error {
		if c.log.find(what) == nil {
			return fmt.Errorf("a line of the log has %v", what)
		}
		return nil
	}
}

// youngestIsMain: the daemon that was started last is the main process.
func youngestIsMain(c *container) error {
	s, err := c.status()
	if err == nil && s.Main != nil && s.Main.PID == c.youngest() {
		return nil
	}
	return fmt.Errorf("the main process is %+v, not %d", s.Main, c.youngest())
}

// wrote: the journal has a text at least that often.
func wrote(text string, least int) condition {
	return func(c *container) error {
		if n := strings.Count(c.journal(), text); n < least {
			return fmt.Errorf("the journal has %q %d times, not %d", text, n, least)
		}
		return nil
	}
}

// follows: the journal has text, and next after it.
func follows(text, next string) condition {
	return func(c *container) error {
		if _, rest, has := strings.Cut(c.journal(), text); !has || !strings.Contains(rest, next) {
			return fmt.Errorf("the journal has no %q after %q", next, text)
		}
		return nil
	}
}

// since: the journal has text since it was marked.
func since(text string) condition {
	return func(c *container) error {
		if !strings.Contains(c.journal()[c.marked:], text) {
			return fmt.Errorf("the journal has no %q since it was marked", text)
		}
		return nil
	}
}

func never(text string) condition { return atMost(text, 0) }

func atMost(text string, most int) condition {
	return func(c *container) error {
		if n := strings.Count(c.journal(), text); n > most {
			return fmt.Errorf("the journal has %q %d times", text, n)
		}
		return nil
	}
}

// calls: that many of Slurm's commands were run since the journal was marked.
func calls(n int) condition {
	return func(c *container) error {
		since, have := c.journal()[c.marked:], 0
		for line := range strings.Lines(since) {
			program, _, _ := strings.Cut(line, "[")
			if program == "scontrol" || program == "sinfo" || program == "squeue" || program == "scancel" {
				have++
			}
		}
		if have != n {
			return fmt.Errorf("want %d calls, have %d:\n%s", n, have, since)
		}
		return nil
	}
}

// recordIs: slurmctld's record has a text in it, or there is none where nothing is wanted.
func recordIs(want string) condition {
	return func(c *container) error {
		text, err := os.ReadFile(c.path("node.json"))
		if errors.Is(err, fs.ErrNotExist) && want == "" {
			return nil
		}
		if err == nil && (want == "" || !strings.Contains(string(text), want)) {
			err = fmt.Errorf("want %q in the record, have %s", want, text)
		}
		return err
	}
}

// jobIs: what slurmctld knows of a job has a text in it.
func jobIs(id, want string) condition {
	return func(c *container) error {
		text, err := os.ReadFile(c.path("jobs/" + id))
		if err == nil && !strings.Contains(string(text), want) {
			err = fmt.Errorf("want %q in the job, have %s", want, text)
		}
		return err
	}
}

// exits with that status.
func exits(code int) condition {
	return func(c *container) error {
		if !c.ended() {
			return fmt.Errorf("the agent has not ended")
		}
		if have := c.agent.ProcessState.ExitCode(); have != code {
			return fmt.Errorf("want exit status %d, have %v", code, c.agent.ProcessState)
		}
		return logged(entry{"source": "slurmlet", "msg": "exit", "status": fmt.Sprint(code)})(c)
	}
}

// inOrder: the journal has these texts, one after the other, whatever is between them.
func inOrder(texts ...string) condition {
	return func(c *container) error {
		rest := c.journal()
		for _, text := range texts {
			var found bool
			if _, rest, found = strings.Cut(rest, text); !found {
				return fmt.Errorf("the journal does not have %q in this order", texts)
			}
		}
		return nil
	}
}
