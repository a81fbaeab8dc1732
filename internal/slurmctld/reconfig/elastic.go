package reconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// elasticFile is a file of the set of files that makes the elastic sets a part of the configuration: their
// change is an edit, and the last good configuration comes back with the sets that it was made for.
const elasticFile = "elastic-sets.json"

// withElastic adds that file where there are elastic sets.
func (r *Reloader) withElastic(set *confset.Set) (*confset.Set, error) {
	if r.Elastic == nil {
		return set, nil
	}
	if file, taken := set.File(elasticFile); taken {
		return nil, fmt.Errorf("%s: want another name: slurmlet writes %s itself", file.Source, elasticFile)
	}
	text, err := json.MarshalIndent(r.Elastic(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", elasticFile, err)
	}
	return set.Add(confset.File{Name: elasticFile, Data: append(text, '\n'), Mode: 0o644, Source: r.ElasticDir}), nil
}

// elasticOf reads the elastic sets of a set of files that is staged in dir; nil where there are none.
func elasticOf(dir *os.Root) (*[]ElasticSet, error) {
	text, err := fs.ReadFile(dir.FS(), elasticFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	sets := &[]ElasticSet{}
	if err == nil {
		err = json.Unmarshal(text, sets)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", elasticFile, err)
	}
	return sets, nil
}

func ofProgram(name string) func(Options, *slurmconf.Conf) string {
	return func(o Options, _ *slurmconf.Conf) string { return filepath.Join(o.RunDir, "programs", name) }
}

// unlessProgram: a cluster may have a program of its own that runs ours.
func unlessProgram(name, cost string) func(string) string {
	return func(have string) string {
		if strings.HasSuffix(have, "/programs/"+name) {
			return ""
		}
		return cost
	}
}

// elasticDefaults are those of a cluster with elastic sets.
var elasticDefaults = []parameter{
	{
		"ResumeProgram", ofProgram("resume"), "slurmctld asks for nodes, and slurmlet's controller makes their pods",
		unlessProgram("resume",
			"slurmlet learns later that nodes are wanted: it looks every other second while nodes start, and else once a minute"), "",
	},
	{
		"SuspendProgram", ofProgram("suspend"),
		"slurmctld gives nodes back, and slurmlet's controller deletes their pods",
		unlessProgram("suspend", "slurmlet learns later that nodes are not wanted any more"), "",
	},
	{"ResumeFailProgram", ofProgram("resume-failed"), "nodes have not come up within ResumeTimeout", free, ""},
	{
		"PrologSlurmctld", ofProgram("wait-nodes"),
		"a job starts as soon as its nodes are up: without it, slurmctld looks for that every 30 s", free, "",
	},
	{"ResumeTimeout", is("600"), "in seconds: Kubernetes may have to add a machine, and pull an image (Slurm's default: 60)", free, ""},
	{
		"SuspendTimeout", is("120"),
		"in seconds: more than an idle pod needs to end, and slurmlet ends the wait when the pod is gone", free, "",
	},
	{"ResumeRate", is("0"), "nodes a minute: all that jobs need at once (Slurm's default: 300)", free, ""},
	{"SuspendRate", is("0"), "nodes a minute: all that are idle at once (Slurm's default: 60)", free, ""},
	{
		"SuspendTime", is("900000000"),
		"in seconds: only nodes whose partition has a SuspendTime are given back when they are idle", free, "",
	},
	{"SuspendExcNodes", spared, "nodes of other sets have pods of their own, and so many of an elastic set stay up", free, ""},
	{
		"SchedulerParameters", is("requeue_delay=5,requeue_on_resume_failure"),
		"a job whose nodes do not come up is tried anew after 5 s (26.05; 24.11 passes over both)", free, "",
	},
	{
		"SlurmctldParameters", nothing, "",
		unless("power_save_interval=0", "slurmctld asks for nodes up to 10 s after it has given them to a job"), "",
	},
}

func nothing(Options, *slurmconf.Conf) string { return "" }

// parameters are the defaults of a cluster.
func (o Options) parameters() []parameter {
	if o.sets == nil {
		return defaults
	}
	return slices.Concat(defaults, elasticDefaults)
}

// spared are the node sets and nodes of slurm.conf that no elastic set has, because slurmctld suspends
// any node that is idle for long, and the minimum of each elastic set: its first nodes, which the agent starts first.
func spared(o Options, conf *slurmconf.Conf) string {
	var own hostlist.Set
	var all []string
	features := map[string]bool{}
	for _, s := range *o.sets {
		list, _ := hostlist.Parse(s.Nodes) // it was one
		own = own.Union(list.Set())
		features[s.Name] = true
		for _, f := range s.Features {
			features[f] = true
		}
	}
	for _, set := range conf.NodeSets() {
		nodes, err := hostlist.Parse(set.Nodes)
		elastic := features[set.Name()] || features[set.Feature] || err != nil || nodes.Set().Intersection(own).Len() > 0
		if !elastic {
			all = append(all, set.Name())
		}
	}
	for _, n := range conf.Nodes() {
		state, _ := n.Get("State")
		if word := strings.ToUpper(state.Value); !strings.HasPrefix(word, "CLOUD") && !strings.HasPrefix(word, "FUTURE") {
			list, err := hostlist.Parse(n.Names)
			if err == nil {
				all = append(all, ranges(list.Set())...)
			}
		}
	}
	for _, s := range *o.sets {
		list, _ := hostlist.Parse(s.Nodes)
		all = append(all, firstOf(list.Set(), s.Min)...)
	}
	return strings.Join(all, ",")
}

// firstOf are the first nodes of a set, each range with how many it has of them.
func firstOf(nodes hostlist.Set, count int) (all []string) {
	for _, part := range ranges(nodes) {
		list, _ := hostlist.Parse(part)
		if count > 0 {
			all = append(all, fmt.Sprintf("%s:%d", part, min(count, list.Len())))
		}
		count -= list.Len()
	}
	return all
}

// ranges are the parts of a host list. Where SuspendExcNodes has a count, slurmctld divides it at each comma, also
// at those in brackets (_parse_exc_nodes of 24.11 and 26.05), and a count is of the part before it alone.
func ranges(nodes hostlist.Set) (all []string) {
	prefix, inside := "", false
	for part := range strings.SplitSeq(nodes.String(), ",") {
		if before, first, opens := strings.Cut(part, "["); opens {
			prefix, part, inside = before, first, true
		}
		if !inside {
			all = append(all, part)
			continue
		}
		part, closes := strings.CutSuffix(part, "]")
		all = append(all, prefix+"["+part+"]")
		inside = !closes
	}
	return all
}
