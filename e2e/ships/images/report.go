package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/opencontainers/go-digest"
)

// report prints the images and their sizes. The error holds all that is wrong
// with any of them.
func (s settings) report(w io.Writer, targets []string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "image\tpulled\talone\tunpacked\tlayers\tfiles\tuser\t")
	all := map[string]*image{}
	in, known := map[digest.Digest]int{}, layers{}
	for _, target := range targets {
		img, err := known.openImage(s.archive(target))
		if err != nil {
			return err
		}
		all[target] = img
		for _, layer := range img.manifest.Layers {
			in[layer.Digest]++
		}
	}
	var faults []error
	for _, target := range targets {
		img := all[target]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t\n", target, megabytes(img.compressed), megabytes(img.alone(in)), megabytes(img.whole),
			len(img.manifest.Layers), len(img.files), img.user())
		for _, fault := range img.faults() {
			faults = append(faults, fmt.Errorf("%s: %s", target, fault))
		}
	}
	return errors.Join(append(faults, table.Flush())...)
}

// alone is how much of it is pulled where all other images are there already;
// in says in how many images each layer is.
func (img *image) alone(in map[digest.Digest]int) (bytes int64) {
	for _, layer := range img.manifest.Layers {
		if in[layer.Digest] == 1 {
			bytes += layer.Size
		}
	}
	return bytes
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func (img *image) user() string {
	if img.config.Config.User == "" {
		return "root"
	}
	return img.config.Config.User
}

// privileged are the setuid and setgid files that an image may have: none.
var privileged = []string{}

// forbidden are patterns of paths that no layer may hold: package caches and
// lists, what packages make for one machine, documentation, tools to build with.
var forbidden = []string{
	"var/lib/apt/lists/*_*", "var/cache/apt/*.bin", "var/cache/apt/archives/*.deb", "var/log/*.log", "tmp/*",
	"etc/munge/munge.key", "etc/ssh/ssh_host_*", "etc/slurm/slurm.key", "etc/machine-id", "root/.*history",
	"usr/share/doc/*", "usr/share/man/*", "usr/lib/debug/*",
	"usr/bin/gcc*", "usr/bin/cc", "usr/bin/make", "usr/bin/go", "usr/local/bin/*.sh",
}

// mostPulled is what no image may exceed, in bytes: those of 24.11 have 64 to 74 MB, those of 26.05 91 to 101. sssd and what
// it needs are 45 MB of the latter, in the layer that all roles share.
const mostPulled = 105e6

// rootOnly are the roles whose daemons start processes as other users.
var rootOnly = []string{"slurmd", "login"}

func (img *image) faults() []string {
	var faults []string
	if img.compressed > mostPulled {
		faults = append(faults, fmt.Sprintf("%s are pulled, more than %s", megabytes(img.compressed), megabytes(mostPulled)))
	}
	for _, name := range slices.Sorted(maps.Keys(img.files)) {
		h := img.files[name]
		if h.Typeflag == tar.TypeReg && h.Mode&0o6000 != 0 && !slices.Contains(privileged, "/"+name) {
			faults = append(faults, fmt.Sprintf("/%s has mode %o", name, h.Mode))
		}
		if img.lax[h] {
			faults = append(faults, fmt.Sprintf("/%s has apt take lists that are too old", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(img.all)) {
		for _, pattern := range forbidden {
			if ok, _ := path.Match(pattern, name); ok && !strings.HasPrefix(path.Base(name), ".wh.") {
				faults = append(faults, fmt.Sprintf("a layer has /%s", name))
			}
		}
	}
	for _, name := range img.keys {
		faults = append(faults, fmt.Sprintf("a layer has a private key, /%s", name))
	}
	return append(faults, img.wrongStart()...)
}

// wrongStart looks at how a container starts, and as whom.
func (img *image) wrongStart() []string {
	c := img.config.Config
	alone := len(img.files) == 1
	switch {
	case slices.Equal(c.Entrypoint, []string{"/slurmlet"}):
		if has := slices.Sorted(maps.Keys(img.files)); !slices.Equal(has, ofAgent) {
			return []string{fmt.Sprintf("it has %q, not %q", has, ofAgent)}
		}
		return nil
	case alone && (slices.Equal(c.Entrypoint, []string{"/slurmlet-controller"}) || slices.Equal(c.Entrypoint, []string{"/slurmlet-web"})):
		if img.user() == "root" {
			return []string{c.Entrypoint[0] + " runs as root"}
		}
		return nil
	}
	if len(c.Entrypoint) != 2 || c.Entrypoint[0] != "slurmlet" {
		return []string{fmt.Sprintf("its ENTRYPOINT is %q, not slurmlet and a role", c.Entrypoint)}
	}
	var faults []string
	if asRoot := img.user() == "root"; asRoot != slices.Contains(rootOnly, c.Entrypoint[1]) {
		faults = append(faults, fmt.Sprintf("%s runs as %s", c.Entrypoint[1], img.user()))
	}
	if h := img.files["usr/local/bin/slurmlet"]; h == nil || h.Mode&0o111 == 0 {
		faults = append(faults, "it has no program /usr/local/bin/slurmlet")
	}
	faults = append(faults, img.uncontained(c.Entrypoint[1])...)
	if c.Labels["org.opencontainers.image.title"] == "" {
		faults = append(faults, "it has no label org.opencontainers.image.title")
	}
	return faults
}

// ofAgent is what the image of the agent brings into pods of other images.
var ofAgent = []string{"slurmlet", "slurmlet-container", "slurmlet-import", "spank_slurmlet.so"}

// containers are patterns of what jobs in containers need, by role: the program and the plugin where jobs are submitted
// and where they run, with what imports an image, and what mounts a squashfs file where they run.
var containers = map[string][]string{
	"slurmd": {"usr/local/bin/slurmlet-container", "usr/local/bin/slurmlet-import", "opt/slurmlet/spank_slurmlet.so", "usr/bin/sqfstar", "usr/bin/squashfuse_ll"},
	"login":  {"usr/local/bin/slurmlet-container", "usr/local/bin/slurmlet-import", "opt/slurmlet/spank_slurmlet.so", "usr/bin/sqfstar"},
}

// uncontained looks for what jobs in containers need. Packages of a site's own have another plugin.
func (img *image) uncontained(role string) []string {
	if strings.HasSuffix(img.config.Config.Labels["org.opencontainers.image.title"], "with pyxis") {
		return nil
	}
	var faults []string
	for _, pattern := range containers[role] {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(img.files)), func(name string) bool { ok, _ := path.Match(pattern, name); return ok }) {
			faults = append(faults, "it has no /"+pattern)
		}
	}
	return faults
}
