package kubecluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/fabric"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// Options say what bed to make. The zero value is a good one.
type Options struct {
	// Name tells beds apart. Default: "default".
	Name string
	// Nodes is how many there are, 1 to fabric.MaxNodes. Default: 2.
	Nodes int
	// Images are archives on this host, OCI's or docker's, that every node has from its start.
	Images []string
	// CPUs and Memory (MiB) are a node's. Defaults: 2 and 6144. Memory is taken
	// from this machine as it is used; volumes are in it.
	CPUs, Memory int
	// Binary is slurmlet-sandbox. Default: as sandbox.Options has it.
	Binary string
	// With is a process with whose end the bed ends too. Default: the bed outlives every process.
	With int
	// Progress is told what is being done and waited for.
	Progress func(format string, args ...any)
}

const (
	defaultNodes  = 2
	defaultCPUs   = 2
	maxCPUs       = 8 // NR_CPUS of the guests' kernel
	defaultMemory = 6144
	leastMemory   = 512
)

func silent(string, ...any) {}

// complete fills in the defaults and reports everything that is wrong at once.
func (o Options) complete() (Options, error) {
	for value, other := range map[*int]int{&o.Nodes: defaultNodes, &o.CPUs: defaultCPUs, &o.Memory: defaultMemory} {
		if *value == 0 {
			*value = other
		}
	}
	if o.Name == "" {
		o.Name = "default"
	}
	if o.Binary == "" {
		o.Binary = sandbox.FindBinary()
	}
	if o.Progress == nil {
		o.Progress = silent
	}
	return o, errors.Join(o.check(), o.findBinary())
}

func (o Options) check() error {
	errs := []error{beds.Check(o.Name)}
	if o.Nodes < 1 || o.Nodes > fabric.MaxNodes {
		errs = append(errs, fmt.Errorf("nodes %d: want 1 to %d", o.Nodes, fabric.MaxNodes))
	}
	if o.CPUs < 1 || o.CPUs > maxCPUs {
		errs = append(errs, fmt.Errorf("cpus %d: want 1 to %d", o.CPUs, maxCPUs))
	}
	if o.Memory < leastMemory {
		errs = append(errs, fmt.Errorf("memory %d MiB: want %d or more", o.Memory, leastMemory))
	}
	return errors.Join(errs...)
}

func (o *Options) findBinary() error {
	path, err := filepath.Abs(o.Binary)
	if err == nil {
		o.Binary = path
		_, err = os.Stat(path)
	}
	if err != nil {
		return fmt.Errorf("cannot find slurmlet-sandbox: %v", err)
	}
	return nil
}
