package slurm

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Find looks for scontrol in PATH. program is one that tells its release, such as slurmctld, and release is
// what it says: "26.05.5".
func Find(ctx context.Context) (path, program, release string, err error) {
	if path, err = exec.LookPath("scontrol"); err != nil {
		return "", "", "", fmt.Errorf("cannot find scontrol: %v", err)
	}
	program = path
	for _, daemon := range []string{"slurmctld", "slurmd", "slurmrestd"} {
		if found, err := exec.LookPath(daemon); err == nil {
			program = found
			break
		}
	}
	release, err = Release(ctx, program, nil)
	return path, program, release, err
}

// Version asks a program of Slurm's for its release line, as Release does: "26.05".
func Version(ctx context.Context, program string, env []string) (string, error) {
	release, err := Release(ctx, program, env)
	if err != nil {
		return "", err
	}
	parts := strings.SplitN(release, ".", 3)
	return parts[0] + "." + parts[1], nil
}

// Release asks a program of Slurm's for its release: "26.05.5". slurmctld, slurmd and slurmrestd say it at once.
// slurmdbd and commands read their configuration first, which env names (nil: the caller's environment), and
// commands wait a minute for it. sackd does not say it.
func Release(ctx context.Context, program string, env []string) (string, error) {
	out, err := Scontrol{Path: program, Env: env}.run(ctx, "-V")
	if err != nil {
		return "", err
	}
	name, number, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if !strings.HasPrefix(name, "slurm") || !strings.Contains(number, ".") { // Debian's says slurm-wlm
		return "", fmt.Errorf("cannot read the version of %s: it is %q", program, out)
	}
	return number, nil
}
