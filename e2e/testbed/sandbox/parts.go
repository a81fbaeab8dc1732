package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// partsDir names a directory with the files `kernel` and `root-<version>`, made
// before, to be used instead of those that package parts makes and keeps.
const partsDir = "SLURMLET_SANDBOX_PARTS"

// Install makes ready whatever a sandbox on this machine is made of, for every
// version of Slurm: programs, the kernel where one is needed, root file systems.
// Without limits, no kernel is needed.
func Install(ctx context.Context, limits bool, progress func(string, ...any)) error {
	o := Options{Progress: progress, NoLimits: !limits}
	if err := o.machine(ctx); err != nil {
		return err
	}
	for _, version := range parts.Versions() {
		if _, err := o.root(ctx, version); err != nil {
			return err
		}
	}
	return nil
}

// machine gives this machine what it needs to run pods.
func (o Options) machine(ctx context.Context) error {
	if pureV2() || o.NoLimits {
		return errors.Join(parts.AllowWatches(o.Progress), parts.Install(ctx, o.Progress, "native"))
	}
	_, err := o.kernel(ctx)
	return err
}

func (o Options) kernel(ctx context.Context) (string, error) {
	if dir := os.Getenv(partsDir); dir != "" {
		return made(dir, "kernel")
	}
	return parts.Kernel(ctx, o.Progress)
}

func (o Options) root(ctx context.Context, slurm string) (string, error) {
	if dir := os.Getenv(partsDir); dir != "" {
		return made(dir, "root-"+slurm)
	}
	return parts.Root(ctx, slurm, o.Progress)
}

func made(dir, name string) (string, error) {
	path, err := filepath.EvalSymlinks(filepath.Join(dir, name))
	if err != nil {
		return "", fmt.Errorf("cannot use %s: %v", partsDir, err)
	}
	return path, nil
}
