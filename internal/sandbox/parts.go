package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/slurmlet/slurmlet/internal/sandbox/parts"
)

// partsDir names a directory with the files `kernel` and `root-<version>`, made
// before, to be used instead of those that package parts makes and keeps.
const partsDir = "SLURMLET_SANDBOX_PARTS"

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
