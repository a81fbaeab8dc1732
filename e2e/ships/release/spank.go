package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// spankPlugin is Slurm's plugin of jobs in containers, which is C.
const spankPlugin = "spank_slurmlet.so"

// compilers are Debian's names of gcc for an architecture, on any other.
var compilers = map[string]string{"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}

// spank is where the plugin for arch is.
func (r *release) spank(arch string) string {
	return filepath.Join(r.out, fmt.Sprintf("spank_slurmlet-%s-linux-%s.so", r.version, arch))
}

// compileSPANK compiles the plugin: for download, and for the images.
func (r *release) compileSPANK(ctx context.Context) error {
	if err := parts.Install(ctx, say, "release"); err != nil {
		return err
	}
	for _, arch := range architectures {
		say("compiles %s for %s", spankPlugin, arch)
		if _, err := output(exec.CommandContext(ctx, "internal/jobcontainer/spank/compile", compilers[arch], r.spank(arch))); err != nil {
			return err
		}
		if err := r.forImages(r.spank(arch), arch, spankPlugin); err != nil {
			return err
		}
	}
	return nil
}

// spankComponent is the plugin in a bill. It links the C library alone.
func (r *release) spankComponent() component {
	return component{name: spankPlugin, version: r.version, purpose: "LIBRARY", purl: "pkg:generic/slurmlet/" + spankPlugin + "@" + r.version}
}
