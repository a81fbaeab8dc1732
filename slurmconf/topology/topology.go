// Package topology reads topology.yaml(5), which Slurm knows since 25.05.
//
// It is apart from slurmconf, because the YAML parser costs the start of each
// program that links it 0.2 ms. The parser is go.yaml.in/yaml/v3, which the YAML
// organization keeps: it bounds nesting and its time is linear. Of the others,
// github.com/goccy/go-yaml has better positions, and takes seconds for 10 kB of
// brackets.
package topology

import (
	"fmt"
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
	From   slurmconf.Position
}

// Group is a switch, a block, a ring or a torus.
type Group struct {
	Name string
	// Nodes is a hostlist of nodes, Children one of switches.
	Nodes, Children string
	From            slurmconf.Position
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

// Parse reads the text of topology.yaml. What it cannot read it leaves out, and
// it tells of everything that it left out.
func Parse(f *slurmconf.File) ([]Topology, slurmconf.Findings) {
	r := reader{file: f}
	return r.topologies(), r.findings
}

type reader struct {
	file     *slurmconf.File
	findings slurmconf.Findings
}

// topologies is the list that the document is.
func (r *reader) topologies() []Topology {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(r.file.String()), &document); err != nil {
		r.syntax(err)
		return nil
	}
	if len(document.Content) == 0 {
		return nil
	}
	var all []Topology
	for _, n := range r.list(document.Content[0], "topologies") {
		if t, ok := r.topology(n); ok {
			all = append(all, t)
		}
	}
	return all
}

// syntax: the parser tells the line in its text only.
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
	t := Topology{Name: r.text(fields["topology"]), From: r.at(n)}
	if fields == nil {
		return t, false
	}
	if t.Name == "" {
		r.note(n, "a topology has no name", "topology: and its name")
	}
	if d := fields["cluster_default"]; d != nil {
		t.Default = strings.EqualFold(d.Value, "true")
	}
	for name, p := range plugins {
		if body := fields[name]; body != nil {
			if t.Plugin != "" {
				r.note(body, "topology "+t.Name+" is of several kinds", "one of "+kinds())
			}
			t.Plugin, t.Groups = name, r.groups(body, p.groups, p.name)
		}
	}
	if t.Plugin == "" {
		r.note(n, "topology "+t.Name+" is of no kind", "one of "+kinds())
	}
	return t, true
}

// kinds is the names of all plugins.
func kinds() string {
	var names []string
	for name := range plugins {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// groups are the switches and so on of a topology.
func (r *reader) groups(body *yaml.Node, key, name string) []Group {
	if key == "" {
		return nil // flat: true, or options
	}
	fields := r.fields(body, "a topology's definition")
	if fields[key] == nil {
		if fields != nil {
			r.note(body, "the topology has no "+key, "a list of them")
		}
		return nil
	}
	var groups []Group
	for _, n := range r.list(fields[key], key) {
		of := r.fields(n, "a "+name)
		if of == nil {
			continue
		}
		g := Group{r.text(of[name]), r.text(of["nodes"]), r.text(of["children"]), r.at(n)}
		if g.Name == "" {
			r.note(n, "a "+name+" has no name", name+": and its name")
		}
		groups = append(groups, g)
	}
	return groups
}

// fields is a mapping, nil for anything else.
func (r *reader) fields(n *yaml.Node, what string) map[string]*yaml.Node {
	n = resolved(n)
	if n.Kind != yaml.MappingNode {
		r.note(n, fmt.Sprintf("%s is %q", what, n.Value), "keys and values")
		return nil
	}
	fields := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		fields[n.Content[i].Value] = n.Content[i+1]
	}
	return fields
}

// list is a sequence, nil for anything else.
func (r *reader) list(n *yaml.Node, what string) []*yaml.Node {
	n = resolved(n)
	if n.Kind != yaml.SequenceNode {
		r.note(n, fmt.Sprintf("%s is %q", what, n.Value), "a list")
		return nil
	}
	return n.Content
}

// text is a scalar, or a list of them as Slurm joins them.
func (r *reader) text(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	n = resolved(n)
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Value
	case yaml.SequenceNode:
		var parts []string
		for _, one := range n.Content {
			parts = append(parts, resolved(one).Value)
		}
		return strings.Join(parts, ",")
	}
	r.note(n, "there are keys and values", "a text")
	return ""
}

// resolved follows an alias. The parser lets none contain itself.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (r *reader) at(n *yaml.Node) slurmconf.Position {
	return slurmconf.Position{File: r.file.Name, Line: n.Line, Column: n.Column}
}

func (r *reader) note(n *yaml.Node, what, want string) {
	r.findings = append(r.findings, slurmconf.Finding{Position: r.at(n), Severity: slurmconf.Error, Rule: "topology", What: what, Want: want})
}
