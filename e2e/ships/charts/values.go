package charts

import (
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is one value of values.yaml, or a section of them that has a comment of its own.
type value struct {
	path    string // as in controller.persistence.size
	given   string // its default, as YAML in one line; a section has none
	about   string // the comment above it
	section bool   // a map of further values, which follow
}

// readValues returns a chart's values and sections in their order. Where a map has no comment
// on any of its keys, as {cpu: {replicas: 2}} has none, the map is the value.
func readValues(file string) ([]value, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the chart's values: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	}
	return collect(doc.Content[0], "")
}

func collect(m *yaml.Node, prefix string) ([]value, error) {
	var all []value
	for i := 0; i < len(m.Content); i += 2 {
		key, content := m.Content[i], m.Content[i+1]
		path := prefix + key.Value
		if explained(content) {
			if about := comment(key); about != "" {
				all = append(all, value{path: path, about: about, section: true})
			}
			inner, err := collect(content, path+".")
			if err != nil {
				return nil, err
			}
			all = append(all, inner...)
			continue
		}
		given, err := inline(content)
		if err != nil {
			return nil, fmt.Errorf("cannot write %s: %w", path, err)
		}
		all = append(all, value{path: path, given: given, about: comment(key)})
	}
	return all, nil
}

// explained says whether a key somewhere in n has a comment.
func explained(n *yaml.Node) bool {
	if n.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i < len(n.Content); i += 2 {
		if comment(n.Content[i]) != "" || explained(n.Content[i+1]) {
			return true
		}
	}
	return false
}

func comment(key *yaml.Node) string {
	lines := strings.Split(key.HeadComment, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(line, "#"))
	}
	return strings.Join(lines, " ")
}

func inline(n *yaml.Node) (string, error) {
	n = plain(n)
	data, err := yaml.Marshal(n)
	return strings.TrimSpace(string(data)), err
}

// plain is n in one line and without its comments.
func plain(n *yaml.Node) *yaml.Node {
	c := *n
	c.HeadComment, c.LineComment, c.FootComment = "", "", ""
	if c.Kind != yaml.ScalarNode {
		c.Style = yaml.FlowStyle
	}
	c.Content = nil
	for _, inner := range n.Content {
		c.Content = append(c.Content, plain(inner))
	}
	return &c
}
