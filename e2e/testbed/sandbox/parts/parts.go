// Package parts makes what the local sandbox is built from: a User-Mode-Linux
// kernel with every cgroup v2 controller, and Debian root file systems with a
// real Slurm in them.
//
// Each part is built once, from the packages of the machine's own Debian
// mirror, and kept in the cache directory ($SLURMLET_CACHE, or
// ~/.cache/slurmlet). An entry is named after a hash of everything that
// decides its content, appears there only when it is complete, and is never
// changed afterwards: whoever boots a root file system puts a layer over it.
package parts

import "slices"

// Progress is told one line for each thing that starts, moves or ends.
type Progress func(format string, args ...any)

// Versions lists the Slurm versions that Root knows, the oldest first.
func Versions() []string {
	names := make([]string, 0, len(releases))
	for name := range releases {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
