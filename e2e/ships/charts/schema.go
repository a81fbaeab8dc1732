package charts

import (
	"maps"
	"slices"
	"strings"
)

// node is a JSON schema, or a part of one.
type node = map[string]any

// leaves lists the paths of all values that a schema allows and that are not
// objects of named properties themselves. A map with free keys is a leaf. What
// every pod has is listed under podDefaults, and a node set's under nodeDefaults.
func leaves(schema node) []string {
	definitions, _ := schema["$defs"].(node)
	s := schemaWalk{definitions: definitions, found: map[string]bool{}}
	s.walk(schema, "")
	return slices.Sorted(maps.Keys(s.found))
}

type schemaWalk struct {
	definitions node
	found       map[string]bool
}

func (s schemaWalk) walk(schema node, path string) {
	schema = s.resolve(schema)
	properties, _ := schema["properties"].(node)
	for name, property := range properties {
		s.walk(property.(node), strings.TrimPrefix(path+"."+name, "."))
	}
	if all, ok := schema["allOf"].([]any); ok {
		for _, part := range all {
			s.walk(part.(node), podDefaults)
		}
	}
	if len(properties) == 0 && schema["allOf"] == nil {
		s.found[path] = true
	}
}

func (s schemaWalk) resolve(schema node) node {
	ref, ok := schema["$ref"].(string)
	if !ok {
		return schema
	}
	return s.definitions[strings.TrimPrefix(ref, "#/$defs/")].(node)
}

const (
	podDefaults  = "podDefaults"
	nodeDefaults = "nodeDefaults"
)

// used lists the leaves that values set, of those that there are.
func used(values node, known []string) []string {
	paths := map[string]bool{}
	mark(values, "", paths)
	found := map[string]bool{}
	for path := range paths {
		if leaf, ok := leafOf(path, known); ok {
			found[leaf] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// mark notes the path of everything in values, of maps too.
func mark(values node, path string, paths map[string]bool) {
	for name, v := range values {
		here := strings.TrimPrefix(path+"."+name, ".")
		paths[here] = true
		if inner, ok := v.(node); ok {
			mark(inner, here, paths)
		}
	}
}

// leafOf finds the leaf for a path in a component or a node set.
func leafOf(path string, known []string) (string, bool) {
	first, rest, _ := strings.Cut(path, ".")
	candidates := []string{path, podDefaults + "." + rest}
	if first == "nodeSets" {
		_, rest, _ = strings.Cut(rest, ".")
		candidates = append(candidates, nodeDefaults+"."+rest, podDefaults+"."+rest)
	}
	for _, c := range candidates {
		if slices.Contains(known, c) {
			return c, true
		}
	}
	return "", false
}
