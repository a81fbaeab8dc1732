package inject

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Operation is one of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Patch says how the API server makes after of before. It names nothing but what is different,
// because the pod may have fields that this program's Kubernetes does not know yet.
func Patch(before, after *corev1.Pod) ([]Operation, error) {
	from, err := plain(before)
	if err != nil {
		return nil, err
	}
	to, err := plain(after)
	if err != nil {
		return nil, err
	}
	return difference("", from, to), nil
}

// plain is what JSON makes of the pod.
func plain(pod *corev1.Pod) (value any, err error) {
	text, err := json.Marshal(pod)
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot write the pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return value, nil
}

// difference knows what an injection does: it adds and changes members of objects, puts elements
// before or behind those of an array, takes some away, and changes some in their places.
func difference(path string, from, to any) []Operation {
	if reflect.DeepEqual(from, to) {
		return nil
	}
	switch to := to.(type) {
	case map[string]any:
		if from, both := from.(map[string]any); both {
			return members(path, from, to)
		}
	case []any:
		if from, both := from.([]any); both && objects(from) {
			return elements(path, from, to)
		}
	}
	return []Operation{{Op: "replace", Path: path, Value: to}}
}

func objects(array []any) bool {
	return !slices.ContainsFunc(array, func(element any) bool { _, object := element.(map[string]any); return !object })
}

func members(path string, from, to map[string]any) (all []Operation) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if _, stays := to[name]; !stays {
			all = append(all, Operation{Op: "remove", Path: path + "/" + escaped(name)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(to)) {
		at := path + "/" + escaped(name)
		if was, there := from[name]; there {
			all = append(all, difference(at, was, to[name])...)
		} else {
			all = append(all, Operation{Op: "add", Path: at, Value: to[name]})
		}
	}
	return all
}

func elements(path string, from, to []any) (all []Operation) {
	more := len(to) - len(from)
	switch {
	case more >= 0 && reflect.DeepEqual(from, to[more:]):
		for n, element := range to[:more] {
			all = append(all, Operation{Op: "add", Path: fmt.Sprintf("%s/%d", path, n), Value: element})
		}
	case more >= 0:
		for n := range from {
			all = append(all, difference(fmt.Sprintf("%s/%d", path, n), from[n], to[n])...)
		}
		for _, element := range to[len(from):] {
			all = append(all, Operation{Op: "add", Path: path + "/-", Value: element})
		}
	default:
		gone, whole := missed(from, to)
		if !whole {
			return []Operation{{Op: "replace", Path: path, Value: to}}
		}
		for _, n := range slices.Backward(gone) {
			all = append(all, Operation{Op: "remove", Path: fmt.Sprintf("%s/%d", path, n)})
		}
	}
	return all
}

// missed are the indices of from's elements that to leaves out. whole says that to has no others, in this order.
func missed(from, to []any) (gone []int, whole bool) {
	for n, element := range from {
		if len(to) > 0 && reflect.DeepEqual(element, to[0]) {
			to = to[1:]
		} else {
			gone = append(gone, n)
		}
	}
	return gone, len(to) == 0
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// escaped is a member's name in a JSON pointer (RFC 6901).
func escaped(name string) string { return pointer.Replace(name) }
