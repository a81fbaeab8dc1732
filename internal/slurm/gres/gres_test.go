package gres

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestDiffers compares what was registered with what slurmctld's record says.
func TestDiffers(t *testing.T) {
	for _, c := range []struct {
		registered, record string
		types              []string
		want               bool
	}{
		{"gpu:h200:2", "gpu:h200:2", nil, false},
		{"gpu:h200:2", "gpu:h200:2(S:0-1)", nil, false},
		{"gpu:h200:2", "gpu:h200:2(S:0,2),shmem:1", nil, false},
		{"gpu:H200:2", "gpu:h200:2", nil, false},
		{"gpu:h200:2", "gpu:h200:1", nil, true},
		{"gpu:h200:2", "gpu:a100:2", nil, true},
		{"gpu:h200:2", "gpu:2", nil, true},
		{"gpu:h200:2", "", nil, true},
		{"", "gpu:1", nil, true},
		{"", "", nil, false},
		{"", "shmem:1", nil, false},
		{"gpu:2,shard:2048", "gpu:2,shard:2K", nil, false},
		{"gpu:2,mps:300", "gpu:2,mps:no_consume:300", nil, false},
		{"gpu:2", "", []string{}, false},
		{"gpu:2,shmem:1", "shmem:1", []string{"shmem"}, false},
		{"gpu:2,shmem:1", "", []string{"shmem"}, true},
	} {
		registered := Recorded(c.registered)
		assert.Equal(t, c.want, registered.Differs(Recorded(c.record), c.types), "%+v", c)
	}
}
