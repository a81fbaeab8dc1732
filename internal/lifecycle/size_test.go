package lifecycle

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// TestStatesAreSmall: a reader keeps a machine's state in mind. What it embeds of this wing counts field by field.
func TestStatesAreSmall(t *testing.T) {
	const most = 45
	for _, state := range []any{supervisor.State{}, node.State{}, conf.State{}} {
		require.LessOrEqual(t, values(reflect.TypeOf(state)), most, "%T", state)
	}
}

// values counts a struct's fields, and those of the wing's structs in their place.
func values(t reflect.Type) int {
	if t.Kind() != reflect.Struct || !strings.Contains(t.PkgPath(), "internal/lifecycle") {
		return 1
	}
	n := 0
	for f := range t.Fields() {
		n += values(f.Type)
	}
	return n
}
