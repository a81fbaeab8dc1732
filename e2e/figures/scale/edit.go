package main

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// manyLimit bounds what all nodes do, on a machine of few processors.
const manyLimit = 10 * time.Minute

// calm is how long slurmctld is asked nothing when a scenario is over.
const calm = 5 * time.Second

// idle has nothing happen.
func (t *trial) idle() error {
	if err := t.settled(calm); err != nil {
		return err
	}
	if err := t.resetCounts(); err != nil {
		return err
	}
	t.meter.forget()
	before := t.meter.sum()
	began := time.Now()
	err := t.await(t.settings.Idle+time.Minute, "the idle time is over", func() (bool, string) {
		return time.Since(began) > t.settings.Idle, "nothing shall happen"
	})
	t.say("%d questions in %v", t.meter.sum().others()-before.others(), tidy(t.settings.Idle))
	return err
}

// sent waits until slurmctld has sent the nodes what it had for them, and has their answers.
func (t *trial) sent() error {
	return t.await(manyLimit, "slurmctld sends nothing", func() (bool, string) {
		var answer struct {
			Statistics struct {
				Sending int `json:"agent_count"`
				Queued  int `json:"agent_queue_size"`
			} `json:"statistics"`
		}
		err := t.askSdiag(&answer)
		s := answer.Statistics
		return err == nil && s.Sending+s.Queued == 0, fmt.Sprintf("%d are on their way, %d wait, %v", s.Sending, s.Queued, err)
	})
}

// edit compares an edit with a bare reconfigure: the time until the last slurmd has written what
// it was sent. Both begin with a slurmctld that sends nothing, because an edit waits for that.
func (t *trial) edit() error {
	if err := t.sent(); err != nil {
		return err
	}
	bare, err := t.reconfigured(func() error {
		// slurmctld goes on with it even where scontrol has waited for too long.
		if out, err := t.Command("/usr/bin/scontrol", "reconfigure").CombinedOutput(); err != nil {
			t.fault = fmt.Errorf("scontrol reconfigure: %w: %s", err, strings.TrimSpace(string(out)))
		}
		return nil
	}, "")
	if err != nil {
		return err
	}
	if err := errors.Join(t.settled(calm), t.sent()); err != nil {
		return err
	}
	const line = "KillWait=31"
	edited, err := t.reconfigured(func() error {
		files := maps.Clone(t.files)
		files["slurm.conf"] = append([]byte(line+"\n"), files["slurm.conf"]...)
		_, err := t.volume.Swap(files)
		return err
	}, line)
	if err != nil {
		return err
	}
	began := time.Now()
	err = t.await(manyLimit, "slurmctld's agent is at rest", func() (bool, string) {
		s, err := t.AgentStatus()
		if err != nil {
			return false, err.Error()
		}
		return s.State == supervisor.Ready && s.Conf.Doing == "", s.Conf.Doing
	})
	if err != nil {
		return err
	}
	t.say("the last node has the edit after %v, what a bare scontrol reconfigure sends after %v: %.2f times as long; the agent is sure after %v more",
		tidy(edited), tidy(bare), edited.Seconds()/bare.Seconds(), tidy(time.Since(began)))
	if err := t.settled(calm); err != nil {
		return err
	}
	t.fault = errors.Join(t.fault, t.keeps(line))
	return nil
}

// keeps wants every node to have the edit still: it was not taken back.
func (t *trial) keeps(line string) error {
	for _, n := range t.living() {
		if text, _ := configuration(n); !strings.Contains(text, line) {
			return fmt.Errorf("%s has the edit no more", n.Name)
		}
	}
	return nil
}

// reconfigured does something that has all slurmds reconfigure, and returns when the last has.
func (t *trial) reconfigured(do func() error, line string) (time.Duration, error) {
	began, left := time.Now(), t.living()
	if err := do(); err != nil {
		return 0, err
	}
	var last time.Time
	err := t.await(manyLimit, "the last node has the configuration", func() (bool, string) {
		var still []*native.Node
		for _, n := range left {
			text, at := configuration(n)
			if !at.After(began) || !strings.Contains(text, line) {
				still = append(still, n)
			} else if at.After(last) {
				last = at
			}
		}
		left = still
		return len(left) == 0, fmt.Sprintf("%d have not", len(left))
	})
	return last.Sub(began), err
}
