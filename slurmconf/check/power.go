package check

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// powerSaving: src/slurmctld/power_save.c. What is missing or wrong, slurmctld tells,
// and goes on without.
func (c *checker) powerSaving() {
	pair, ok := c.conf.Get("SuspendTime")
	idles := ok && suspends(pair)
	for _, p := range c.conf.Partitions() {
		if own, ok := p.Line.Get("SuspendTime"); ok && suspends(own) && !idles {
			pair, idles = own, true
		}
	}
	if !idles {
		return
	}
	for _, key := range []string{"SuspendProgram", "ResumeProgram"} {
		program, ok := c.conf.Get(key)
		switch {
		case !ok:
			c.add(pair.Position(), slurmconf.Warning, "power-saving", pair.Key+" is set, and nothing is suspended without "+key, key)
		case !path.IsAbs(program.Value):
			c.add(program.Position(), slurmconf.Warning, "power-saving", key+" is "+program.Value, "an absolute path")
		case strings.Contains(program.Value, " ") && c.Version < "26.05":
			c.add(program.Position(), slurmconf.Warning, "power-saving", key+" is "+program.Value+", and Slurm takes all of it for the program's path", "a path without arguments")
		}
	}
	if program, ok := c.conf.Get("ResumeFailProgram"); ok && !path.IsAbs(program.Value) {
		c.add(program.Position(), slurmconf.Warning, "power-saving", "ResumeFailProgram is "+program.Value, "an absolute path")
	}
	c.powerSaveInterval()
	c.sparedPartitions()
	c.sparedNodes()
}

// powerSaveInterval is in seconds.
func (c *checker) powerSaveInterval() {
	const option = "power_save_interval="
	pair, ok := c.says("SlurmctldParameters", option)
	if !ok {
		return
	}
	rest := pair.Value[strings.Index(strings.ToLower(pair.Value), option)+len(option):]
	if text, _, _ := strings.Cut(rest, ","); uint32(integerAtStart(rest)) > 60 {
		c.add(pair.Position(), slurmconf.Warning, "power-saving", "SlurmctldParameters has "+option+text, "0 to 60")
	}
}

// suspends: nodes are suspended at some time.
func suspends(pair slurmconf.Pair) bool { return !oneOf("NONE", "INFINITE", "-1")(pair.Value) }

func (c *checker) sparedPartitions() {
	pair, _ := c.conf.Get("SuspendExcParts")
	for _, one := range pair.List() {
		if !slices.ContainsFunc(c.conf.Partitions(), func(p slurmconf.Partition) bool { return p.Name() == one }) {
			c.add(pair.Position(), slurmconf.Warning, "power-saving", "SuspendExcParts has "+one+", which is no partition", "")
		}
	}
}

// counts are how many nodes of those before them are spared: n[1-9]:2.
var counts = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`:\d+`) })

// sparedNodes may be dynamic ones, too.
func (c *checker) sparedNodes() {
	pair, ok := c.conf.Get("SuspendExcNodes")
	if _, dynamic := c.conf.Get("MaxNodeCount"); !ok || dynamic {
		return
	}
	list, err := hostlist.Parse(counts().ReplaceAllString(pair.Value, ""))
	if err != nil {
		c.add(pair.Position(), slurmconf.Warning, "hostlist", "SuspendExcNodes: "+err.Error(), "")
		return
	}
	sets := map[string]bool{}
	for _, s := range c.conf.NodeSets() {
		sets[s.Name()] = true
	}
	var unknown []string
	for name := range list.Set().Difference(c.nodeSet()).All() {
		if !sets[name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		c.add(pair.Position(), slurmconf.Warning, "power-saving", "SuspendExcNodes has "+strings.Join(unknown[:min(len(unknown), 10)], ",")+", for which there is no NodeName", "")
	}
}
