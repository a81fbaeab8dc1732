package slurmdbd

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSchemaOf(t *testing.T) {
	for line, want := range map[string]int{"23.11": 0, "24.11": 0, "25.05": 1, "25.11": 1, "26.05": 2, "26.11": 3} {
		assert.Equal(t, want, schemaOf(line), line)
	}
}
