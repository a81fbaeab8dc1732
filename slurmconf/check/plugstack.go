package check

import (
	"path"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// The plugins of jobs in containers: slurmlet's, and pyxis'.
const (
	slurmletPlugin = "spank_slurmlet.so"
	pyxisPlugin    = "spank_pyxis.so"
)

// plugstack finds what Slurm takes and users do not expect: a plugin of containers without which a node runs their
// jobs on its own root, and two plugins with the same options.
func (c *checker) plugstack() {
	seen := map[string]bool{}
	for line := range c.whole.Conf(slurmconf.PlugstackConf).Lines() {
		for _, pair := range line.Pairs {
			file, _, _ := strings.Cut(pair.Value, " ")
			name := path.Base(file)
			if name != slurmletPlugin && name != pyxisPlugin {
				continue
			}
			if name == slurmletPlugin && pair.Key == "optional" {
				c.add(pair.Position(), slurmconf.Warning, "plugstack",
					name+" is optional: a node without the file runs a job in a container on the node's own root", "required")
			}
			if seen[name] = true; seen[slurmletPlugin] && seen[pyxisPlugin] {
				c.add(pair.Position(), slurmconf.Warning, "plugstack",
					pyxisPlugin+" and "+slurmletPlugin+" have the same options", "one of both")
			}
		}
	}
}
