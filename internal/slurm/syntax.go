package slurm

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Find looks for scontrol in PATH. version is Slurm's, "26.05".
func Find(ctx context.Context) (path, version string, err error) {
	if path, err = exec.LookPath("scontrol"); err != nil {
		return "", "", fmt.Errorf("cannot find scontrol: %v", err)
	}
	version, err = Scontrol{Path: path}.Version(ctx)
	return path, version, err
}

// Version runs "scontrol --version".
func (s Scontrol) Version(ctx context.Context) (string, error) {
	out, err := s.run(ctx, "--version")
	if err != nil {
		return "", err
	}
	name, number, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	parts := strings.SplitN(number, ".", 3)
	if name != "slurm" || len(parts) < 2 {
		return "", fmt.Errorf("cannot read scontrol's version: it is %q", out)
	}
	return parts[0] + "." + parts[1], nil
}
