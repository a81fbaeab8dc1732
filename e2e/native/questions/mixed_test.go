//go:build e2e

package questions

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// What slurmctld shows as MIXED for ever after a job's end, because it has counted its CPUs before, costs it no question of
// all nodes: a drain that waits, a resize, a node in a reservation, and the way down.

// doubt: a node is drained, and gets SIGTERM while a job runs on one of its CPUs. slurmctld shows
// it as MIXED for ever after the job's end, because it has counted its CPUs before, when somebody
// asked for all nodes.
func (l *life) doubt() error {
	n := l.Nodes[4]
	gate, err := l.mix(n)
	if err != nil {
		return err
	}
	if err := l.scontrol("delete", "nodename="+n.Name); err == nil || !strings.Contains(err.Error(), "Requested nodes are busy") {
		return fmt.Errorf("slurmctld does not refuse to delete the record of a node with a job: %w", err)
	}
	if err := l.look(); err != nil {
		return err
	}
	if err := slurmlet(n, "drain", "-reason", "new disk"); err != nil {
		return err
	}
	if err := leaves(n, gate, 0); err != nil {
		return err
	}
	return l.small()
}

// leaves has a node get SIGTERM, wait for its job, whose gate opens then, and exit with a status.
func leaves(n *native.Node, gate *native.Gate, status int) error {
	if err := n.Terminate(); err != nil {
		return err
	}
	select {
	case <-n.Waiting:
	case <-time.After(limit):
		return fmt.Errorf("%s does not wait for its job", n.Name)
	}
	if err := gate.Open(); err != nil {
		return fmt.Errorf("cannot open the gate: %w", err)
	}
	return exits(n, status)
}

// mix has a job run on one of a node's two CPUs until the gate opens, and slurmctld count them.
func (l *life) mix(n *native.Node) (*native.Gate, error) {
	gate, err := l.NewGate()
	if err != nil {
		return nil, err
	}
	if _, err := l.Submit(n.Name); err != nil {
		return nil, err
	}
	if err := native.Within(limit, "no step runs on "+n.Name, func() bool { return l.runs(n) }); err != nil {
		return nil, err
	}
	return gate, l.scontrol("show", "nodes")
}

// limit sets the CPU limit of the last node's pod, in thousandths of a CPU.
func (l *life) limit(millicores string) error {
	dir := filepath.Join(l.Root, podInfo)
	at := filepath.Join(dir, "cpu_limit")
	err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(at+".new", []byte(millicores), 0o644)) //nolint:gosec // no secret
	if err == nil {
		err = os.Rename(at+".new", at)
	}
	return err
}

// drainAndWait: an administrator waits until a MIXED node is free. slurmctld would show it as MIXED
// for ever after.
func (l *life) drainAndWait() error {
	n := l.Nodes[5]
	gate, err := l.mix(n)
	if err != nil {
		return err
	}
	if err := l.look(); err != nil {
		return err
	}
	free := make(chan error, 1)
	go func() { free <- slurmlet(n, "drain", "-reason", "new disk", "-wait") }()
	if err := native.Within(limit, n.Name+" is not drained", func() bool { return l.is(n, "DRAIN") }); err != nil {
		return err
	}
	if err := gate.Open(); err != nil {
		return fmt.Errorf("cannot open the gate: %w", err)
	}
	select {
	case err = <-free:
	case <-time.After(limit):
		err = errors.New("slurmlet drain -wait does not end")
	}
	if err == nil {
		err = l.smallFor(n)
	}
	if err != nil {
		return err
	}
	return slurmlet(n, "resume")
}

// is says whether a node has a state. It asks for the one node.
func (l *life) is(n *native.Node, state string) bool {
	out, err := l.Command("/usr/bin/sinfo.slurm", "--noheader", "--nodes="+n.Name, "--format=%T").Output()
	return err == nil && strings.Contains(strings.ToUpper(string(out)), state)
}

// resize: a MIXED node's pod gets less, and more again when the node is idle.
func (l *life) resize() error {
	n := l.Nodes[5]
	gate, err := l.mix(n)
	if err != nil {
		return err
	}
	for _, millicores := range []string{"1000", "2000"} {
		before := readies(n)
		if err := errors.Join(l.look(), l.limit(millicores)); err != nil {
			return err
		}
		if millicores == "1000" {
			if err := native.Within(limit, n.Name+" is not drained", func() bool { return l.is(n, "DRAIN") }); err != nil {
				return err
			}
			if err := gate.Open(); err != nil {
				return fmt.Errorf("cannot open the gate: %w", err)
			}
		}
		if err := native.Within(limit, n.Name+" is not Ready with "+millicores+"m", func() bool { return readies(n) > before }); err != nil {
			return err
		}
		if err := l.smallFor(n); err != nil {
			return err
		}
	}
	return nil
}

// reserved: a node gets SIGTERM that is MIXED and in a reservation. Its record stays, DOWN.
func (l *life) reserved() error {
	n := l.Nodes[5]
	gate, err := l.mix(n)
	if err != nil {
		return err
	}
	if err := l.scontrol("create", "reservation=hold", "nodes="+n.Name, "starttime=now", "duration=60", "users=root", "flags=ignore_jobs"); err != nil {
		return err
	}
	// slurmctld deletes the record of such a node for some seconds yet.
	err = native.Within(limit, "slurmctld does not show the reservation of "+n.Name, func() bool { return slices.Contains(l.state(n), "RESERVED") })
	if err != nil {
		return err
	}
	if err := errors.Join(l.look(), leaves(n, gate, 0)); err != nil {
		return err
	}
	// A registration that was on its way ends DOWN (ReturnToService=2), and not the drain.
	if state := l.state(n); !slices.Contains(state, "DRAIN") {
		return fmt.Errorf("the record of %s in a reservation is %v, and not drained", n.Name, state)
	}
	return l.smallFor(n)
}

// state is what slurmctld shows of a node whose record it has.
func (l *life) state(n *native.Node) []string {
	var answer struct {
		Nodes []struct {
			State []string `json:"state"`
		} `json:"nodes"`
	}
	if err := l.Ask(&answer, "/usr/bin/scontrol", "show", "node", n.Name); err != nil || len(answer.Nodes) != 1 {
		return nil
	}
	return answer.Nodes[0].State
}
