package parts

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// machinePackages are the Debian packages that the machine needs for a purpose.
var machinePackages = map[string][]string{
	// the compiler and what Linux's own build calls
	"kernel": {"gcc", "libc6-dev", "make", "flex", "bison", "bc", "patch", "perl", "xz-utils"},
	"root":   {"mmdebstrap", "debian-archive-keyring"},
	// pods on this very machine, without a kernel of ours
	"native": {"runc", "iproute2", "procps", "mount"},
	// the steps of an image's build
	"images": {"runc"},
	// images for another architecture
	"emulation": {"qemu-user-static", "arch-test"},
	// Slurm's plugin for each architecture of a release
	"release": {"gcc", "libc6-dev", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"},
	// what runs slurmlet check before a commit
	"hooks": {"pre-commit"},
	// what slurmlet is measured beside
	"bench": {"tini", "supervisor"},
}

// Install installs the Debian packages that the machine lacks for the things
// asked for: "kernel", "root", "native", "images", "emulation", "release", "hooks", "bench"; all of
// them when none is named. It calls apt-get only when something is missing.
func Install(ctx context.Context, p Progress, what ...string) error {
	wanted, err := packagesFor(what)
	if err != nil {
		return err
	}
	unlock, err := packagesLock(ctx, p)
	if err != nil {
		return err
	}
	defer unlock()
	text, err := (command{}).output(ctx, "dpkg-query", "--show", "--showformat=${db:Status-Status} ${Package}\n")
	if err != nil {
		return fmt.Errorf("cannot list the installed packages: %w", err)
	}
	missing := lacking(wanted, text)
	if len(missing) == 0 {
		p("packages: all %d are installed", len(wanted))
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("cannot install packages: not root; install them yourself: apt-get install %s", strings.Join(missing, " "))
	}
	return install(ctx, missing, p)
}

// packagesLock keeps programs of ours from updating apt's lists at the same time, for which apt-get does not wait.
func packagesLock(ctx context.Context, p Progress) (unlock func(), err error) {
	cache, err := cacheDir()
	if err == nil {
		err = os.MkdirAll(cache, 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot lock the package lists: %w", err)
	}
	return Lock(ctx, filepath.Join(cache, "packages.lock"), func() { p("packages: waits for another process that installs some") })
}

// packagesFor merges the lists for what.
func packagesFor(what []string) ([]string, error) {
	known := slices.Sorted(maps.Keys(machinePackages))
	if len(what) == 0 {
		what = known
	}
	var all []string
	for _, w := range what {
		names, ok := machinePackages[w]
		if !ok {
			return nil, fmt.Errorf("cannot install for %q: there are %s", w, strings.Join(known, ", "))
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// lacking returns those of wanted that are not among "status package" lines as installed.
func lacking(wanted []string, installed string) []string {
	have := map[string]bool{}
	for line := range strings.Lines(installed) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "installed "); ok {
			have[name] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(wanted), func(name string) bool { return have[name] })
}

func install(ctx context.Context, names []string, p Progress) error {
	started := time.Now()
	p("packages: installs %s", strings.Join(names, " "))
	s := watch(p, "packages: did %d of at least %d steps", 2*len(names), "Unpacking ", "Setting up ")
	defer s.stop()
	c := command{line: s.line}
	// A fresh machine has no lists, and old ones name packages that are gone.
	if err := c.run(ctx, "apt-get", "update", "--quiet"); err != nil {
		return fmt.Errorf("cannot read the package lists: %w", err)
	}
	// Never wait for another apt-get without end.
	args := append([]string{
		"install", "--yes", "--quiet", "--no-install-recommends",
		"-o", "DPkg::Lock::Timeout=120",
	}, names...)
	if err := c.run(ctx, "apt-get", args...); err != nil {
		return fmt.Errorf("cannot install packages: %w", err)
	}
	p("packages: done (%s)", since(started))
	return nil
}
