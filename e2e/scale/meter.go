package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"
)

// meter follows what slurmctld is asked, and what it and its agent use, throughout a scenario:
// slurmctld forgets its counts, and its process changes, when it reconfigures.
type meter struct {
	trial *trial
	lock  sync.Mutex
	// banked are the counts of slurmctlds that have gone, last is what the present one told last.
	banked, last asked
	// spent is the processor time of slurmctlds and of agents, by their pid; before is what they
	// had used at the scenario's beginning.
	spent, before     map[int]usage
	controller, agent int64
	// descriptors is how many file descriptors slurmctld's agent has had at most.
	descriptors         int
	stopping, stoppedAt chan struct{}
}

type usage struct {
	agent bool
	own   time.Duration
	// children are the ended ones.
	children time.Duration
}

const (
	// askEvery is how often slurmctld tells its counts.
	askEvery = time.Second
	// lookEvery is how often /proc is read.
	lookEvery = 200 * time.Millisecond
)

func newMeter(t *trial) *meter {
	m := &meter{
		trial: t, banked: asked{}, last: asked{}, spent: map[int]usage{},
		controller: t.traffic.controller.Load(), agent: t.traffic.agent.Load(),
		stopping: make(chan struct{}), stoppedAt: make(chan struct{}, 2),
	}
	m.look()
	m.before = maps.Clone(m.spent)
	go m.every(lookEvery, m.look)
	go m.every(askEvery, m.ask)
	return m
}

func (m *meter) every(pause time.Duration, do func()) {
	defer func() { m.stoppedAt <- struct{}{} }()
	for {
		select {
		case <-m.stopping:
			return
		case <-time.After(pause):
			do()
		}
	}
}

// ask has slurmctld tell its counts; one that does not answer is asked again.
func (m *meter) ask() {
	files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", m.trial.Controller.Process.Pid)) // it may be away
	now, err := m.trial.counts()
	m.lock.Lock()
	defer m.lock.Unlock()
	m.descriptors = max(m.descriptors, len(files))
	if err != nil {
		return
	}
	if now.total() < m.last.total() {
		m.banked.add(m.last)
	}
	m.last = now
}

// sum is what was asked until now.
func (m *meter) sum() asked {
	m.lock.Lock()
	defer m.lock.Unlock()
	sum := asked{}
	sum.add(m.banked)
	sum.add(m.last)
	return sum
}

// look reads the processor time of slurmctld's agent and of its slurmctlds.
func (m *meter) look() {
	pid := m.trial.Controller.Process.Pid
	u, err := processorTime(pid)
	if err != nil {
		return
	}
	u.agent = true
	m.lock.Lock()
	defer m.lock.Unlock()
	m.spent[pid] = u
	for _, child := range children(pid) {
		if u, err := processorTime(child); err == nil && strings.HasPrefix(nameOf(child), "slurmctld") {
			m.spent[child] = u
		}
	}
}

// forget begins anew with what was counted: slurmctld's counts were reset.
func (m *meter) forget() {
	m.ask()
	m.lock.Lock()
	defer m.lock.Unlock()
	m.banked = asked{}
	m.controller, m.agent = m.trial.traffic.controller.Load(), m.trial.traffic.agent.Load()
	m.before = maps.Clone(m.spent)
}

// slurmctld is the process of the slurmctld that runs.
func (m *meter) slurmctld() (int, error) {
	for _, child := range children(m.trial.Controller.Process.Pid) {
		if nameOf(child) == "slurmctld" {
			return child, nil
		}
	}
	return 0, errors.New("cannot find slurmctld's process")
}

// finish ends it and gives what it has counted.
func (m *meter) finish(to *measure) error {
	close(m.stopping)
	<-m.stoppedAt
	<-m.stoppedAt
	m.look()
	if now, err := m.trial.counts(); err != nil {
		return err
	} else if m.last.total() > now.total() {
		m.banked.add(m.last)
		m.last = now
	} else {
		m.last = now
	}
	to.asked = m.sum()
	for pid, u := range m.spent {
		was := m.before[pid]
		if !u.agent {
			to.controller += u.own - was.own
			if _, err := procfs.NewProc(pid); err != nil {
				to.agent -= u.own // its agent has reaped it, and has its time
			}
			continue
		}
		to.agent += u.own - was.own + u.children - was.children
	}
	to.agent = max(to.agent, 0)
	if pid, err := m.slurmctld(); err == nil {
		to.memory = resident(pid)
	}
	to.agentMemory, to.descriptors = resident(m.trial.Controller.Process.Pid), m.descriptors
	to.sent = m.trial.traffic.controller.Load() - m.controller
	to.agentSent = m.trial.traffic.agent.Load() - m.agent
	to.lost = m.trial.traffic.lost.Load()
	return nil
}

// resident is what a process has in memory, in bytes (proc_pid_stat(5), rss), 0 when it has gone.
func resident(pid int) int64 {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	stat, _ := p.Stat() // it may be reconfiguring
	return int64(stat.ResidentMemory())
}

// settled waits until slurmctld is asked nothing for so long, but by the bench.
func (t *trial) settled(calm time.Duration) error {
	last, since := -1, time.Now()
	return t.await(manyLimit, "nobody asks slurmctld any more", func() (bool, string) {
		if now := t.meter.sum().others(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > calm, fmt.Sprintf("it was asked %d times", last)
	})
}

// children are the living ones of all of a process's threads (proc_pid_task(5)), a file that procfs
// does not read. The parents of all processes would say the same, at the cost of thousands of files.
func children(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file) // the thread may have ended
		for word := range strings.FieldsSeq(string(text)) {
			if n, err := strconv.Atoi(word); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

func nameOf(pid int) string {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return ""
	}
	name, _ := p.Comm() // it may have ended
	return name
}
