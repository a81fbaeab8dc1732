package main

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/slurmlet/slurmlet/slurmconf/keys"
)

// further are names that have no directory of their own, by the files that have them.
var further = map[string][]string{
	"cred/slurm":       {"plugins/auth/slurm"},
	"topology/default": {"plugins/topology/flat", "plugins/topology/default"},
}

// writePlugins writes a heading, and a line for each plugin with its kind: those of
// Slurm are the directories below src/plugins.
func writePlugins(w io.Writer, sources fs.FS) error {
	versions := map[string][]string{} // of a plugin
	for _, version := range keys.Versions {
		src := path.Join(version, "src")
		dirs, err := fs.Glob(sources, path.Join(src, "plugins/*/*/Makefile.am"))
		if err != nil || len(dirs) == 0 {
			return fmt.Errorf("cannot find the plugins of %s: %v", version, err)
		}
		for _, makefile := range dirs {
			dir := path.Dir(makefile)
			if name := path.Base(dir); name != "common" {
				plugin := path.Base(path.Dir(dir)) + "/" + name
				versions[plugin] = append(versions[plugin], version)
			}
		}
		for plugin, from := range further {
			found := slices.ContainsFunc(from, func(dir string) bool { _, err := fs.Stat(sources, path.Join(src, dir)); return err == nil })
			if found && !slices.Contains(versions[plugin], version) {
				versions[plugin] = append(versions[plugin], version)
			}
		}
	}
	fmt.Fprintln(w, "plugins")
	for _, plugin := range slices.Sorted(maps.Keys(versions)) {
		line := "\t" + plugin + " plugin"
		if of := span(versions[plugin]); of != "" {
			line += " " + of
		}
		fmt.Fprintln(w, line)
	}
	return nil
}
