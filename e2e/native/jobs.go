package native

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Gate holds jobs: they run until it is opened, and cost nothing meanwhile.
type Gate struct{ file *os.File }

const (
	gatePath  = "srv/gate"
	gateWaits = "#!/bin/sh\nexec flock --shared /" + gatePath + " true\n"
)

// NewGate makes the cluster's gate, closed.
func (c *Cluster) NewGate() (*Gate, error) {
	file, err := os.Create(filepath.Join(c.Root, gatePath))
	if err != nil {
		return nil, fmt.Errorf("cannot make the jobs' gate: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return nil, fmt.Errorf("cannot close the jobs' gate: %w", err)
	}
	return &Gate{file}, nil
}

// Open lets the jobs end.
func (g *Gate) Open() error { return g.file.Close() }

// Submit has a job run on a node until the gate is opened, and returns its number.
func (c *Cluster) Submit(node string) (string, error) {
	cmd := c.Command("/usr/bin/sbatch", "--parsable", "--nodelist="+node, "--mem=10", "--output=/dev/null")
	cmd.Stdin = strings.NewReader(gateWaits)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("cannot submit a job: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Ask runs a command of Slurm's with --json.
func (c *Cluster) Ask(answer any, path string, args ...string) error {
	out, err := c.Command(path, append(args, "--json")...).Output()
	if err == nil {
		err = json.Unmarshal(out, answer)
	}
	if err != nil {
		return fmt.Errorf("cannot ask %s: %w", path, err)
	}
	return nil
}
