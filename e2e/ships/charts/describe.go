package charts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// described is a schema in which each value has the comment that values.yaml has above it, as its description. Editors
// and `helm show` tell it. What several components share has the comment that comes first.
func described(schema []byte, values []value) (string, error) {
	var doc yaml.Node // JSON is YAML, and a Node keeps the order of keys
	if err := yaml.Unmarshal(schema, &doc); err != nil {
		return "", fmt.Errorf("cannot read the schema: %w", err)
	}
	root := doc.Content[0]
	undescribe(root, false)
	for _, v := range values {
		at := root
		for part := range strings.SplitSeq(v.path, ".") {
			if at = property(root, at, part); at == nil {
				break
			}
		}
		if at != nil && v.about != "" && member(at, "description") == nil {
			at.Content = append([]*yaml.Node{text("description"), text(v.about)}, at.Content...)
		}
	}
	var b bytes.Buffer
	if err := writeJSON(&b, root, ""); err != nil {
		return "", err
	}
	return b.String() + "\n", nil
}

func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

// undescribe takes the descriptions away. A property may have that name.
func undescribe(n *yaml.Node, names bool) {
	if n.Kind == yaml.MappingNode {
		var kept []*yaml.Node
		for i := 0; i < len(n.Content); i += 2 {
			if names || n.Content[i].Value != "description" {
				kept = append(kept, n.Content[i], n.Content[i+1])
			}
			undescribe(n.Content[i+1], !names && (n.Content[i].Value == "properties" || n.Content[i].Value == "$defs"))
		}
		n.Content = kept
		return
	}
	for _, inner := range n.Content {
		undescribe(inner, false)
	}
}

// member is the value of a key, nil for none.
func member(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n != nil && n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// property is the schema of a property, in a schema or in what that refers to; nil for none.
func property(root, in *yaml.Node, name string) *yaml.Node {
	if ref := member(in, "$ref"); ref != nil {
		in = member(member(root, "$defs"), strings.TrimPrefix(ref.Value, "#/$defs/"))
	}
	if found := member(member(in, "properties"), name); found != nil {
		return found
	}
	if all := member(in, "allOf"); all != nil {
		for _, part := range all.Content {
			if found := property(root, part, name); found != nil {
				return found
			}
		}
	}
	return nil
}

// writeJSON writes what was read from JSON, with two blanks for each depth.
func writeJSON(b *bytes.Buffer, n *yaml.Node, indent string) error {
	if n.Kind == yaml.ScalarNode {
		if n.Tag != "!!str" {
			b.WriteString(n.Value)
			return nil
		}
		encoder := json.NewEncoder(b)
		encoder.SetEscapeHTML(false)
		err := encoder.Encode(n.Value)
		b.Truncate(b.Len() - 1) // the line's end
		return err
	}
	begin, end, step := "{", "}", 2
	if n.Kind == yaml.SequenceNode {
		begin, end, step = "[", "]", 1
	}
	b.WriteString(begin)
	for i := 0; i < len(n.Content); i += step {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n" + indent + "  ")
		if step == 2 {
			if err := writeJSON(b, n.Content[i], ""); err != nil {
				return err
			}
			b.WriteString(": ")
		}
		if err := writeJSON(b, n.Content[i+step-1], indent+"  "); err != nil {
			return err
		}
	}
	if len(n.Content) > 0 {
		b.WriteString("\n" + indent)
	}
	b.WriteString(end)
	return nil
}
