package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/slurmlet/slurmlet/e2e/ships/krew"
)

// plugin is kubectl's, which runs on an administrator's machine and is in no image.
const plugin, pluginSource = "kubectl-slurm", "./kubectl-slurm"

// homepage is the project's.
const homepage = "https://github.com/slurmlet/slurmlet"

// systems are those that administrators have, as Go calls them.
var systems = []string{"linux", "darwin"}

// plugins are the files of the plugin, for each system and architecture.
func (r *release) plugins() (files []string) {
	for _, system := range systems {
		for _, arch := range architectures {
			files = append(files, r.plugin(system, arch))
		}
	}
	return files
}

func (r *release) plugin(system, arch string) string {
	return filepath.Join(r.out, fmt.Sprintf("%s-%s-%s-%s", plugin, r.version, system, arch))
}

// compilePlugins compiles the plugin for each system and architecture.
func (r *release) compilePlugins(ctx context.Context) error {
	for _, system := range systems {
		for _, arch := range architectures {
			say("compiles %s for %s on %s", plugin, system, arch)
			compile := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
				"-ldflags", "-s -w -X main.version="+r.version, "-o", r.plugin(system, arch), pluginSource)
			compile.Env = r.environ("CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
			if _, err := output(compile); err != nil {
				return err
			}
		}
	}
	return nil
}

// krews writes what krew installs the plugin from: an archive for each platform, and the manifest, which has their sums.
func (r *release) krews(context.Context) error {
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return fmt.Errorf("cannot read the license for krew: %w", err)
	}
	var platforms []krew.Platform
	for _, system := range systems {
		for _, arch := range architectures {
			program, err := os.ReadFile(r.plugin(system, arch))
			if err != nil {
				return fmt.Errorf("cannot read the plugin for krew: %w", err)
			}
			packed, err := krew.Archive(program, license, r.when)
			if err != nil {
				return err
			}
			name := filepath.Base(r.plugin(system, arch)) + ".tar.gz"
			if err := os.WriteFile(filepath.Join(r.out, name), packed, 0o644); err != nil {
				return fmt.Errorf("cannot write krew's archive: %w", err)
			}
			platforms = append(platforms, krew.Platform{OS: system, Arch: arch, URI: r.download + "/" + name, SHA256: krew.Sum(packed)})
		}
	}
	text, err := krew.Manifest(r.version, homepage, platforms)
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.krewManifest(), text, 0o644); err != nil {
		return fmt.Errorf("cannot write krew's manifest: %w", err)
	}
	return nil
}

func (r *release) krewManifest() string { return filepath.Join(r.out, krew.Name+".yaml") }
