package wellknown

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestAll: each key and event is described, and there once.
func TestAll(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range All {
		assert.False(t, seen[k.Name+string(k.What)], k.Name)
		seen[k.Name+string(k.What)] = true
		for _, text := range []string{k.Name, string(k.What), k.On, k.By, k.Value, k.Meaning} {
			assert.NotEmpty(t, text, k.Name)
			assert.False(t, strings.HasSuffix(text, "."), "%s: %q ends a sentence", k.Name, text)
		}
	}
	for _, e := range Events {
		assert.False(t, seen[e.Reason], e.Reason)
		seen[e.Reason] = true
		assert.Contains(t, []string{"Normal", "Warning"}, e.Type, e.Reason)
		assert.NotEmpty(t, e.On, e.Reason)
		assert.NotEmpty(t, e.Meaning, e.Reason)
	}
}
