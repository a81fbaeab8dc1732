package reconfig

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// TestWithLive: scripts of a set that is not live yet are looked for where they will be.
func TestWithLive(t *testing.T) {
	machine := fstest.MapFS{"run/slurmlet/conf/old": {}, "run/slurmlet/conf.1/epilogs/1": {}, "run/slurmlet/config": {}, "opt/prolog": {}}
	live := withLive{machine, "run/slurmlet/conf", "run/slurmlet/conf.1"}
	for pattern, want := range map[string]int{"run/slurmlet/conf/epilogs/*": 1, "run/slurmlet/conf/epilogs/1": 1, "run/slurmlet/conf/old": 0, "run/slurmlet/config": 1, "opt/prolog": 1, "opt/epilog": 0} {
		found, err := fs.Glob(live, pattern)
		require.NoError(t, err)
		require.Len(t, found, want, pattern)
	}
}
