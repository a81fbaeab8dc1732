package check

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// powerSaving judges the nodes that power saving spares. What else is missing or wrong, slurmctld logs, and goes on
// without (src/slurmctld/power_save.c).
func (c *checker) powerSaving() { c.excludedNodes(c.savesPower()) }

// savesPower says whether power saving is on. Programs that are not where slurmctld runs do not count.
func (c *checker) savesPower() bool {
	pair, ok := c.conf.Get("SuspendTime")
	idles := ok && suspends(pair)
	for _, p := range c.conf.Partitions() {
		if own, ok := p.Line.Get("SuspendTime"); ok && suspends(own) && !idles {
			pair, idles = own, true
		}
	}
	if !idles {
		return false
	}
	on := true
	for _, key := range []string{"SuspendProgram", "ResumeProgram"} {
		program, ok := c.conf.Get(key)
		switch hasArguments := strings.Contains(program.Value, " ") && c.Version < "26.05"; {
		case !ok:
			on = false
			c.add(pair.Position(), slurmconf.Warning, "power-saving", pair.Key+" is set, and nothing is suspended without "+key, key)
		case !path.IsAbs(program.Value):
			on = false
			c.add(program.Position(), slurmconf.Warning, "power-saving", key+" is "+program.Value, "an absolute path")
		case hasArguments:
			on = false
			c.add(program.Position(), slurmconf.Warning, "power-saving", key+" is "+program.Value+
				", and Slurm takes all of it for the program's path", "a path without arguments")
		}
	}
	if program, ok := c.conf.Get("ResumeFailProgram"); ok && !path.IsAbs(program.Value) {
		c.add(program.Position(), slurmconf.Warning, "power-saving", "ResumeFailProgram is "+program.Value, "an absolute path")
	}
	c.excludedPartitions()
	return c.powerSaveInterval() && on
}

// powerSaveInterval is in seconds. A longer one switches power saving off.
func (c *checker) powerSaveInterval() (fits bool) {
	const option = "power_save_interval="
	pair, ok := c.says("SlurmctldParameters", option)
	if !ok {
		return true
	}
	rest := pair.Value[strings.Index(strings.ToLower(pair.Value), option)+len(option):]
	if text, _, _ := strings.Cut(rest, ","); uint32(integerAtStart(rest)) > 60 {
		c.add(pair.Position(), slurmconf.Warning, "power-saving", "SlurmctldParameters has "+option+text, "0 to 60")
		return false
	}
	return true
}

// suspends: nodes are suspended at some time.
func suspends(pair slurmconf.Pair) bool { return !oneOf("NONE", "INFINITE", "-1")(pair.Value) }

func (c *checker) excludedPartitions() {
	pair, _ := c.conf.Get("SuspendExcParts")
	for _, one := range pair.List() {
		if !slices.ContainsFunc(c.conf.Partitions(), func(p slurmconf.Partition) bool { return p.Name() == one }) {
			c.add(pair.Position(), slurmconf.Warning, "power-saving", "SuspendExcParts has "+one+", which is no partition", "")
		}
	}
}

// excludedNodes may be dynamic ones, too. slurmctld ends by a signal when it cannot expand
// their list: before 26.05 with power saving only.
func (c *checker) excludedNodes(saves bool) {
	pair, _ := c.conf.Get("SuspendExcNodes")
	severity := slurmconf.Error
	if !saves && c.Version < "26.05" {
		severity = slurmconf.Warning
	}
	sets := map[string]bool{}
	for _, s := range c.conf.NodeSets() {
		sets[s.Name()] = true
	}
	known, unknown := c.nodeSet(), []string(nil)
	for _, excluded := range excludedParts(pair.Value) {
		expression, count, counted := strings.Cut(excluded, ":")
		if counted && !isCount(count) {
			c.add(pair.Position(), slurmconf.Warning, "power-saving",
				"SuspendExcNodes has "+excluded+": "+strconv.Quote(count)+" is no number of nodes", "a number")
		}
		if strings.EqualFold(expression, "ALL") {
			continue
		}
		list, err := hostlist.Parse(expression)
		if err != nil {
			want := ""
			if strings.Contains(pair.Value, ",") && expression != pair.Value {
				want = "no comma in brackets where a list has a count, as n[1-2]:1,n5"
			}
			c.add(pair.Position(), severity, "hostlist", "SuspendExcNodes: "+err.Error(), want)
			return
		}
		for name := range list.Set().Difference(known).All() {
			if !sets[name] {
				unknown = append(unknown, name)
			}
		}
	}
	if _, dynamic := c.conf.Get("MaxNodeCount"); len(unknown) > 0 && !dynamic {
		c.add(pair.Position(), slurmconf.Warning, "power-saving",
			"SuspendExcNodes has "+strings.Join(unknown[:min(len(unknown), 10)], ",")+", for which there is no NodeName", "")
	}
}

func isCount(text string) bool {
	_, err := strconv.ParseUint(text, 10, 31)
	return err == nil
}

// excludedParts: where one list has a count, Slurm cuts at every comma, those of brackets
// too (_parse_exc_nodes).
func excludedParts(value string) []string {
	if !strings.Contains(value, ":") {
		return []string{value}
	}
	return strings.Split(value, ",")
}
