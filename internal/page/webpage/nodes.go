package webpage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// Condition is a node's state as people ask for it: can it work, does it, and if not, why not.
// Class is its colour and pattern in style.css, and Glyph shows it without a colour.
type Condition struct{ Class, Word, Glyph string }

// The conditions, the best first: the order of the legend and of the bars.
var (
	allocated     = &Condition{"alloc", "allocated", "●"}
	mixed         = &Condition{"mixed", "mixed", "◐"}
	idle          = &Condition{"idle", "idle", "○"}
	inReservation = &Condition{"resv", "reserved", "◇"}
	off           = &Condition{"off", "powered off", "–"}
	draining      = &Condition{"drng", "draining", "◪"}
	drained       = &Condition{"drain", "drained", "■"}
	down          = &Condition{"down", "down", "✕"}
	unknown       = &Condition{"unkn", "unknown", "?"}

	conditions = []*Condition{allocated, mixed, idle, inReservation, off, draining, drained, down, unknown}
)

// conditionOf follows sinfo(1): a flag says more than the base state.
func conditionOf(n *slurm.Node) *Condition {
	works := n.State.HoldsJobs()
	switch {
	case n.Is("POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN") && !works:
		return off
	case n.Is("DOWN", "ERROR", "NOT_RESPONDING", "FAIL", "INVALID_REG"):
		return down
	case n.Is("DRAIN", "DRAINING", "DRAINED") && works:
		return draining
	case n.Is("DRAIN", "DRAINING", "DRAINED"):
		return drained
	case n.Is("ALLOCATED"):
		return allocated
	case n.Is("MIXED", "COMPLETING"):
		return mixed
	case n.Is("IDLE") && n.State.Reserved():
		return inReservation
	case n.Is("IDLE"):
		return idle
	}
	return unknown
}

// faulty: somebody should look at a node in this condition.
func (c *Condition) faulty() bool {
	return c == draining || c == drained || c == down || c == unknown
}

// Square is a node on the map.
type Square struct {
	*Condition
	Name, Title string
	// Reason is for a large square: what sinfo shows beside the state.
	Reason string
	// CPUs and GPUs are "3/8", and Load is the CPUs' share in percent.
	CPUs, GPUs string
	Load       int
}

// Group is the nodes of one partition. A node of several is in the smallest one.
type Group struct {
	Name  string
	Nodes int
	Bar   Bar
	// Squares are in the order of slurmctld's answer, More is how many are left out.
	Squares []Square
	More    int
}

// Bar is counts by condition, as a bar and in words.
type Bar struct {
	Parts []Part
	Words string
}

// Part is one part of a bar: X and Width are in thousandths of it.
type Part struct {
	*Condition
	X, Width int
	Nodes    string
}

// tally counts nodes by their condition.
type tally map[*Condition]int

func (t tally) bar() Bar {
	total, words := 0, []string{}
	for _, n := range t {
		total += n
	}
	var b Bar
	x := 0
	for _, c := range conditions {
		n := t[c]
		if n == 0 {
			continue
		}
		width := max(8, 1000*n/total)
		b.Parts = append(b.Parts, Part{c, x, width, count(n)})
		x += width
		words = append(words, count(n)+" "+c.Word)
	}
	b.Words = strings.Join(words, ", ")
	return b
}

const (
	// mostSquares bounds the page, which has 100 to 140 bytes for each.
	mostSquares = 12_000
	// mostLarge squares have their names and figures in them, and mostMiddle a glyph.
	mostLarge, mostMiddle = 48, 1000
)

// mapSize is how large the squares are, as a class.
func mapSize(nodes int) string {
	switch {
	case nodes <= mostLarge:
		return "large"
	case nodes <= mostMiddle:
		return "middle"
	}
	return "small"
}

// groups are the map. Without names it shows states alone.
func groups(nodes []slurm.Node, named bool) []Group {
	of := homes(nodes)
	all, tallies, large := map[string]*Group{}, map[string]tally{}, mapSize(len(nodes)) == "large"
	drawn := 0
	for i := range nodes {
		n, home := &nodes[i], of[i]
		g := all[home]
		if g == nil {
			g = &Group{Name: plain(home, mostText)}
			all[home], tallies[home] = g, tally{}
		}
		c := conditionOf(n)
		g.Nodes++
		tallies[home][c]++
		if drawn++; drawn > mostSquares {
			g.More++
			continue
		}
		g.Squares = append(g.Squares, square(n, c, named, large))
	}
	var list []Group
	for home, g := range all {
		g.Bar = tallies[home].bar()
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func square(n *slurm.Node, c *Condition, named, large bool) Square {
	s := Square{Condition: c, Title: c.Word}
	if n.CPUs > 0 {
		s.Load = min(100, max(0, 100*n.CPUsAlloc/n.CPUs))
	}
	if large {
		s.CPUs = fmt.Sprintf("%d/%d", n.CPUsAlloc, n.CPUs)
		if n.GPUs > 0 {
			s.GPUs = fmt.Sprintf("%d/%d", n.GPUsAlloc, n.GPUs)
		}
	}
	if !named {
		return s
	}
	s.Name = plain(n.Name, mostText)
	s.Title = s.Name + " " + c.Word
	if n.Reason != "" && c.faulty() {
		s.Reason = plain(n.Reason, mostTitle)
		s.Title += ": " + s.Reason
	}
	return s
}

// homes are, for each node, the smallest of its partitions.
func homes(nodes []slurm.Node) []string {
	sizes := map[string]int{}
	for i := range nodes {
		for _, p := range nodes[i].Partitions {
			sizes[p]++
		}
	}
	all := make([]string, len(nodes))
	for i := range nodes {
		if ps := nodes[i].Partitions; len(ps) > 0 {
			all[i] = slices.MinFunc(ps, func(a, b string) int {
				return cmp.Or(cmp.Compare(sizes[a], sizes[b]), cmp.Compare(a, b))
			})
		}
	}
	return all
}
