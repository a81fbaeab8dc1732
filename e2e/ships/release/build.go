package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// architectures are those that everything is built for, as Go calls them.
var architectures = []string{"amd64", "arm64"}

// release is one that is being built.
type release struct {
	settings
	source
	work string // a directory for what is not part of it

	artifacts []*artifact
}

func (s settings) build(ctx context.Context) (err error) {
	started := time.Now()
	from, err := tagged(ctx, s.version)
	if err != nil {
		return err
	}
	if _, err := os.Stat(s.out); err == nil {
		return fmt.Errorf("cannot release into %s: it is there already", s.out)
	}
	work, err := os.MkdirTemp("", "slurmlet-release-")
	if err != nil {
		return fmt.Errorf("cannot make a directory to work in: %w", err)
	}
	defer os.RemoveAll(work)
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return fmt.Errorf("cannot make the release's directory: %w", err)
	}
	defer func() {
		if err != nil { // no half release looks like one
			err = errors.Join(err, os.RemoveAll(s.out))
		}
	}()
	r := &release{settings: s, source: from, work: work}
	for _, step := range []func(context.Context) error{r.programs, r.compileSPANK, r.compilePlugins, r.krews, r.charts, r.images, r.bills, r.provenance, r.sums} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	say("%s is in %s, unsigned (%s)", s.version, s.out, time.Since(started).Round(time.Second))
	return nil
}

// environ is for everything that builds: its time is the commit's.
func (r *release) environ(more ...string) []string {
	return append(append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.when.Unix(), 10)), more...)
}

// The programs, and where their source is.
const (
	agent      = "slurmlet"
	web        = "slurmlet-web"
	controller = "slurmlet-controller"
	containers = "slurmlet-container"
	importer   = "slurmlet-import"
)

var sources = map[string]string{
	agent: "./cmd/slurmlet", web: "./cmd/slurmlet-web", controller: "./controller/cmd/slurmlet-controller", containers: "./cmd/slurmlet-container",
	importer: "./cmd/slurmlet-import",
}

// tags are the Makefile's.
var tags = map[string]string{agent: "nethttpomithttp2", web: "nethttpomithttp2", containers: "nethttpomithttp2", importer: "nethttpomithttp2"}

// program is where a program for arch is.
func (r *release) program(name, arch string) string {
	return filepath.Join(r.out, fmt.Sprintf("%s-%s-linux-%s", name, r.version, arch))
}

// programs compiles all programs: for download, and for the images.
func (r *release) programs(ctx context.Context) error {
	for name := range sources {
		if err := r.compile(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) compile(ctx context.Context, name string) error {
	for _, arch := range architectures {
		say("compiles %s for %s", name, arch)
		compile := exec.CommandContext(ctx, "go", "build", "-tags", tags[name], "-trimpath", "-buildvcs=false",
			"-ldflags", "-s -w -X main.version="+r.version, "-o", r.program(name, arch), sources[name])
		compile.Env = r.environ("CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		if _, err := output(compile); err != nil {
			return err
		}
		if err := r.forImages(r.program(name, arch), arch, name); err != nil {
			return err
		}
	}
	return nil
}

// forImages copies a file of the release to where the images' build looks for it.
func (r *release) forImages(from, arch, name string) error {
	dir := filepath.Join(r.work, "programs", "linux_"+arch)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot make a directory for the images' programs: %w", err)
	}
	program, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("cannot read the program: %w", err)
	}
	copied := filepath.Join(dir, name)
	if err := os.WriteFile(copied, program, 0o755); err != nil {
		return fmt.Errorf("cannot copy the program for the images: %w", err)
	}
	if err := os.Chtimes(copied, r.when, r.when); err != nil {
		return fmt.Errorf("cannot set the program's time: %w", err)
	}
	return nil
}
