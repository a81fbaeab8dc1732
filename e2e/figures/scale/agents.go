package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

const (
	// agentsOfHost is how many agents one host has at most.
	agentsOfHost = 1250
	// mostCommands is how many of Slurm's commands all agents run at the same time.
	mostCommands = 16
	hostProgram  = "/usr/bin/scale-host"
)

// agents are those whose slurmd is only said to run.
type agents struct {
	hosts []*agentHost
	lock  sync.Mutex
	all   []agentLife
	// asked is when agents have begun a command of Slurm's, unasked how often the machine had no room for
	// one in time.
	asked   []time.Time
	unasked int
	// direct counts why agents have asked slurmctld themselves, and not its agent.
	direct map[string]int
	// warned counts what agents have logged as a warning or an error, without names and numbers.
	warned map[string]int
	// failed is what went wrong with an agent first.
	failed error
}

// agentLife is what one agent has reported last.
type agentLife struct {
	started, ready, announced, exited time.Time
	// hash is that of the configuration that was announced.
	hash   string
	status int
}

// agentHost is a process with some of the agents.
type agentHost struct {
	first, last int
	orders      *json.Encoder
}

// startHosts starts the hosts, which have no agents yet. They leave with the cluster.
func (t *trial) startHosts(count int) error {
	t.agents = &agents{all: make([]agentLife, count+1), direct: map[string]int{}, warned: map[string]int{}}
	program, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(filepath.Join(t.Root, hostProgram), program, 0o755) //nolint:gosec // a program
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(t.Root, hostSpool, "conf-cache"), 0o755)
	}
	if err != nil {
		return fmt.Errorf("cannot make the hosts ready: %w", err)
	}
	hosts := (count + agentsOfHost - 1) / agentsOfHost
	for i := range hosts {
		h := &agentHost{first: i*count/hosts + 1, last: (i + 1) * count / hosts}
		if err := t.startHost(i+1, h, hostSettings{
			Grace: grace, ShortGrace: shortGrace, LastShort: count / 4,
			Starters: max(1, t.settings.Starters/hosts), Commands: max(1, mostCommands/hosts),
		}); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) startHost(number int, h *agentHost, s hostSettings) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("cannot write the settings of a host: %w", err)
	}
	cmd := t.Command(hostProgram)
	cmd.Env, cmd.Stderr = append(cmd.Env, hostVariable+"="+string(text)), os.Stderr
	to, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("cannot start a host: %w", err)
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("cannot start a host: %w", err)
	}
	if err := t.StartHost(number, cmd); err != nil {
		return err
	}
	h.orders = json.NewEncoder(to)
	t.agents.hosts = append(t.agents.hosts, h)
	go t.agents.follow(from)
	if _, err := io.WriteString(to, "\n"); err != nil {
		return fmt.Errorf("cannot start a host: %w", err)
	}
	return nil
}

// follow takes a host's reports.
func (a *agents) follow(from io.Reader) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		var r report
		err := json.Unmarshal(lines.Bytes(), &r)
		a.lock.Lock()
		if err != nil {
			a.failed = cmp.Or(a.failed, fmt.Errorf("cannot read a host's report: %w", err))
		} else {
			a.take(r)
		}
		a.lock.Unlock()
	}
}

// take is called with the lock held.
func (a *agents) take(r report) {
	one := &a.all[r.Agent]
	switch r.What {
	case "started":
		one.started = r.At
	case "ready":
		one.ready = r.At
	case "announced":
		one.announced, one.hash = r.At, r.Text
	case "exited":
		one.exited, one.status = r.At, r.Status
	case "asked":
		a.asked = append(a.asked, r.At)
	case "unasked":
		a.unasked++
	case "direct":
		a.direct[withoutNames(r.Text)]++
	case "warned":
		a.warned[withoutNames(r.Text)]++
	case "failed":
		a.failed = cmp.Or(a.failed, fmt.Errorf("%s: %s", agentName(r.Agent), r.Text))
	}
}

// withoutNames makes the texts of many agents one.
func withoutNames(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return '#'
		}
		return r
	}, text)
}

// order tells agents what to do.
func (a *agents) order(do string, first, last int) error {
	for _, h := range a.hosts {
		from, to := max(first, h.first), min(last, h.last)
		if from > to {
			continue
		}
		if err := h.orders.Encode(order{do, from, to}); err != nil {
			return fmt.Errorf("cannot tell a host to %s: %w", do, err)
		}
	}
	return nil
}

// forget begins anew with what is counted.
func (a *agents) forget() {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.asked, a.unasked = nil, 0
	clear(a.direct)
	clear(a.warned)
}

// living are the numbers of the agents that have not exited.
func (a *agents) living() (numbers []int) {
	a.lock.Lock()
	defer a.lock.Unlock()
	for i := range a.all[1:] {
		if a.all[i+1].exited.IsZero() {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// awaitAgents waits until something has happened to all of these agents after began, and returns how long
// after it did.
func (t *trial) awaitAgents(what string, numbers []int, began time.Time, when func(agentLife) time.Time) (durations, error) {
	var took durations
	err := t.await(manyLimit, what, func() (bool, string) {
		t.agents.lock.Lock()
		defer t.agents.lock.Unlock()
		took = nil
		for _, n := range numbers {
			if at := when(t.agents.all[n]); at.After(began) {
				took = append(took, at.Sub(began))
			}
		}
		return len(took) == len(numbers) || t.agents.failed != nil, fmt.Sprintf("%d of %d", len(took), len(numbers))
	})
	t.agents.lock.Lock()
	defer t.agents.lock.Unlock()
	return took, cmp.Or(t.agents.failed, err)
}

// sayCommands tells how many commands the agents have run, over what time, and what they have warned of.
func (t *trial) sayCommands() {
	t.agents.lock.Lock()
	defer t.agents.lock.Unlock()
	if n := len(t.agents.asked); n > 0 {
		at := slices.SortedFunc(slices.Values(t.agents.asked), time.Time.Compare)
		most, first := 0, 0
		for i := range at {
			for at[i].Sub(at[first]) > time.Second {
				first++
			}
			most = max(most, i-first+1)
		}
		t.say("the agents have run %d commands of Slurm's within %v, %d in the busiest second; %d more found no room on this machine in time",
			n, tidy(at[n-1].Sub(at[0])), most, t.agents.unasked)
	}
	for _, text := range slices.Sorted(maps.Keys(t.agents.direct)) {
		t.say("%d changes went to slurmctld itself: %s", t.agents.direct[text], text)
	}
	for _, text := range slices.Sorted(maps.Keys(t.agents.warned)) {
		t.say("%d agents' warnings: %s", t.agents.warned[text], text)
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		t.say("load average: %s", strings.TrimSpace(string(text)))
	}
}

// push gives all agents' slurmds what slurmctld has, in the place of slurmctld, which does not speak to nodes that
// are powered down.
func (t *trial) push() error {
	live, err := filepath.EvalSymlinks(filepath.Dir(t.livePath()))
	if err != nil {
		return fmt.Errorf("cannot find slurmctld's configuration: %w", err)
	}
	entries, err := os.ReadDir(live)
	if err != nil {
		return fmt.Errorf("cannot read slurmctld's configuration: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".conf") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(live, e.Name()))
		copied := filepath.Join(t.Root, hostSpool, "conf-cache", e.Name())
		if err == nil {
			err = os.WriteFile(copied+".new", data, 0o600)
		}
		if err == nil {
			err = os.Rename(copied+".new", copied)
		}
		if err != nil {
			return fmt.Errorf("cannot copy slurmctld's configuration: %w", err)
		}
	}
	return nil
}

// noRecordsOf wants slurmctld to have no record of some agents.
func (t *trial) noRecordsOf(numbers []int) error {
	nodes := make([]*native.Node, len(numbers))
	for i, n := range numbers {
		nodes[i] = &native.Node{Name: agentName(n)}
	}
	return t.noRecords(nodes)
}
