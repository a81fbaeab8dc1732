// Package topology reads topology.yaml(5), which Slurm knows since 25.05, and judges
// namespace.yaml.
//
// It is apart from slurmconf because of the YAML parser, which costs the start of each
// program that links it 0.13 ms, and 360 kB: the controller does without. The parser is
// go.yaml.in/yaml/v3, which the YAML organization keeps: it bounds nesting and its time is
// linear. Of the others, github.com/goccy/go-yaml has better positions, and takes seconds
// for 10 kB of brackets.
package topology

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// Topology is one of the topologies of a cluster.
type Topology struct {
	// Name is what partitions call it (Topology in slurm.conf(5)).
	Name string
	// Plugin is block, flat, ring, torus3d or tree.
	Plugin string
	// Default is set on the one of partitions that name none.
	Default bool
	// Groups are the switches, blocks, rings or toruses.
	Groups []Group
	// BlockSizes is block_sizes, a list with commas, and empty where it is not set.
	BlockSizes string
	From       slurmconf.Position
}

// Group is a switch, a block, a ring or a torus.
type Group struct {
	Name string
	// Nodes is a hostlist of nodes, Children one of switches.
	Nodes, Children string
	// Dims are those of a torus: 0 is none that Slurm takes.
	Dims [3]int
	// Regions: the nodes of a torus are those of its regions.
	Regions bool
	From    slurmconf.Position
}

// plugins are the kinds of topologies, and for each the key of its groups and
// that of their names.
var plugins = map[string]struct{ groups, name string }{
	"block":   {"blocks", "block"},
	"flat":    {},
	"ring":    {"rings", "ring"},
	"torus3d": {"toruses", "name"},
	"tree":    {"switches", "switch"},
}

// Parse reads the text of topology.yaml as Slurm does, which takes one topology or a list
// of them, and knows no aliases. What it cannot read it leaves out, and it lists
// everything that it left out. What it lists, slurmctld refuses.
func Parse(f *slurmconf.File) ([]Topology, slurmconf.Findings) {
	r := reader{file: f}
	return r.topologies(), r.findings
}

type reader struct {
	file     *slurmconf.File
	findings slurmconf.Findings
}

// topologies is what the document is: one, or a list of them.
func (r *reader) topologies() []Topology {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(r.file.String()), &document); err != nil {
		r.syntax(err)
		return nil
	}
	if len(document.Content) == 0 {
		r.note(&document, "the file is empty", "topologies, or no topology.yaml")
		return nil
	}
	root := document.Content[0]
	if root.Kind == yaml.SequenceNode && len(root.Content) == 0 {
		r.note(root, "the list of topologies is empty, over which slurmctld ends by a signal", "topologies, or no topology.yaml")
		return nil
	}
	var all []Topology
	for _, n := range r.oneOrMore(root, "topologies") {
		if t, ok := r.topology(n); ok {
			all = append(all, t)
		}
	}
	return all
}

// syntax takes the line out of the parser's text, which alone has it.
func (r *reader) syntax(err error) {
	what := strings.TrimPrefix(err.Error(), "yaml: ")
	at := slurmconf.Position{File: r.file.Name}
	if rest, ok := strings.CutPrefix(what, "line "); ok {
		number, problem, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil {
			at.Line, what = n, problem
		}
	}
	r.findings = append(r.findings, slurmconf.Finding{Position: at, Severity: slurmconf.Error, Rule: "syntax", What: what, Want: "YAML"})
}

func (r *reader) topology(n *yaml.Node) (Topology, bool) {
	fields := r.fields(n, "a topology")
	if fields == nil {
		return Topology{}, false
	}
	t := Topology{Name: r.text(fields["topology"], "the topology's name"), From: r.at(n)}
	if d := fields["cluster_default"]; d != nil {
		t.Default = strings.EqualFold(r.text(d, "cluster_default"), "true")
	}
	for _, name := range slices.Sorted(maps.Keys(plugins)) {
		p, body := plugins[name], fields[name]
		if body == nil || !r.defines(body, name) {
			continue
		}
		if t.Plugin != "" {
			r.note(body, "topology "+t.Name+" is of several kinds", "one of "+kinds())
			return t, false
		}
		t.Plugin = name
		if p.groups == "" { // flat: true, or options
			if body.Kind == yaml.SequenceNode {
				r.unexpected(body, name, "true, or options")
			}
			continue
		}
		t.Groups = r.groups(body, p.groups, p.name)
		if name == "block" && body.Kind == yaml.MappingNode {
			if sizes := r.fields(body, name)["block_sizes"]; sizes != nil {
				t.BlockSizes = r.list(sizes)
			}
		}
	}
	if t.Plugin == "" {
		r.note(n, strings.TrimSuffix("topology "+t.Name, " ")+" is of no kind", "one of "+kinds())
	}
	return t, t.Plugin != ""
}

// defines: an empty mapping and flat: false say nothing.
func (r *reader) defines(body *yaml.Node, name string) bool {
	if name == "flat" && body.Kind == yaml.ScalarNode {
		return !slices.Contains([]string{"", "~", "null", "false", "no", "off", "0"}, strings.ToLower(body.Value))
	}
	return body.Kind != yaml.MappingNode || len(body.Content) > 0 || name == "flat"
}

// kinds is the names of all plugins.
func kinds() string {
	return strings.Join(slices.Sorted(maps.Keys(plugins)), ", ")
}

// groups are the switches and so on of a topology.
func (r *reader) groups(body *yaml.Node, key, name string) []Group {
	fields := r.fields(body, "a topology's definition")
	if fields == nil {
		return nil
	}
	if fields[key] == nil || fields[key].Kind == yaml.SequenceNode && len(fields[key].Content) == 0 {
		r.note(body, "the topology has no "+key, "a list of them")
		return nil
	}
	var groups []Group
	for _, n := range r.oneOrMore(fields[key], key) {
		of := r.fields(n, "a "+name)
		if of == nil {
			continue
		}
		g := Group{
			Name: r.text(of[name], "a "+name), Nodes: r.text(of["nodes"], "nodes"),
			Children: r.text(of["children"], "children"), From: r.at(n),
		}
		if of[name] == nil {
			r.note(n, "a "+name+" has no name", name+": and its name")
		}
		if dims := of["dims"]; dims != nil {
			sides := r.fields(dims, "dims")
			for i, side := range []string{"x", "y", "z"} {
				g.Dims[i], _ = strconv.Atoi(r.text(sides[side], side))
			}
		}
		g.Regions = of["regions"] != nil
		groups = append(groups, g)
	}
	return groups
}

// fields is a mapping, nil for anything else.
func (r *reader) fields(n *yaml.Node, what string) map[string]*yaml.Node {
	if n.Kind != yaml.MappingNode {
		r.unexpected(n, what, "keys and values")
		return nil
	}
	fields := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		fields[n.Content[i].Value] = n.Content[i+1]
	}
	return fields
}

// oneOrMore is a sequence, or a mapping in the place of a sequence of one.
func (r *reader) oneOrMore(n *yaml.Node, what string) []*yaml.Node {
	switch n.Kind {
	case yaml.SequenceNode:
		return n.Content
	case yaml.MappingNode:
		return []*yaml.Node{n}
	}
	r.unexpected(n, what, "a list")
	return nil
}

// text is a scalar.
func (r *reader) text(n *yaml.Node, what string) string {
	if n == nil {
		return ""
	}
	if n.Kind != yaml.ScalarNode {
		r.unexpected(n, what, "a text")
		return ""
	}
	return n.Value
}

// list is a scalar, or a list of them with commas.
func (r *reader) list(n *yaml.Node) string {
	if n.Kind != yaml.SequenceNode {
		return r.text(n, "block_sizes")
	}
	var parts []string
	for _, one := range n.Content {
		parts = append(parts, r.text(one, "block_sizes"))
	}
	return strings.Join(parts, ",")
}

// unexpected notes what is not what Slurm wants here.
func (r *reader) unexpected(n *yaml.Node, what, want string) {
	switch n.Kind {
	case yaml.AliasNode:
		r.note(n, "*"+n.Value+" is an alias, and Slurm reads none", "what it stands for")
	case yaml.SequenceNode:
		r.note(n, what+" is a list", want)
	case yaml.MappingNode:
		r.note(n, what+" has keys and values", want)
	default:
		r.note(n, fmt.Sprintf("%s is %q", what, n.Value), want)
	}
}

func (r *reader) at(n *yaml.Node) slurmconf.Position {
	return slurmconf.Position{File: r.file.Name, Line: n.Line, Column: n.Column}
}

func (r *reader) note(n *yaml.Node, what, want string) {
	r.findings = append(r.findings, slurmconf.Finding{
		Position: r.at(n), Severity: slurmconf.Error, Rule: "topology",
		What: what, Want: want,
	})
}
