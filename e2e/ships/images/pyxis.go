package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// pyxisTarget has packages of the site's, which may bring anything.
const pyxisTarget = "slurmd-pyxis-24-11"

const pyxisControl = `Package: slurmlet-pyxis-try
Version: 1
Architecture: all
Maintainer: nobody <nobody@example.com>
Description: what packages of enroot's kind bring
`

// pyxisPackages makes a directory with one package, the same each time. Its programs are setuid and setgid.
func pyxisPackages(ctx context.Context, dir string) (string, error) {
	root, packages := filepath.Join(dir, "root"), filepath.Join(dir, "packages")
	for name, f := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"DEBIAN/control":     {pyxisControl, 0o644},
		"usr/bin/try-setuid": {"#!/bin/sh\n", 0o755 | os.ModeSetuid},
		"usr/bin/try-setgid": {"#!/bin/sh\n", 0o755 | os.ModeSetgid},
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", fmt.Errorf("cannot make a directory of a package: %w", err)
		}
		if err := os.WriteFile(path, []byte(f.text), 0o644); err != nil {
			return "", fmt.Errorf("cannot write a file of a package: %w", err)
		}
		if err := os.Chmod(path, f.mode); err != nil {
			return "", fmt.Errorf("cannot set the mode of a package's file: %w", err)
		}
	}
	if err := os.MkdirAll(packages, 0o755); err != nil {
		return "", fmt.Errorf("cannot make the directory for packages: %w", err)
	}
	build := exec.CommandContext(ctx, "dpkg-deb", "--root-owner-group", "--build", root, filepath.Join(packages, "try.deb"))
	build.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build a package: %w\n%s", err, out)
	}
	return packages, nil
}
