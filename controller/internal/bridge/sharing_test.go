package bridge

import (
	"testing"
	"unique"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/internal/kit/role"
)

func TestSetsOf(t *testing.T) {
	pod := func(set string, r role.Role, together, over bool) *pods.Pod {
		return &pods.Pod{NodeSet: unique.Make(set), Role: unique.Make(r), Together: together, Over: over}
	}
	assert.Equal(t, map[string]bool{"shared": true, "own": false, "updating": false, "updated": false}, setsOf([]*pods.Pod{
		pod("shared", role.Slurmd, true, false), pod("shared", role.Slurmd, true, false), pod("shared", role.Slurmd, false, true),
		pod("own", role.Slurmd, false, false),
		pod("updating", role.Slurmd, true, false), pod("updating", role.Slurmd, false, false),
		pod("updated", role.Slurmd, false, false), pod("updated", role.Slurmd, true, false),
		pod("", role.Slurmctld, true, false),
	}))
}
