package parts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// wantedSeries is the kernel that our patches are made for.
const wantedSeries = "7.2"

// kernelSuites are where its source is looked for, one after the other:
// backports keep a series long after testing and unstable moved on.
var kernelSuites = []string{"trixie-backports", "forky", "sid"}

const sourcePrefix = "linux-source-"

// kernelSource is an unpacked kernel tree.
type kernelSource struct {
	tree    string
	version string // of the Debian package
	suite   string
}

// fetchKernelSource downloads and unpacks a kernel's source into dir.
func fetchKernelSource(ctx context.Context, dir string, m mirror, p Progress) (kernelSource, error) {
	for _, suite := range kernelSuites {
		p("kernel: looks for %s%s in %s", sourcePrefix, wantedSeries, suite)
		a, err := newApt(ctx, filepath.Join(dir, "apt-"+suite), m.lines(suite), nil)
		if err != nil {
			return kernelSource{}, err
		}
		versions, err := a.versions(ctx, sourcePrefix)
		if err != nil {
			return kernelSource{}, err
		}
		series, ok := chooseSeries(versions)
		if !ok {
			continue
		}
		if series != wantedSeries {
			p("kernel: %s has no Linux %s any more, takes %s", suite, wantedSeries, series)
		}
		name := sourcePrefix + series
		p("kernel: downloads %s %s (about 160 MB)", name, versions[name])
		deb, err := a.download(ctx, dir, name)
		if err != nil {
			return kernelSource{}, err
		}
		tree, err := unpackKernel(ctx, dir, deb, name, p)
		return kernelSource{tree: tree, version: name + " " + versions[name], suite: suite}, err
	}
	return kernelSource{}, fmt.Errorf("cannot find a %s package for Linux 7.0 or later in %s",
		sourcePrefix, strings.Join(kernelSuites, ", "))
}

// unpackKernel unpacks the archive that the package consists of.
func unpackKernel(ctx context.Context, dir, deb, name string, p Progress) (string, error) {
	p("kernel: unpacks the source")
	c := command{dir: dir}
	if err := c.run(ctx, "dpkg-deb", "-x", deb, "deb"); err != nil {
		return "", fmt.Errorf("cannot unpack %s: %w", deb, err)
	}
	if err := c.run(ctx, "tar", "-xf", filepath.Join("deb/usr/src", name+".tar.xz")); err != nil {
		return "", fmt.Errorf("cannot unpack the kernel: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "deb")); err != nil {
		return "", fmt.Errorf("cannot remove the kernel's archive: %w", err)
	}
	return filepath.Join(dir, name), nil
}

// chooseSeries picks the wanted series, else the newest that has User-Mode
// Linux on several processors, which came with 7.0.
func chooseSeries(versions map[string]string) (string, bool) {
	if versions[sourcePrefix+wantedSeries] != "" {
		return wantedSeries, true
	}
	best, bestMajor, bestMinor := "", 7, -1
	for name := range versions {
		series := strings.TrimPrefix(name, sourcePrefix)
		major, minor, ok := parseSeries(series)
		if ok && (major > bestMajor || major == bestMajor && minor > bestMinor) {
			best, bestMajor, bestMinor = series, major, minor
		}
	}
	return best, best != ""
}

func parseSeries(s string) (major, minor int, ok bool) {
	a, b, dot := strings.Cut(s, ".")
	major, errMajor := strconv.Atoi(a)
	minor, errMinor := strconv.Atoi(b)
	return major, minor, dot && errMajor == nil && errMinor == nil
}
