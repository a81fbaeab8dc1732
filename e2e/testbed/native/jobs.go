package native

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
)

// Gate holds jobs: they run until it is opened, and cost nothing meanwhile.
type Gate struct {
	cluster *Cluster
	path    string
	file    *os.File
}

const (
	gatePath  = "srv/gate"
	gateWaits = "#!/bin/sh\nexec flock --shared /%s true\n"
)

// NewGate makes the cluster's gate, closed.
func (c *Cluster) NewGate() (*Gate, error) { return c.gateAt(gatePath) }

// NewGateOf makes a gate of its own for some jobs, those that are submitted to it.
func (c *Cluster) NewGateOf(name string) (*Gate, error) { return c.gateAt(gatePath + "-" + name) }

func (c *Cluster) gateAt(path string) (*Gate, error) {
	file, err := os.Create(filepath.Join(c.Root, path))
	if err != nil {
		return nil, fmt.Errorf("cannot make the jobs' gate: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return nil, fmt.Errorf("cannot close the jobs' gate: %w", err)
	}
	return &Gate{c, path, file}, nil
}

// Open lets the jobs end.
func (g *Gate) Open() error { return g.file.Close() }

// Submit has a job run on a node until the cluster's gate is opened, and returns its number.
func (c *Cluster) Submit(node string) (string, error) { return c.submit(node, gatePath) }

// Submit has a job run on a node until this gate is opened, and returns its number.
func (g *Gate) Submit(node string) (string, error) { return g.cluster.submit(node, g.path) }

func (c *Cluster) submit(node, gate string) (string, error) {
	cmd := c.Command("/usr/bin/sbatch", "--parsable", "--nodelist="+node, "--mem=10", "--output=/dev/null")
	cmd.Stdin = strings.NewReader(fmt.Sprintf(gateWaits, gate))
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("cannot submit a job: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Ask runs a command of Slurm's with --json.
func (c *Cluster) Ask(answer any, path string, args ...string) error {
	return c.ask(answer, path, append(args, "--json")...)
}

// Call is one type of request: how many slurmctld has had, and how long they took.
type Call struct {
	Count int
	Took  time.Duration
}

// Calls are slurmctld's own counts of requests, by type, since it was started or they were reset
// (sdiag(1)).
func (c *Cluster) Calls() (map[string]Call, error) {
	var answer struct {
		Statistics struct {
			RPCs []struct {
				Type  string `json:"message_type"`
				Count int    `json:"count"`
				Total int64  `json:"total_time"` // in microseconds
			} `json:"rpcs_by_message_type"`
		} `json:"statistics"`
	}
	err := c.Ask(&answer, "/usr/bin/sdiag")
	calls := map[string]Call{}
	for _, rpc := range answer.Statistics.RPCs {
		was := calls[rpc.Type]
		calls[rpc.Type] = Call{was.Count + rpc.Count, was.Took + time.Duration(rpc.Total)*time.Microsecond}
	}
	return calls, err
}

// RPCs are the counts of Calls.
func (c *Cluster) RPCs() (map[string]int, error) {
	calls, err := c.Calls()
	counts := map[string]int{}
	for of, call := range calls {
		counts[of] = call.Count
	}
	return counts, err
}

// AgentStatus is the status of slurmctld's agent.
func (c *Cluster) AgentStatus() (*agent.Status, error) {
	s := &agent.Status{}
	return s, c.ask(s, "/usr/bin/slurmlet", "status", "-o", "json")
}

// UntilAgent waits for a status of slurmctld's agent; the last one is in the failure.
func (c *Cluster) UntilAgent(limit time.Duration, what string, is func(*agent.Status) bool) error {
	var last *agent.Status
	err := Within(limit, what+": not", func() bool {
		s, err := c.AgentStatus()
		if err != nil {
			return false
		}
		last = s
		return is(s)
	})
	if err != nil && last != nil {
		text, _ := json.Marshal(last.Conf) // what was read as JSON
		return fmt.Errorf("%w; it is %s, %s", err, last.State, text)
	}
	return err
}

// ask runs a command that answers with JSON.
func (c *Cluster) ask(answer any, path string, args ...string) error {
	out, err := c.Command(path, args...).Output()
	if err == nil {
		err = json.Unmarshal(out, answer)
	}
	if err != nil {
		return fmt.Errorf("cannot ask %s: %w", path, err)
	}
	return nil
}
