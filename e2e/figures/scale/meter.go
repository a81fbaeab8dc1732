package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
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
	spent, before        map[int]usage
	slurmctldSent, agent int64
	// descriptors is how many file descriptors slurmctld's agent has had at most.
	descriptors         int
	stopping, stoppedAt chan struct{}
}

type usage struct {
	native.Usage
	agent bool
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
		slurmctldSent: t.traffic.slurmctld.Load(), agent: t.traffic.agent.Load(),
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
	files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", m.trial.Slurmctld.Process.Pid)) // it may be away
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
	pid := m.trial.Slurmctld.Process.Pid
	own, err := native.UsageOf(pid)
	if err != nil {
		return
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	m.spent[pid] = usage{own, true}
	for _, child := range native.Children(pid) {
		if u, err := native.UsageOf(child); err == nil && strings.HasPrefix(native.NameOf(child), "slurmctld") {
			m.spent[child] = usage{u, false}
		}
	}
}

// forget begins anew with what was counted: slurmctld's counts were reset.
func (m *meter) forget() {
	m.ask()
	m.lock.Lock()
	defer m.lock.Unlock()
	m.banked = asked{}
	m.slurmctldSent, m.agent = m.trial.traffic.slurmctld.Load(), m.trial.traffic.agent.Load()
	m.before = maps.Clone(m.spent)
}

// slurmctld is the process of the slurmctld that runs.
func (m *meter) slurmctld() (int, error) {
	for _, child := range native.Children(m.trial.Slurmctld.Process.Pid) {
		if native.NameOf(child) == "slurmctld" {
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
			to.slurmctld += u.Own - was.Own
			if _, err := procfs.NewProc(pid); err != nil {
				to.agent -= u.Own // its agent has reaped it, and has its time
			}
			continue
		}
		to.agent += u.Own - was.Own + u.Children - was.Children
	}
	to.agent = max(to.agent, 0)
	if pid, err := m.slurmctld(); err == nil {
		u, _ := native.UsageOf(pid) // it may be reconfiguring
		to.memory = u.Resident
	}
	u, _ := native.UsageOf(m.trial.Slurmctld.Process.Pid) // it may have ended
	to.agentMemory, to.descriptors = u.Resident, m.descriptors
	to.sent = m.trial.traffic.slurmctld.Load() - m.slurmctldSent
	to.agentSent = m.trial.traffic.agent.Load() - m.agent
	to.lost = m.trial.traffic.lost.Load()
	return nil
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
