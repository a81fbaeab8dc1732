package parts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// apt is a private apt: it has its own sources and lists and sees no package
// as installed, so it can fetch from any suite while the machine's
// configuration stays untouched.
type apt struct {
	dir  string
	line func(string)
}

// newApt makes one in dir that knows the packages of sources (lines of sources.list(5)).
func newApt(ctx context.Context, dir string, sources []string, line func(string)) (apt, error) {
	a := apt{dir: dir, line: line}
	for _, d := range []string{"lists/partial", "cache/archives/partial", "parts"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return a, fmt.Errorf("cannot make apt's directories: %w", err)
		}
	}
	text := strings.Join(sources, "\n") + "\n"
	if err := os.WriteFile(filepath.Join(dir, "sources.list"), []byte(text), 0o644); err != nil {
		return a, fmt.Errorf("cannot write apt's sources: %w", err)
	}
	if err := a.command(dir, line).run(ctx, "apt-get", a.args("update")...); err != nil {
		return a, fmt.Errorf("cannot read the package lists: %w", err)
	}
	return a, nil
}

func (a apt) command(dir string, line func(string)) command { return command{dir: dir, line: line} }

// args puts the options that make it private in front of more.
func (a apt) args(more ...string) []string {
	var args []string
	for _, o := range []string{
		"Dir::State=" + a.dir,
		"Dir::State::lists=" + filepath.Join(a.dir, "lists"),
		"Dir::State::status=/dev/null",
		"Dir::Cache=" + filepath.Join(a.dir, "cache"),
		"Dir::Etc::sourcelist=" + filepath.Join(a.dir, "sources.list"),
		"Dir::Etc::sourceparts=" + filepath.Join(a.dir, "parts"),
		"Dir::Etc::preferences=/dev/null",
		"Dir::Etc::preferencesparts=" + filepath.Join(a.dir, "parts"),
		// The user _apt cannot reach a cache in a home directory.
		"APT::Sandbox::User=root",
		"Acquire::Languages=none",
		// No icons and no AppStream data, which desktops switch on.
		"Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
		// Suites that still move are mirrored rarely in some places.
		"Acquire::Check-Valid-Until=false",
	} {
		args = append(args, "-o", o)
	}
	return append(args, more...)
}

// versions maps each package whose name starts with prefix to its newest version.
func (a apt) versions(ctx context.Context, prefix string) (map[string]string, error) {
	names, err := a.command(a.dir, nil).output(ctx, "apt-cache", a.args("pkgnames", prefix)...)
	if err != nil {
		return nil, fmt.Errorf("cannot list packages: %w", err)
	}
	if strings.TrimSpace(names) == "" {
		return nil, nil
	}
	table, err := a.command(a.dir, nil).output(ctx, "apt-cache", a.args(append([]string{"madison"}, strings.Fields(names)...)...)...)
	if err != nil {
		return nil, fmt.Errorf("cannot list package versions: %w", err)
	}
	return parseMadison(table), nil
}

// parseMadison reads "package | version | origin" lines, the newest first.
func parseMadison(table string) map[string]string {
	versions := map[string]string{}
	for line := range strings.Lines(table) {
		f := strings.Split(line, "|")
		if len(f) != 3 {
			continue
		}
		if name := strings.TrimSpace(f[0]); versions[name] == "" {
			versions[name] = strings.TrimSpace(f[1])
		}
	}
	return versions
}

// download puts the .deb of name into dir and returns its path.
func (a apt) download(ctx context.Context, dir, name string) (string, error) {
	if err := a.command(dir, a.line).run(ctx, "apt-get", a.args("download", name)...); err != nil {
		return "", fmt.Errorf("cannot download %s: %w", name, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, name+"_*.deb"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("cannot find the one file of %s that was downloaded: %v", name, files)
	}
	return files[0], nil
}
