package check

import (
	"cmp"
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
			if name == slurmletPlugin {
				c.privateDirs(pair)
			}
			if seen[name] = true; seen[slurmletPlugin] && seen[pyxisPlugin] {
				c.add(pair.Position(), slurmconf.Warning, "plugstack",
					pyxisPlugin+" and "+slurmletPlugin+" have the same options", "one of both")
			}
		}
	}
}

// stacks says whether plugstack.conf has a plugin.
func (c *checker) stacks(plugin string) bool {
	for line := range c.whole.Conf(slurmconf.PlugstackConf).Lines() {
		for _, pair := range line.Pairs {
			if file, _, _ := strings.Cut(pair.Value, " "); path.Base(file) == plugin {
				return true
			}
		}
	}
	return false
}

// privateDirs finds what has no job start, or has two plugins give it a /tmp: slurmlet's plugin makes a job's namespaces in
// the job's extern step.
func (c *checker) privateDirs(line slurmconf.Pair) {
	if !strings.Contains(line.Value, " private_dirs=") && !strings.Contains(line.Value, " private_processes=1") {
		return
	}
	if _, contain := c.has("PrologFlags", "Contain", "X11"); !contain {
		c.add(line.Position(), slurmconf.Warning, "plugstack",
			"private_dirs and private_processes have each job fail, because PrologFlags has no Contain", "PrologFlags=Contain")
	}
	c.xauthority(line)
	for _, key := range []string{"JobContainerType", "NamespaceType"} {
		if pair, set := c.conf.Get(key); set && !strings.Contains(strings.ToLower(pair.Value), "none") {
			c.add(pair.Position(), slurmconf.Warning, "plugstack",
				key+" is "+pair.Value+", and "+slurmletPlugin+" has private_dirs or private_processes: a job gets both", "one of both")
		}
	}
}

// xauthority finds X11 that no task can use: slurmstepd makes the file with the cookie in the node's TmpFS, where a job with
// a directory of its own does not see it (src/slurmd/slurmstepd/mgr.c).
func (c *checker) xauthority(line slurmconf.Pair) {
	flags, forwards := c.has("PrologFlags", "X11")
	parameters, _ := c.conf.Value("X11Parameters")
	if !forwards || strings.Contains(strings.ToLower(parameters), "home_xauthority") {
		return
	}
	tmp, _ := c.conf.Value("TmpFS")
	tmp = path.Clean(cmp.Or(tmp, "/tmp"))
	_, list, _ := strings.Cut(line.Value, " private_dirs=")
	list, _, _ = strings.Cut(list, " ")
	for dir := range strings.SplitSeq(list, ",") {
		if own := path.Clean(dir); dir != "" && (tmp == own || strings.HasPrefix(tmp, own+"/")) {
			c.add(flags.Position(), slurmconf.Warning, "plugstack",
				"srun --x11 shows nothing: Slurm keeps its cookie in TmpFS, "+tmp+", and private_dirs gives each job a "+dir+" of its own",
				"X11Parameters=home_xauthority")
			return
		}
	}
}
