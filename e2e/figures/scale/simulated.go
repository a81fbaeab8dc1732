package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

// ofAgents are the scenarios of agents whose slurmd is only said to run, in their order.
var ofAgents = []scenario{
	{"start", (*trial).startAgents, true},
	{"idle", (*trial).idle, false},
	{"edit", (*trial).editForAgents, true},
	{"restart", (*trial).restartForAgents, false},
	{"ends", (*trial).endAQuarter, true},
	{"drain", (*trial).endTheRest, true},
}

// startAgents starts all agents, some at a time, and waits until they are Ready.
func (t *trial) startAgents() error {
	if err := errors.Join(t.startHosts(t.settings.Records), t.push()); err != nil {
		return err
	}
	if err := t.agents.order("start", 1, t.settings.Records); err != nil {
		return err
	}
	if _, err := t.awaitAgents("all agents are Ready", t.agents.living(), time.Time{}, func(l agentLife) time.Time { return l.ready }); err != nil {
		return err
	}
	var took durations
	t.agents.lock.Lock()
	for _, l := range t.agents.all[1:] {
		took = append(took, l.ready.Sub(l.started))
	}
	t.agents.lock.Unlock()
	if err := t.settled(calm); err != nil {
		return err
	}
	used, err := memory()
	t.say("%d at a time; from an agent's start until it is Ready: p50 %v, p99 %v, most %v; all processes have %d MiB",
		t.settings.Starters, took.at(.5), took.at(.99), took.at(1), used>>20)
	t.sayCommands()
	return err
}

// editForAgents edits slurm.conf. All slurmds take over anew as soon as slurmctld has.
func (t *trial) editForAgents() error {
	t.agents.forget()
	former, err := t.meter.slurmctld()
	if err != nil {
		return err
	}
	const line = "KillWait=31"
	files := maps.Clone(t.files)
	files["slurm.conf"] = append([]byte(line+"\n"), files["slurm.conf"]...)
	t.files = files
	began, err := t.volume.Swap(files)
	if err != nil {
		return err
	}
	err = t.await(manyLimit, "slurmctld has taken over", func() (bool, string) {
		text, _ := os.ReadFile(t.livePath()) // it may be replaced at this moment
		pid, err := t.meter.slurmctld()
		return err == nil && pid != former && bytes.Contains(text, []byte(line)), fmt.Sprint(err)
	})
	if err != nil {
		return err
	}
	if err := t.push(); err != nil {
		return err
	}
	living, pushed := t.agents.living(), time.Now()
	if err := t.agents.order("reconfigure", 1, t.settings.Records); err != nil {
		return err
	}
	heard, err := t.awaitAgents("all agents have heard of the edit", living, began, func(l agentLife) time.Time { return l.announced })
	if err != nil {
		return err
	}
	ready, err := t.awaitAgents("all agents are Ready again", living, pushed, func(l agentLife) time.Time { return l.ready })
	if err != nil {
		return err
	}
	t.say("from the edit until an agent has heard that it is live: p50 %v, p99 %v, most %v; slurmctld took over after %v", heard.at(.5), heard.at(.99), heard.at(1), tidy(pushed.Sub(began)))
	t.say("from the hand-over of all slurmds until an agent is Ready again: p50 %v, p99 %v, most %v", ready.at(.5), ready.at(.99), ready.at(1))
	err = t.settled(calm)
	t.sayCommands()
	t.fault = errors.Join(t.fault, t.haveHeardTheSame(living))
	return err
}

// haveHeardTheSame wants all agents to know of the same configuration.
func (t *trial) haveHeardTheSame(numbers []int) error {
	t.agents.lock.Lock()
	defer t.agents.lock.Unlock()
	hashes := map[string]int{}
	for _, n := range numbers {
		hashes[t.agents.all[n].hash]++
	}
	if len(hashes) != 1 {
		return fmt.Errorf("the agents have heard of other configurations (hash:agents) %v", hashes)
	}
	return nil
}

// livePath is slurmctld's slurm.conf.
func (t *trial) livePath() string {
	live := filepath.Join(t.Root, reconfig.LivePath(agent.DefaultRunDir))
	if to, err := os.Readlink(filepath.Dir(live)); err == nil && filepath.IsAbs(to) {
		return filepath.Join(t.Root, to, filepath.Base(live))
	}
	return live
}

// restartForAgents ends slurmctld's agent as the kubelet does, and starts another.
func (t *trial) restartForAgents() error {
	t.agents.forget()
	began := time.Now()
	if err := t.Slurmctld.Process.Signal(unix.SIGTERM); err != nil {
		return fmt.Errorf("cannot end slurmctld's agent: %w", err)
	}
	if err := t.Slurmctld.Wait(); err != nil {
		return fmt.Errorf("slurmctld's agent has failed: %w", err)
	}
	ended := time.Now()
	if err := t.control(); err != nil {
		return err
	}
	answers := time.Now()
	heard, err := t.awaitAgents("all agents have heard of the new slurmctld", t.agents.living(), ended, func(l agentLife) time.Time { return l.announced })
	if err != nil {
		return err
	}
	t.say("it ended in %v and answered after %v more; from the end until an agent has heard from the new one: p50 %v, p99 %v, most %v",
		tidy(ended.Sub(began)), tidy(answers.Sub(ended)), heard.at(.5), heard.at(.99), heard.at(1))
	err = t.settled(agentsLook)
	t.sayCommands()
	return err
}

// endAQuarter has a quarter of all agents end at once, which have little time.
func (t *trial) endAQuarter() error {
	return t.endAgents(shortGrace, func(n int) bool { return n <= t.settings.Records/4 })
}

// endTheRest has all others end at once. They have time.
func (t *trial) endTheRest() error { return t.endAgents(grace, func(int) bool { return true }) }

func (t *trial) endAgents(period time.Duration, which func(number int) bool) error {
	gone := slices.DeleteFunc(t.agents.living(), func(n int) bool { return !which(n) })
	if len(gone) == 0 {
		return errors.New("there are no agents to end")
	}
	if err := t.resetCounts(); err != nil {
		return err
	}
	t.meter.forget()
	t.agents.forget()
	t.merged.forget()
	t.progress("SIGTERM to %d agents", len(gone))
	began := time.Now()
	if err := t.agents.order("terminate", gone[0], gone[len(gone)-1]); err != nil {
		return err
	}
	took, err := t.awaitAgents("all agents have exited", gone, began, func(l agentLife) time.Time { return l.exited })
	if err != nil {
		return err
	}
	t.say("from SIGTERM to exit, %d agents with %v of grace: p50 %v, p99 %v, most %v", len(gone), period, took.at(.5), took.at(.99), took.at(1))
	t.sayMerged(began)
	t.sayCommands()
	t.fault = errors.Join(t.exitedWell(gone), t.noRecordsOf(gone))
	return nil
}

// exitedWell wants every agent to have exited with 0.
func (t *trial) exitedWell(numbers []int) error {
	t.agents.lock.Lock()
	defer t.agents.lock.Unlock()
	counts := map[int]int{}
	for _, n := range numbers {
		counts[t.agents.all[n].status]++
	}
	if counts[0] == len(numbers) {
		return nil
	}
	return fmt.Errorf("agents exited with (status:agents) %v", counts)
}

// merges are the changes that slurmctld's agent has made for many agents at once.
type merges struct {
	lock sync.Mutex
	all  []merged
}

// add takes a line of the log of slurmctld's agent.
func (m *merges) add(line string) {
	var one merged
	if !strings.Contains(line, " at once") || json.Unmarshal([]byte(line), &one) != nil || one.Commands == 0 {
		return
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	m.all = append(m.all, one)
}

func (m *merges) forget() {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.all = nil
}

// since are those after forget.
func (m *merges) since() []merged {
	m.lock.Lock()
	defer m.lock.Unlock()
	return slices.Clone(m.all)
}

// merged is a line of its log.
type merged struct {
	At       time.Time `json:"time"`
	Text     string    `json:"msg"`
	Commands int       `json:"commands"`
	Done     int       `json:"done"`
	Refused  int       `json:"refused"`
}

// sayMerged tells when the records have gone.
func (t *trial) sayMerged(began time.Time) {
	all := t.merged.since()
	var gone durations
	commands, refused := map[string]int{}, 0
	for _, m := range all {
		verb, _, _ := strings.Cut(m.Text, ":")
		commands[verb] += m.Commands
		refused += m.Refused
		if verb == "delete" {
			gone = append(gone, slices.Repeat(durations{m.At.Sub(began)}, m.Done)...)
		}
	}
	t.say("slurmctld's agent has deleted %d records with the commands %v, %d changes were refused; from SIGTERM until a record has gone: p50 %v, p99 %v, most %v",
		len(gone), commands, refused, gone.at(.5), gone.at(.99), gone.at(1))
}
