package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

// edits are how long a change of slurm.conf takes to the last node's new slurmd.
type edits struct {
	// bare is from scontrol reconfigure on, edited from the swap of ..data in a
	// ConfigMap's volume on.
	bare, edited samples
}

// undelayed is edited without the agent's debounce.
func (e edits) undelayed() samples {
	all := make(samples, 0, len(e.edited))
	for _, took := range e.edited {
		all = append(all, took-float64(reconfig.Debounce.Milliseconds()))
	}
	return all
}

const (
	editNodes = 3
	// editPause is rest between two: what is left of the one before makes slurmctld
	// slow to take the next, by hundreds of milliseconds.
	editPause = 500 * time.Millisecond
	// volume is a ConfigMap's, in the cluster's root.
	volume = "/run/volume"
)

func measureEdits(s settings, version string) (edits, error) {
	var e edits
	c, err := native.NewCluster(native.Options{Lower: s.Roots[version], Slurmlet: s.Slurmlet, Nodes: editNodes, SlurmConf: slurmConf})
	if err != nil {
		return e, err
	}
	b := &editBench{Cluster: c, live: make(chan struct{}, 16)}
	if err := b.begin(); err != nil {
		return e, err
	}
	for round := range todo.edits + 1 {
		if round%5 == 0 {
			native.Progress("Slurm %s, edits: round %d of %d", version, round, todo.edits)
		}
		for _, way := range []struct {
			samples *samples
			change  func() (time.Time, error)
		}{{&e.bare, b.reconfigure}, {&e.edited, b.edit}} {
			took, err := b.measure(way.change)
			if err != nil {
				return e, err
			}
			if round > 0 { // the first warms the caches
				way.samples.add(took)
			}
		}
	}
	return e, c.Close()
}

// editBench is a cluster of which every daemon has its agent.
type editBench struct {
	*native.Cluster
	// live gets something when slurmctld's agent says that an edit is live.
	live   chan struct{}
	volume *native.Volume
	files  map[string][]byte
	number int
}

func (b *editBench) begin() error {
	var err error
	if b.files, err = b.Sources(); err != nil {
		return err
	}
	if b.volume, err = b.NewVolume(volume, b.edited()); err != nil {
		return err
	}
	heard := func(line string) {
		if strings.Contains(line, `"the configuration is live"`) {
			b.live <- struct{}{}
		}
	}
	if err := b.ControlBySlurmlet(volume, heard, "SLURMLET_PREFLIGHT=parse"); err != nil {
		return err
	}
	for _, n := range b.Nodes {
		if err := b.Start(n); err != nil {
			return err
		}
	}
	if err := b.isLive(); err != nil {
		return err
	}
	return b.each(func(n *native.Node) bool {
		select {
		case <-n.Ready:
			return true
		default:
			return false
		}
	})
}

// edited is the sources with another value. A slurmd that has just asked a slurmctld that hands over waits as long before
// it follows.
func (b *editBench) edited() map[string][]byte {
	b.number++
	files := maps.Clone(b.files)
	files["slurm.conf"] = fmt.Appendf(slices.Clip(files["slurm.conf"]), "PrologEpilogTimeout=%d\n", 4+b.number%8)
	return files
}

func (b *editBench) edit() (time.Time, error) {
	at, err := b.volume.Swap(b.edited())
	if err != nil {
		return at, err
	}
	return at, b.isLive()
}

func (b *editBench) isLive() error {
	select {
	case <-b.live:
		return nil
	case <-time.After(native.Limit):
		return fmt.Errorf("an edit is not live within %v", native.Limit)
	}
}

func (b *editBench) reconfigure() (time.Time, error) {
	cmd := b.Command("/usr/bin/scontrol", "reconfigure")
	cmd.Env = append(cmd.Env, "SLURM_CONF=/run/slurmlet/conf/slurm.conf")
	at := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return at, fmt.Errorf("cannot reconfigure: %w: %s", err, out)
	}
	return at, nil
}

// measure makes a change and waits until every node has another slurmd, and is Ready.
func (b *editBench) measure(change func() (time.Time, error)) (time.Duration, error) {
	time.Sleep(editPause)
	before := map[*native.Node]int{}
	for _, n := range b.Nodes {
		before[n] = len(n.Log())
	}
	at, err := change()
	if err != nil {
		return 0, err
	}
	last := at
	err = b.each(func(n *native.Node) bool {
		handedOver := handOver(n.Log()[before[n]:])
		if handedOver.After(last) {
			last = handedOver
		}
		return !handedOver.IsZero()
	})
	return last.Sub(at), err
}

func (b *editBench) each(is func(*native.Node) bool) error {
	for _, n := range b.Nodes {
		if err := native.Within(native.Limit, n.Name+" does not follow", func() bool { return is(n) }); err != nil {
			log := n.Log()
			return fmt.Errorf("%w; the last lines of its agent:\n%s", err, strings.Join(log[max(0, len(log)-20):], "\n"))
		}
	}
	return nil
}

// handOver is when a node's agent has told of another slurmd, once it is Ready with it.
func handOver(log []string) (at time.Time) {
	for _, line := range log {
		var said struct {
			Time  time.Time
			State supervisor.Phase
		}
		if !strings.Contains(line, `"msg":"state"`) || json.Unmarshal([]byte(line), &said) != nil {
			continue
		}
		switch {
		case said.State == supervisor.Reloading && at.IsZero():
			at = said.Time
		case said.State == supervisor.Ready && !at.IsZero():
			return at
		}
	}
	return time.Time{}
}
