package parts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// squashPackages have squashfuse, mksquashfs and zstd, which enroot uses, and what they need besides a root file system
// with Slurm.
var squashPackages = []string{"squashfuse", "libsquashfuse0", "libfuse3-4", "squashfs-tools", "liblzo2-2", "zstd"}

// Squashfuse returns a directory with Debian's squashfuse and mksquashfs, laid out as in a root file system. They are
// of the oldest of the releases with Slurm, and run in the newer ones, too.
func Squashfuse(ctx context.Context, p Progress) (string, error) {
	suite := releases[slices.Min(Versions())].suite
	e := entry{name: "squashfuse", key: keyOf(append([]string{runtime.GOARCH, suite}, squashPackages...)...)}
	return e.obtain(ctx, p, func(dir string) error { return unpack(ctx, dir, suite, e.name, squashPackages, p) })
}

// AppArmor returns a directory with Debian's apparmor_parser, and what profiles include, laid out as in a root file system.
func AppArmor(ctx context.Context, p Progress) (string, error) {
	suite, packages := releases[slices.Min(Versions())].suite, []string{"apparmor"}
	e := entry{name: "apparmor", key: keyOf(append([]string{runtime.GOARCH, suite}, packages...)...)}
	return e.obtain(ctx, p, func(dir string) error { return unpack(ctx, dir, suite, e.name, packages, p) })
}

// unpack unpacks Debian's packages of a release.
func unpack(ctx context.Context, dir, suite, what string, packages []string, p Progress) error {
	started := time.Now()
	m, err := rootsMirror(ctx, p)
	if err != nil {
		return err
	}
	p("%s: downloads it from %s (1 to 2 MB)", what, suite)
	work := filepath.Join(dir, "work")
	a, err := newApt(ctx, work, m.lines(suite), nil)
	if err != nil {
		return err
	}
	for _, name := range packages {
		deb, err := a.download(ctx, work, name)
		if err != nil {
			return err
		}
		if err := (command{}).run(ctx, "dpkg-deb", "-x", deb, dir); err != nil {
			return fmt.Errorf("cannot unpack %s: %w", deb, err)
		}
	}
	p("%s: done (%s)", what, since(started))
	return os.RemoveAll(work)
}
