package reconfig

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// TestProbableLine: the complaints are Slurm's, of 24.11.5 and 26.05.5.
func TestProbableLine(t *testing.T) {
	dir := t.TempDir()
	const text = "ClusterName=c\nMaxNodeCount=lots\nReturnToService=maybe\nSelectTypeParameters=CR_Nonsense\nAuthType=auth/nosuch\n" +
		"Foo=bar\nPartitionName=all Nodes=ALL\nPartitionName=x Nodes=nosuch State=SOON\n" +
		"Licenses=foo:bar:1:2\nPartitionName=q Nodes=ALL TRESBillingWeights=foo=1\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte(text), 0o644))
	set, err := confset.Read([]string{dir})
	require.NoError(t, err)
	conf, _ := slurmconf.Read(slurmconf.Dir(dir))
	for said, line := range map[string]string{
		"_parse_next_key: Parsing error at unrecognized key: Foo; Unable to process configuration file":         ":6: ",
		"MaxNodeCount value (lots) is not a valid number; Unable to process configuration file":                 ":2: ",
		`ReturnToService value "maybe" is not a valid number; Unable to process configuration file`:             ":3: ",
		"Bad SelectTypeParameter: CR_Nonsense; Unable to process configuration file":                            ":4: ",
		"Couldn't find the specified plugin name for auth/nosuch looking at all files; cannot find auth plugin": ":5: ",
		`Bad value "SOON" for State; Unable to process configuration file`:                                      ":8: ",
		"Invalid configured licenses: foo:bar:1:2":                                                              ":9: ",
		"TRES weight 'foo' is not a configured TRES type.; failed to parse tres weights str 'foo=1'":            ":10: ",
		"Invalid node names in partition x":                                                                     ":8: ",
	} {
		require.Equal(t, filepath.Join(dir, "slurm.conf")+line, probableLine(conf, set, said), said)
	}
	require.Empty(t, probableLine(conf, set, "Unspecified error"))
}
