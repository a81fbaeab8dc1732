// Bench compares slurmlet with tini and supervisord, and with a bare slurmd:
//
//	go run ./e2e/figures/bench [-slurmlet bin/slurmlet] [-inits] [-edits] [-short]
//
// It prints medians of interleaved repetitions, for the machine's speed drifts,
// and whether they are within slurmlet's budgets. A budget that is exceeded is
// no failure: timings are no tests.
//
// Everything happens in namespaces of its own (e2e/testbed/native). That takes root.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

func main() {
	s := settings{Roots: map[string]string{}}
	flag.StringVar(&s.Slurmlet, "slurmlet", "bin/slurmlet", "the `binary` to measure")
	flag.BoolVar(&s.Inits, "inits", false, "measure the inits alone, which takes no Slurm")
	flag.BoolVar(&s.Edits, "edits", false, "measure edits of slurm.conf alone")
	flag.BoolVar(&s.Short, "short", false, "one round of each, with one version of Slurm, to see that it works")
	flag.Parse()
	native.Main(func(ctx context.Context) error { return outside(ctx, s) }, inside)
}

// outside makes what needs the machine's network and files, and starts the
// inner bench.
func outside(ctx context.Context, s settings) error {
	if err := parts.Install(ctx, native.Progress, "bench"); err != nil {
		return err
	}
	for _, version := range parts.Versions() {
		if s.Inits {
			break
		}
		root, err := parts.Root(ctx, version, native.Progress)
		if err != nil {
			return err
		}
		s.Roots[version] = root
	}
	dir, err := os.MkdirTemp("", "slurmlet-bench-")
	if err != nil {
		return fmt.Errorf("cannot make a scratch directory: %w", err)
	}
	defer os.RemoveAll(dir)
	if s.Slurmlet, err = native.FindSlurmlet(s.Slurmlet); err != nil {
		return err
	}
	s.Daemon = filepath.Join(dir, "daemon")
	if err := build(ctx, s.Daemon); err != nil {
		return err
	}
	return native.Enter(ctx, s)
}

func build(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/slurmlet/slurmlet/e2e/figures/bench/daemon")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the stand-in daemon: %w\n%s", err, out)
	}
	return nil
}
