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
	program := path
	for _, daemon := range []string{"slurmctld", "slurmd", "slurmrestd"} {
		if found, err := exec.LookPath(daemon); err == nil {
			program = found
			break
		}
	}
	version, err = Version(ctx, program)
	return path, version, err
}

// Version asks a program of Slurm's for its version: "26.05". A daemon says it at
// once. Commands read slurm.conf first, and wait for it for a minute.
func Version(ctx context.Context, program string) (string, error) {
	out, err := Scontrol{Path: program}.run(ctx, "-V")
	if err != nil {
		return "", err
	}
	name, number, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	parts := strings.SplitN(number, ".", 3)
	if !strings.HasPrefix(name, "slurm") || len(parts) < 2 { // Debian's says slurm-wlm
		return "", fmt.Errorf("cannot read the version of %s: it is %q", program, out)
	}
	return parts[0] + "." + parts[1], nil
}
