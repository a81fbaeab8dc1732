package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// resolve returns the names of all targets that the wanted ones stand for, and
// those of the Debian images that they are built on.
func (s settings) resolve(ctx context.Context) (targets, bases []string, err error) {
	cmd := s.command(ctx, append([]string{"bake", "--print", "--progress=quiet"}, s.targets...)...)
	cmd.Stdout = nil
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read docker-bake.hcl: %w", err)
	}
	var plan struct {
		Target map[string]struct {
			Args map[string]string `json:"args"`
		} `json:"target"`
	}
	if err := json.Unmarshal(out, &plan); err != nil {
		return nil, nil, fmt.Errorf("cannot read what buildx bake --print says: %w", err)
	}
	for _, target := range plan.Target {
		bases = append(bases, target.Args["DEBIAN"])
	}
	return slices.Sorted(maps.Keys(plan.Target)), bases, nil
}

// bake builds targets with the buildkitd at address, for one architecture.
func (s settings) bake(ctx context.Context, address string, targets []string, bases map[string]string) error {
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return fmt.Errorf("cannot make the directory for images: %w", err)
	}
	create := s.command(ctx, "create", "--name", "slurmlet", "--driver", "remote", "--use", address)
	create.Stdout = nil
	if err := create.Run(); err != nil {
		return fmt.Errorf("cannot tell buildx of buildkitd: %w", err)
	}
	args := []string{
		"bake", "--progress=plain", "--set=*.platform=linux/" + s.arch, "--set=*.contexts.compile=" + s.programs, "--set=*.contexts.compile-controller=" + s.programs,
		// The machine's mirror may have Debian's testing from some weeks ago.
		"--set=*.args.APT_CHECK_VALID_UNTIL=false",
	}
	for name, dir := range bases {
		_, tag, _ := strings.Cut(name, ":")
		args = append(args, fmt.Sprintf("--set=*.contexts.%s=oci-layout://%s:%s", name, dir, tag))
	}
	output := "type=oci,compression=gzip,force-compression=true"
	if os.Getenv("SOURCE_DATE_EPOCH") != "" {
		output += ",rewrite-timestamp=true"
	}
	for _, target := range targets {
		args = append(args, fmt.Sprintf("--set=%s.output=%s,dest=%s", target, output, s.archive(target)))
	}
	return s.watched(s.command(ctx, append(args, targets...)...))
}

// watched runs a build, of which the terminal sees the steps and a file everything.
func (s settings) watched(build *exec.Cmd) error {
	log, err := os.Create(filepath.Join(s.out, "bake.log"))
	if err != nil {
		return fmt.Errorf("cannot make the build's log: %w", err)
	}
	defer log.Close()
	build.Stderr = newProgress(log, say)
	if err := build.Run(); err != nil {
		return fmt.Errorf("cannot build: %w; the end of %s:\n%s", err, log.Name(), lastLines(log.Name(), 60))
	}
	return nil
}

// command is buildx, which knows of no builders but ours.
func (s settings) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.buildx, args...)
	cmd.Env = append(os.Environ(), "BUILDX_CONFIG="+s.config, "BUILDX_BAKE_ENTITLEMENTS_FS=0")
	if s.packages != "" {
		cmd.Env = append(cmd.Env, "PYXIS="+s.packages)
	}
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd
}
