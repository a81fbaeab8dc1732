// Package namespaces bounds the controller to the namespaces that may have clusters.
package namespaces

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Set is every namespace, or some. The zero Set is every one.
type Set struct{ names []string }

// all is the word for every namespace.
const all = "all"

// Of is the Set of these names; every namespace, if there are none.
func Of(names ...string) Set { return Set{slices.Compact(slices.Sorted(slices.Values(names)))} }

// Parse takes "all", or names separated by commas.
func Parse(value string) (Set, error) {
	if value == all {
		return Set{}, nil
	}
	names := strings.Split(value, ",")
	for _, name := range names {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return Set{}, fmt.Errorf("want all, or namespaces separated by commas, not %q", value)
		}
	}
	return Of(names...), nil
}

// All says whether the Set is every namespace.
func (s Set) All() bool { return len(s.names) == 0 }

// Has says whether a namespace is in the Set.
func (s Set) Has(name string) bool {
	_, found := slices.BinarySearch(s.names, name)
	return found || s.All()
}

// Lacks are the names of another Set that this one has not. Every namespace has no names.
func (s Set) Lacks(other Set) []string {
	return slices.DeleteFunc(slices.Clone(other.names), s.Has)
}

// Names are those of the Set in their order, or metav1.NamespaceAll alone.
func (s Set) Names() []string {
	if s.All() {
		return []string{metav1.NamespaceAll}
	}
	return slices.Clone(s.names)
}

// String is what Parse takes.
func (s Set) String() string {
	if s.All() {
		return all
	}
	return strings.Join(s.names, ",")
}
