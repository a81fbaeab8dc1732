package parts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// Bases lists the names of the images that Base makes.
func Bases() []string {
	var names []string
	for _, version := range Versions() {
		names = append(names, baseName(releases[version]))
	}
	return names
}

func baseName(r release) string { return "debian:" + r.suite + "-slim" }

// Base returns the directory of an OCI image layout with the Debian image of
// that name, as small as the registry's, from the machine's own mirror. Its
// reference in the layout is its name's tag. It takes root's rights to build,
// and a kernel that runs programs of arch (as Go and Debian call it).
func Base(ctx context.Context, name, arch string, p Progress) (string, error) {
	for _, version := range Versions() {
		if r := releases[version]; baseName(r) == name {
			inputs := []string{arch, r.suite, slim}
			if r.moving {
				inputs = append(inputs, strict)
			}
			e := entry{name: "base-" + r.suite, key: keyOf(inputs...)}
			return e.obtain(ctx, p, func(dir string) error { return buildBase(ctx, dir, arch, r, p) })
		}
	}
	return "", fmt.Errorf("cannot make the image %q: there are %s", name, strings.Join(Bases(), ", "))
}

// rootsMirror is where root file systems come from. It gives the machine what their building takes.
func rootsMirror(ctx context.Context, p Progress) (m mirror, err error) {
	if os.Geteuid() != 0 {
		return m, fmt.Errorf("cannot make the files of other users: not root")
	}
	if err := Install(ctx, p, "root"); err != nil {
		return m, err
	}
	return machineMirror()
}

func buildBase(ctx context.Context, dir, arch string, r release, p Progress) error {
	started := time.Now()
	m, err := rootsMirror(ctx, p)
	if err != nil {
		return err
	}
	p("base %s: installs Debian's smallest set for %s", r.suite, arch)
	layer := filepath.Join(dir, "layer.tar")
	if err := (command{}).run(ctx, "mmdebstrap", baseArgs(r, arch, layer, m)...); err != nil {
		return fmt.Errorf("cannot install: %w", err)
	}
	_, tag, _ := strings.Cut(baseName(r), ":")
	image := v1.Image{Platform: v1.Platform{OS: "linux", Architecture: arch}, Config: v1.ImageConfig{
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, Cmd: []string{"bash"},
	}}
	if err := writeLayout(dir, tag, layer, image); err != nil {
		return err
	}
	p("base %s: done (%s)", r.suite, since(started))
	return nil
}

// strict has the image itself, unlike the mmdebstrap that makes it, take no lists that are too old. It is a hook as slim is.
const strict = `rm "$1/etc/apt/apt.conf.d/99mmdebstrap"`

func baseArgs(r release, arch, layer string, m mirror) []string {
	args := []string{"--mode=root", "--architectures=" + arch, "--variant=minbase", "--format=tar", "--extract-hook=" + slim}
	if r.moving {
		args = append(args, `--aptopt=Acquire::Check-Valid-Until "false"`, "--customize-hook="+strict)
	}
	return append(append(args, r.suite, layer), m.lines(r.suite)...)
}
