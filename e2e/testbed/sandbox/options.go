package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// Options say what sandbox to make. The zero value is a good one.
type Options struct {
	// Name tells sandboxes apart. Default: "default".
	Name string
	// Slurm is the version in the pods' images, one of parts.Versions. Default: the first.
	Slurm string
	// Binary is slurmlet-sandbox itself. Default: this program, if it is that,
	// or the one in bin/ of the repository that the working directory is in.
	Binary string
	// Agent is slurmlet. Default: the one beside Binary.
	Agent string
	// CPUs and Memory (MiB) are the guest's. Defaults: SLURMLET_SANDBOX_CPUS or 3, one more than a node has; 4096.
	CPUs, Memory int
	// NoLimits: pods have no limits, which lets them run natively, many times as fast as in a guest, where the host
	// has no pure cgroup v2. Slurm does without cgroups then.
	NoLimits bool
	// With is a process with whose end the sandbox ends too. Default: the sandbox outlives
	// every process.
	With int
	// Progress is told what is being done and waited for.
	Progress func(format string, args ...any)
}

const (
	cpusVariable  = "SLURMLET_SANDBOX_CPUS"
	defaultCPUs   = 3
	maxCPUs       = 8 // NR_CPUS of the guest's kernel
	defaultMemory = 4096
	program       = "slurmlet-sandbox"
)

func silent(string, ...any) {}

// complete fills in the defaults and reports everything that is wrong at once.
func (o Options) complete() (Options, error) {
	if o.Name == "" {
		o.Name = "default"
	}
	if o.Slurm == "" {
		o.Slurm = parts.Newest()
	}
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	if o.Progress == nil {
		o.Progress = silent
	}
	errs := []error{sandboxes.Check(o.Name)}
	if !slices.Contains(parts.Versions(), o.Slurm) {
		errs = append(errs, fmt.Errorf("no Slurm %q; there are: %s", o.Slurm, strings.Join(parts.Versions(), " ")))
	}
	return o, errors.Join(append(errs, o.completeCPUs(), o.completeBinaries())...)
}

func (o *Options) completeCPUs() error {
	if o.CPUs == 0 {
		o.CPUs = defaultCPUs
		if text := os.Getenv(cpusVariable); text != "" {
			o.CPUs, _ = strconv.Atoi(text) // 0 is wrong too
		}
	}
	if o.CPUs < 1 || o.CPUs > maxCPUs {
		return fmt.Errorf("cpus %d (%s): want 1 to %d", o.CPUs, cpusVariable, maxCPUs)
	}
	return nil
}

func (o *Options) completeBinaries() error {
	if o.Binary == "" {
		o.Binary = FindBinary()
	}
	if o.Agent == "" {
		o.Agent = filepath.Join(filepath.Dir(o.Binary), "slurmlet")
	}
	for _, path := range []*string{&o.Binary, &o.Agent} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	if _, err := os.Stat(o.Binary); err != nil {
		return fmt.Errorf("cannot find %s: %v", program, err)
	}
	return nil
}

// FindBinary is where slurmlet-sandbox is: this program, if it is that, or the
// one in bin/ of the repository that the working directory is in.
func FindBinary() string {
	if self, err := os.Executable(); err == nil && filepath.Base(self) == program {
		return self
	}
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, missing := os.Stat(filepath.Join(dir, "go.work")); missing == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return filepath.Join(dir, "bin", program)
}
