package series

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/kit/exposition"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// metric is a row of a table that has one value for each T: a node, a partition, the cluster.
type metric[T any] struct {
	name, help string
	value      func(*T) float64
}

// family is a row whose labels depend on what there is. Its labels' names are separated by commas.
type family[T any] struct {
	name, labels, help string
	samples            func(t *T, add func(value float64, labels ...string))
}

// labelled is a T with the labels of its samples.
type labelled[T any] struct {
	labels string
	of     *T
}

// alone is a T that needs no label.
func alone[T any](t *T) []labelled[T] { return []labelled[T]{{of: t}} }

// page is one text. Its metrics have a prefix, and a kind by their names.
type page struct {
	*exposition.Writer
	prefix string
	kind   func(name string) exposition.Kind
}

// add writes the rows of a table, and nothing where there is no T.
func add[T any](p page, metrics []metric[T], all []labelled[T]) {
	for _, m := range metrics {
		if len(all) == 0 {
			return
		}
		name := p.prefix + m.name
		p.Head(name, m.help, p.kind(name))
		for _, one := range all {
			if value := m.value(one.of); !math.IsNaN(value) {
				p.WriteSample(name, one.labels, value)
			}
		}
	}
}

// addFamilies writes rows, and no head for one without samples.
func addFamilies[T any](p page, families []family[T], t *T) {
	for _, f := range families {
		name, headed := p.prefix+f.name, false
		f.samples(t, func(value float64, labels ...string) {
			if !headed {
				headed = true
				p.Head(name, f.help, p.kind(name))
			}
			p.WriteSample(name, exposition.Labels(f.labels, labels...), value)
		})
	}
}

// addHistogram writes one histogram for each partition, also for those without a value: a counter
// begins at 0.
func addHistogram(p page, name, help string, partitions []*partitionCounts, all map[string]*exposition.Durations) {
	if len(partitions) == 0 {
		return
	}
	name = p.prefix + name
	p.Head(name, help, exposition.Histogram)
	for _, partition := range partitions {
		p.WriteDurations(name, "partition", partition.record.Name, waitBounds, cmp.Or(all[partition.record.Name], &exposition.Durations{}))
	}
}

// labelledNodes and the rest make the labels of a page once for all its rows.
func labelledNodes(nodes []slurm.Node) []labelled[slurm.Node] {
	all := make([]labelled[slurm.Node], len(nodes))
	for i := range nodes {
		all[i] = labelled[slurm.Node]{exposition.Labels("node", nodes[i].Name), &nodes[i]}
	}
	return all
}

func labelledPartitions(partitions []*partitionCounts) (all []labelled[partitionCounts]) {
	for _, p := range partitions {
		all = append(all, labelled[partitionCounts]{exposition.Labels("partition", p.record.Name), p})
	}
	return all
}

// labelledOwners have the names of labels, and what an owner has for them.
func labelledOwners(owners []*ownerCounts, names string, values func(*ownerCounts) []string) (all []labelled[jobCounts]) {
	for _, o := range owners {
		all = append(all, labelled[jobCounts]{exposition.Labels(names, values(o)...), &o.jobs})
	}
	return all
}

func nameOf(o *ownerCounts) []string       { return []string{o.name} }
func uidAndNameOf(o *ownerCounts) []string { return []string{o.uid, o.name} }

// within applies rows about one part of a T to it, under names with a prefix.
func within[T, Part any](prefix string, rows []metric[Part], part func(*T) *Part) []metric[T] {
	var all []metric[T]
	for _, m := range rows {
		all = append(all, metric[T]{prefix + m.name, m.help, func(t *T) float64 { return m.value(part(t)) }})
	}
	return all
}

func jobsOf(p *partitionCounts) *jobCounts   { return &p.jobs }
func listedOf(p *partitionCounts) *jobCounts { return &p.listed }
func nodesOf(p *partitionCounts) *nodeCounts { return &p.nodes }

// jobState and the rest are values that most rows have.
func jobState(state string) func(*jobCounts) float64 {
	n := jobStates.must(state)
	return func(c *jobCounts) float64 { return float64(c.states[n]) }
}

func jobFlag(flag string) func(*jobCounts) float64 {
	n := jobFlags.must(flag)
	return func(c *jobCounts) float64 { return float64(c.flags[n]) }
}

func nodeState(state string) func(*nodeCounts) float64 {
	n := nodeStates.must(state)
	return func(c *nodeCounts) float64 { return float64(c.states[n]) }
}

func nodeFlag(flag string) func(*nodeCounts) float64 {
	n := nodeFlags.must(flag)
	return func(c *nodeCounts) float64 { return float64(c.flags[n]) }
}

// ratio is 0 where nothing was counted.
func ratio(sum float64, count int64) float64 {
	if count == 0 {
		return 0
	}
	return sum / float64(count)
}

func truth(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// addAmounts adds amounts in the order of their keys.
func addAmounts(amounts map[[2]string]int, add func(value float64, labels ...string)) {
	keys := slices.SortedFunc(maps.Keys(amounts), func(a, b [2]string) int {
		return cmp.Or(strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1]))
	})
	for _, key := range keys {
		add(float64(amounts[key]), key[0], key[1])
	}
}

func stamp(t slurm.Time) float64 { return float64(t) }
