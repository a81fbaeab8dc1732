package check

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// TestPlugstack: what Slurm takes, and what then has a job in a container run on the node's own root, or not at all.
func TestPlugstack(t *testing.T) {
	for stack, want := range map[string]string{
		"required spank_slurmlet.so writable=1":                            "",
		"optional lua.so\nrequired /usr/lib/slurm/spank_pyxis.so":          "",
		"optional spank_slurmlet.so":                                       "1:10: warning: spank_slurmlet.so is optional",
		"required spank_slurmlet.so\nrequired /opt/spank_pyxis.so store=x": "2:10: warning: spank_pyxis.so and spank_slurmlet.so",
	} {
		files := fstest.MapFS{
			"etc/slurm/slurm.conf":     {Data: []byte("ClusterName=t\nSlurmctldHost=ctl\nNodeName=n\nPartitionName=p Nodes=n\n")},
			"etc/slurm/plugstack.conf": {Data: []byte(stack + "\n")},
		}
		set, _ := slurmconf.Read(slurmconf.In(files, "/etc/slurm"))
		findings, err := Set(set, Options{})
		require.NoError(t, err)
		var said []string
		for _, f := range findings {
			if f.Rule == "plugstack" {
				said = append(said, fmt.Sprintf("%s: %s: %s", f.Position, f.Severity, f.What))
			}
		}
		if want == "" {
			assert.Empty(t, said, stack)
		} else if assert.Len(t, said, 1, stack) {
			assert.Contains(t, said[0], want)
		}
	}
}
