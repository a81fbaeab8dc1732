//go:build e2e

// Package stranger edits slurm.conf of real clusters while somebody who reaches the port of
// slurmctld's agent holds a thousand connections. It runs on this machine's own kernel (e2e/testbed/native).
package stranger

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// settings are what those inside the namespaces are told by those outside.
type settings struct {
	native.Given
	// Edits are made during the attack, one at the beginning of each Pause; as many Before.
	Before, Edits int
	Pause         time.Duration
}

// held is how many connections a stranger has.
const held = 1000

func TestMain(m *testing.M) { native.TestMain(m, inside) }

// TestStranger takes ten minutes with SLURMLET_E2E_FULL=1.
func TestStranger(t *testing.T) {
	s := settings{Before: 2, Edits: 4}
	if os.Getenv("SLURMLET_E2E_FULL") != "" {
		s.Before, s.Edits, s.Pause = 10, 20, 30*time.Second
	}
	native.EachVersion(t, func(t *testing.T, g native.Given) {
		t.Parallel()
		s := s
		s.Given = g
		native.Play(t, 20*time.Minute, s)
	})
}

func inside(s settings) error {
	cluster, err := native.NewCluster(native.Options{
		Lower: s.Root, Slurmlet: s.Slurmlet, Nodes: 3, SlurmConf: "SlurmctldParameters=enable_configless\nMaxNodeCount=16\n",
	})
	if err != nil {
		return err
	}
	e := &editor{Cluster: cluster, live: make(chan string, 16)}
	if err := e.begin(); err != nil {
		return e.explained(err)
	}
	usual, err := e.edits(s.Before, 0)
	if err != nil {
		return e.explained(err)
	}
	kept := e.memory()
	a := attack(native.Address+":8817", held)
	if err := native.Within(native.Limit, "the stranger has not all connections", func() bool { return a.holding.Load() >= held*9/10 }); err != nil {
		return err
	}
	began := time.Now()
	during, err := e.edits(s.Edits, s.Pause)
	if err != nil {
		return e.explained(err)
	}
	fmt.Printf("Slurm %s: %d edits live without a stranger: median %v, longest %v; %d of %d with one who held %d connections (%d in all) for %v: median %v, longest %v; the agent's memory %s kB, then %s kB\n",
		s.Version, len(usual), median(usual), slices.Max(usual), len(during), s.Edits, a.holding.Load(), a.made.Load(), time.Since(began).Round(time.Second), median(during), slices.Max(during), kept, e.memory())
	a.end()
	return cluster.Close()
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// editor is a cluster whose slurm.conf is edited.
type editor struct {
	*native.Cluster
	// live gets the agent's words for each edit that is live.
	live   chan string
	log    []string
	number int
}

const sources = "/run/sources"

func (e *editor) begin() error {
	if err := os.Mkdir(filepath.Join(e.Root, sources), 0o755); err != nil {
		return err
	}
	for _, name := range []string{"cgroup.conf", "slurm.key"} {
		text, err := os.ReadFile(filepath.Join(e.Root, "etc/slurm", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(e.Root, sources, name), text, 0o600)
		}
		if err != nil {
			return err
		}
	}
	if err := e.write(); err != nil {
		return err
	}
	if err := e.ControlBySlurmlet(sources, e.hear); err != nil {
		return err
	}
	for _, n := range e.Nodes {
		if err := e.Start(n); err != nil {
			return err
		}
	}
	for _, n := range e.Nodes {
		if err := n.AwaitReady(time.Minute); err != nil {
			return err
		}
	}
	<-e.live // that of the start
	return nil
}

func (e *editor) hear(line string) {
	e.log = append(e.log, line)
	if strings.Contains(line, `"the configuration is live"`) {
		e.live <- line
	}
}

// write edits slurm.conf as an editor does.
func (e *editor) write() error {
	text, err := os.ReadFile(filepath.Join(e.Root, "etc/slurm/slurm.conf"))
	if err != nil {
		return err
	}
	e.number++
	next := filepath.Join(e.Root, sources, ".next")
	if err := os.WriteFile(next, fmt.Appendf(text, "PrologEpilogTimeout=%d\n", 100+e.number), 0o644); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(e.Root, sources, "slurm.conf"))
}

// edits returns how long each took until it was live on all nodes.
func (e *editor) edits(n int, pause time.Duration) (took []time.Duration, err error) {
	for range n {
		began := time.Now()
		if err := e.write(); err != nil {
			return nil, err
		}
		select {
		case line := <-e.live:
			if !strings.Contains(line, fmt.Sprintf(`"nodes":%d`, len(e.Nodes))) {
				return nil, fmt.Errorf("an edit is live without some nodes: %s", line)
			}
		case <-time.After(2 * time.Minute):
			return nil, fmt.Errorf("edit %d is not live", e.number)
		}
		took = append(took, time.Since(began).Round(time.Millisecond))
		<-time.After(pause - time.Since(began))
	}
	return took, nil
}

// memory is what the agent's process has of its own.
func (e *editor) memory() string {
	p, err := procfs.NewProc(e.Slurmctld.Process.Pid)
	if err != nil {
		return err.Error()
	}
	status, err := p.NewStatus()
	if err != nil {
		return err.Error()
	}
	return strconv.FormatUint(status.RssAnon>>10, 10)
}

func (e *editor) explained(err error) error {
	return fmt.Errorf("%w; the agent's last lines:\n%s", err, strings.Join(e.log[max(0, len(e.log)-20):], "\n"))
}
