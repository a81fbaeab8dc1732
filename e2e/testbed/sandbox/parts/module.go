package parts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// module is a Go module of this repository that pins programs: what its tool
// directives name, and main packages of its own.
type module struct {
	name string // of the directory in .ci
	// packages is about how many are compiled, for the progress.
	packages int
	tags     string
	// flags are the linker's, for the version that a go.mod requires of a package.
	flags func(goMod string) string
	// plain are packages that no other build shares. Without inlining, they take a fifth less processor time.
	plain []string
	// rename maps what go build calls a program to its name.
	rename map[string]string
	// files are what else is kept of the modules that the programs are made of: their names, by module and path.
	files map[string]map[string]string
}

// obtain returns the directory with the programs, building them when the cache has none.
func (m module) obtain(ctx context.Context, p Progress) (string, error) {
	dir, err := findModule(m.name)
	if err != nil {
		return "", err
	}
	inputs, err := sources(dir)
	if err != nil {
		return "", err
	}
	key := keyOf(append([]string{runtime.GOARCH, runtime.Version(), m.tags}, inputs...)...)
	return entry{name: m.name, key: key}.obtain(ctx, p, func(to string) error { return m.build(ctx, dir, to, p) })
}

func (m module) build(ctx context.Context, dir, to string, p Progress) error {
	started := time.Now()
	goMod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	p("%s: downloads and compiles what .ci/%s/go.mod pins", m.name, m.name)
	s := watch(p, m.name+": compiled %d of about %d packages", m.packages, "")
	c := command{dir: dir, line: s.line, env: []string{"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false -gcflags=all=-dwarf=false -toolexec=" + filepath.Join(filepath.Dir(dir), "compile")}}
	args := []string{"build", "-v", "-trimpath", "-tags", m.tags, "-ldflags", "-s -w " + m.linked(string(goMod)), "-o", to + "/"}
	for _, packages := range m.plain {
		args = append(args, "-gcflags", packages+"=-dwarf=false -l")
	}
	args = append(args, "tool", "./...")
	err = c.run(ctx, "go", args...)
	s.stop()
	if err != nil {
		return err
	}
	for from, name := range m.rename {
		if err := os.Rename(filepath.Join(to, from), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	if err := m.copyFiles(ctx, c, to); err != nil {
		return err
	}
	p("%s: done (%s)", m.name, since(started))
	return nil
}

// linked are the linker's own flags.
func (m module) linked(goMod string) string {
	if m.flags == nil {
		return ""
	}
	return m.flags(goMod)
}

// copyFiles copies files of modules, which go build has downloaded.
func (m module) copyFiles(ctx context.Context, c command, to string) error {
	for path, files := range m.files {
		from, err := c.output(ctx, "go", "list", "-m", "-f", "{{.Dir}}", path)
		if err != nil {
			return fmt.Errorf("cannot find the module %s: %w", path, err)
		}
		for file, name := range files {
			text, err := os.ReadFile(filepath.Join(strings.TrimSpace(from), file))
			if err != nil {
				return fmt.Errorf("cannot copy a file of the module %s: %w", path, err)
			}
			if err := os.WriteFile(filepath.Join(to, name), text, 0o644); err != nil {
				return fmt.Errorf("cannot copy a file of the module %s: %w", path, err)
			}
		}
	}
	return nil
}

// sources are the contents of everything that a module's programs are made of.
func sources(dir string) ([]string, error) {
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all = append(all, strings.TrimPrefix(path, dir), string(text))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the module in %s: %w", dir, err)
	}
	return all, nil
}

// findModule looks for .ci/name in the repository that the working directory
// is in, or this program.
func findModule(name string) (string, error) {
	var from []string
	if dir, err := os.Getwd(); err == nil {
		from = append(from, dir)
	}
	if program, err := os.Executable(); err == nil {
		from = append(from, filepath.Dir(program))
	}
	for _, dir := range from {
		for ; dir != "/"; dir = filepath.Dir(dir) {
			if at := filepath.Join(dir, ".ci", name); exists(filepath.Join(at, "go.mod")) {
				return at, nil
			}
		}
	}
	return "", errors.New("cannot find .ci/" + name + "/go.mod: be in slurmlet's repository")
}

// required finds the version of a module in the text of a go.mod.
func required(goMod, path string) string {
	for line := range strings.Lines(goMod) {
		f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(f) >= 2 && f[0] == path && strings.HasPrefix(f[1], "v") {
			return f[1]
		}
	}
	return ""
}
