// Images builds the images of docker-bake.hcl without a registry and without
// Docker: with a buildkitd of its own, on Debian images made from the machine's
// own mirror. It leaves an OCI archive of each in a directory, prints their
// sizes, and fails when something is in one that must not be.
//
//	make images
//
// With -arch it builds for another architecture: qemu-user runs the programs of
// that architecture, and the kernel is told so as long as the build lasts
// (binfmt_misc). With SOURCE_DATE_EPOCH in the environment, that is the time of
// every file in the layers that is younger.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// settings are where things are: programs, the compiled programs, the results.
type settings struct {
	buildkitd, buildx string
	programs, out     string
	arch              string // as Go calls it
	cache             string
	config            string // buildx's, not the user's
	targets           []string
	pyxis             bool   // also pyxisTarget
	packages          string // the directory with packages for it, "" where they are the caller's
}

func main() {
	s := settings{}
	flag.StringVar(&s.buildkitd, "buildkitd", "buildkitd", "the program")
	flag.StringVar(&s.buildx, "buildx", "buildx", "the program")
	flag.StringVar(&s.programs, "programs", "bin/images", "the directory with all programs and Slurm's plugin in linux_<arch>")
	flag.StringVar(&s.out, "out", "bin/images", "where the archives go")
	flag.StringVar(&s.arch, "arch", runtime.GOARCH, "the `architecture` to build for, amd64 or arm64")
	flag.StringVar(&s.cache, "cache", filepath.Join(os.TempDir(), "slurmlet-buildkit"), "what builds leave for the next ones")
	flag.BoolVar(&s.pyxis, "pyxis", false, "also build and examine "+pyxisTarget+" with a package whose files are setuid, and leave no archive of it")
	flag.Parse()
	if s.targets = flag.Args(); len(s.targets) == 0 {
		s.targets = []string{"default"}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := s.run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "images: "+format+"\n", args...) }

func (s settings) run(ctx context.Context, w io.Writer) (err error) {
	started := time.Now()
	if s.config, err = os.MkdirTemp("", "slurmlet-buildx-"); err != nil {
		return fmt.Errorf("cannot make a directory for buildx: %w", err)
	}
	defer os.RemoveAll(s.config)
	if s.pyxis {
		if s.packages, err = pyxisPackages(ctx, filepath.Join(s.config, "pyxis")); err != nil {
			return err
		}
		s.targets = append(s.targets, pyxisTarget)
		defer os.Remove(s.archive(pyxisTarget))
	}
	targets, wanted, err := s.resolve(ctx)
	if err != nil {
		return err
	}
	if err := parts.Install(ctx, say, "images"); err != nil {
		return err
	}
	names := slices.DeleteFunc(parts.Bases(), func(name string) bool {
		return !slices.ContainsFunc(wanted, func(image string) bool { return strings.HasSuffix(image, "/"+name) })
	})
	bases := map[string]string{}
	if len(names) > 0 {
		var native func() error
		if native, err = emulate(ctx, s.arch); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, native()) }()
	}
	for _, name := range names {
		if bases[name], err = parts.Base(ctx, name, s.arch, say); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(s.cache, 0o755); err != nil {
		return fmt.Errorf("cannot make the cache of builds: %w", err)
	}
	unlock, err := parts.Lock(ctx, s.cache+".lock", func() { say("waits for another build, which has the cache") })
	if err != nil {
		return err
	}
	defer unlock()
	d, err := startBuildkit(ctx, s.buildkitd, s.cache)
	if err != nil {
		return err
	}
	defer func() {
		if ended := d.stop(); err == nil {
			err = ended
		}
	}()
	if err := s.bake(ctx, d.address(), targets, bases); err != nil {
		return err
	}
	fmt.Fprintf(w, "built %d images for %s in %s\n\n", len(targets), s.arch, time.Since(started).Round(time.Second))
	return s.report(w, targets)
}

// archive is where a target's image goes.
func (s settings) archive(target string) string { return filepath.Join(s.out, target+".tar") }
