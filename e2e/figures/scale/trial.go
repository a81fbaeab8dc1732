package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// slurmConf is what the bench needs: MinJobAge keeps the jobs until they have been counted. What a
// cluster of that size needs, slurmctld's agent adds.
func slurmConf(nodes int) string {
	most := 4096 // the agent's default
	for most < nodes {
		most *= 2
	}
	return fmt.Sprintf("MaxNodeCount=%d\nMinJobAge=3600\n", most)
}

// ofAgentsConf is for agents without slurmd. Their commands share one machine, so a question has time.
// slurmctld 24.11 takes a node that is powered down for one that does not respond when it reconfigures, unless it
// powers nodes down itself.
const ofAgentsConf = `MessageTimeout=100
SuspendProgram=/usr/bin/true
ResumeProgram=/usr/bin/true
SuspendTime=31536000
`

// volume is the ConfigMap's of slurmctld's agent, in the cluster's root.
const volume = "/run/volume"

// scenario is one of the things that happen to a cluster.
type scenario struct {
	name string
	act  func(*trial) error
	// asks: users ask slurmctld meanwhile.
	asks bool
}

// scenarios in their order.
var scenarios = []scenario{
	{"start", (*trial).startNodes, true},
	{"idle", (*trial).idle, false},
	{"edit", (*trial).edit, true},
	{"restart", (*trial).restart, false},
	{"hold", (*trial).hold, false},
	{"ends", (*trial).ends, true},
	{"drain", (*trial).drain, true},
}

func names(all []scenario) (names []string) {
	for _, s := range all {
		names = append(names, s.name)
	}
	return names
}

// trial is one cluster's life.
type trial struct {
	*native.Cluster
	settings settings
	version  string
	volume   *native.Volume
	files    map[string][]byte
	meter    *meter
	traffic  *traffic
	// lines are what the scenario that runs has to say besides its measures.
	lines []string
	// fault is what it should not have led to; the others happen all the same.
	fault error
	log   tail
	// agents are nil where all nodes are real; merged is what slurmctld's agent has done for many at once.
	agents *agents
	merged merges
}

// run has everything happen to a cluster of so many nodes.
func run(s settings, l lower, nodes int) (r result, err error) {
	size, all := nodes, scenarios
	if s.Simulated {
		s.Records, nodes, all = nodes, 0, ofAgents
	}
	lines := slurmConf(nodes + s.Records)
	if s.Simulated {
		lines += ofAgentsConf
	}
	// slurmctld 24.11 looks for a created record's name for ten seconds if nobody has it.
	var aliases []string
	for i := range s.Records {
		aliases = append(aliases, fmt.Sprintf("r%d", i+1))
	}
	c, err := native.NewCluster(native.Options{Aliases: aliases, Lower: l.Root, Slurmlet: s.Slurmlet, Nodes: nodes, SlurmConf: lines + s.SlurmConf, IPv6: s.IPv6})
	if err != nil {
		return r, err
	}
	t := &trial{Cluster: c, settings: s, version: l.Version}
	defer func() {
		if err != nil {
			t.explain()
		}
		err = errors.Join(err, c.Close())
	}()
	if t.traffic, err = watchTraffic(); err != nil {
		return r, err
	}
	defer t.traffic.close()
	if err := t.control(); err != nil {
		return r, err
	}
	if err := t.createRecords(); err != nil {
		return r, err
	}
	r = result{version: l.Version, nodes: size, records: s.Records, simulated: s.Simulated}
	for _, sc := range all {
		if !slices.Contains(s.Do, sc.name) && sc.name != "start" {
			continue
		}
		t.progress("%s", sc.name)
		m, err := t.measure(sc)
		if err != nil {
			return r, fmt.Errorf("%s: %w", sc.name, err)
		}
		if err := m.print(os.Stdout, r); err != nil {
			return r, err
		}
		if m.fault != nil {
			t.explain()
		}
		r.measures = append(r.measures, m)
	}
	return r, nil
}

func (t *trial) progress(format string, args ...any) {
	native.Progress("Slurm %s, %d nodes: "+format, append([]any{t.version, max(len(t.Nodes), t.settings.Records)}, args...)...)
}

// say adds a line to the scenario's table.
func (t *trial) say(format string, args ...any) {
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

// control starts slurmctld under its agent.
func (t *trial) control() error {
	if t.volume == nil {
		var err error
		if t.files, err = t.Sources(); err != nil {
			return err
		}
		if t.volume, err = t.NewVolume(volume, t.files); err != nil {
			return err
		}
	}
	return t.ControlBySlurmlet(volume, func(line string) {
		t.log.add(line)
		t.merged.add(line)
	})
}

// await waits for good, and says every ten seconds what for.
func (t *trial) await(limit time.Duration, what string, good func() (bool, string)) error {
	const every = 10 * time.Second
	said, state := time.Now(), ""
	err := native.Within(limit, what+": not", func() bool {
		is, now := good()
		if state = now; time.Since(said) > every && !is {
			said = time.Now()
			t.progress("waits until %s: %s", what, state)
		}
		return is
	})
	if err != nil && state != "" {
		return fmt.Errorf("%w: %s", err, state)
	}
	return err
}

// measure has one scenario happen.
func (t *trial) measure(sc scenario) (measure, error) {
	if err := t.resetCounts(); err != nil {
		return measure{}, err
	}
	t.lines, t.fault, t.meter = nil, nil, newMeter(t)
	stop := func() {}
	users := &users{cluster: t.Cluster}
	if sc.asks {
		stop = users.start()
	}
	began := time.Now()
	err := sc.act(t)
	stop()
	m := measure{scenario: sc.name, took: time.Since(began), users: *users}
	if err == nil {
		err = t.meter.finish(&m)
	}
	m.fault = errors.Join(t.fault, users.answered())
	m.lines = t.lines
	return m, err
}

// signalSlurmctld sends a signal to slurmctld itself.
func (t *trial) signalSlurmctld(signal unix.Signal) error {
	pid, err := t.meter.slurmctld()
	if err == nil {
		err = unix.Kill(pid, signal)
	}
	if err != nil {
		return fmt.Errorf("cannot signal slurmctld: %w", err)
	}
	return nil
}
