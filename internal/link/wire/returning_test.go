package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReturningOf: which names a StatefulSet gives its pods.
func TestReturningOf(t *testing.T) {
	r := &Returning{StatefulSets: []StatefulSet{{"a", 0, 2}, {"a-1", 5, 2}, {"none", 0, 0}}}
	for node, set := range map[string]string{
		"a-0": "StatefulSet a", "a-1": "StatefulSet a", "a-1-5": "StatefulSet a-1", "a-1-6": "StatefulSet a-1",
		"a-2": "", "a-1-4": "", "a-1-7": "", "a-01": "", "a-+1": "", "a--1": "", "a": "", "-0": "", "a-": "", "none-0": "", "b-0": "",
		"a-0x": "", "a-99999999999999999999": "", strings.Repeat("a", 70) + "-0": "",
	} {
		assert.Equal(t, set, r.Of(node), node)
	}
	assert.Empty(t, (*Returning)(nil).Of("a-0"))
	assert.Error(t, (&Returning{StatefulSets: make([]StatefulSet, mostSets+1)}).Check())
}

// FuzzReturning: whatever a controller tells, a node has at most the workload whose name it begins with.
func FuzzReturning(f *testing.F) {
	f.Add([]byte(`{"statefulSets":[{"name":"a","first":1,"replicas":2}]}`), "a-1")
	f.Add([]byte(`{"statefulSets":[{"name":"a","first":2147483647,"replicas":2147483647}]}`), "a-4294967294")
	f.Fuzz(func(t *testing.T, text []byte, node string) {
		var r Returning
		if json.Unmarshal(text, &r) != nil || r.Check() != nil {
			return
		}
		if set := r.Of(node); set != "" {
			require.True(t, strings.HasPrefix(node, strings.TrimPrefix(set, "StatefulSet ")+"-"), "%s of %s", node, set)
		}
	})
}
