package reconfig

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
	confcheck "github.com/slurmlet/slurmlet/slurmconf/check"
)

// TestProbableLine: the complaints are Slurm's, of 24.11.5 and 26.05.5.
func TestProbableLine(t *testing.T) {
	dir := t.TempDir()
	const text = "ClusterName=c\nMaxNodeCount=lots\nReturnToService=maybe\nSelectTypeParameters=CR_Nonsense\nAuthType=auth/nosuch\n" +
		"Foo=bar\nPartitionName=all Nodes=ALL\nPartitionName=x Nodes=nosuch State=SOON\n" +
		"Licenses=foo:bar:1:2\nPartitionName=q Nodes=ALL TRESBillingWeights=foo=1\nPartitionName=r Nodes=ALL Topology=racks\n"
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

// TestLineOfWhatNobodyWrote: Slurm's complaint names nothing that stands in the files.
func TestLineOfWhatNobodyWrote(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"slurm.conf":    "ClusterName=c\nPartitionName=all Nodes=ALL\nPartitionName=r Nodes=ALL Topology=racks\n",
		"topology.conf": "SwitchName=sw12345678901234567890123 Nodes=n1\nSwitchName=root Switches=sw12345678901234567890123\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	set, err := confset.Read([]string{dir})
	require.NoError(t, err)
	conf, _ := slurmconf.Read(slurmconf.Dir(dir))
	for said, line := range map[string]string{
		"Invalid partition topology; read_slurm_conf reading /etc/slurm/slurm.conf: Requested topology configuration is not available": "slurm.conf:3: ",
		"Switch configuration root has invalid child (sw00018446744073709551615)":                                                      "topology.conf:2: ",
	} {
		require.Equal(t, filepath.Join(dir, line), probableLine(conf, set, said), said)
	}
}

func TestWhatEndsWithoutAWord(t *testing.T) {
	err := errors.New("slurm_reconfigure error: Unspecified error")
	require.EqualError(t, wordless(err, []string{"changed: topology.yaml:1"}),
		"slurmctld's new process has said nothing fatal, as if a signal had ended it (slurm_reconfigure error: Unspecified error); changed: topology.yaml:1")
	require.Equal(t, err, wordless(err, nil))
	other := errors.New("slurm_reconfigure error: Access/permission denied")
	require.Equal(t, other, wordless(other, []string{"x"}))
}

// TestRefusalsOfTopologies: edits over which slurmctld 26.05 ends by a signal, or of which it names
// what nobody wrote, are refused with their lines.
func TestRefusalsOfTopologies(t *testing.T) {
	const conf = "ClusterName=c\nSlurmctldHost=h\nNodeName=n1\nPartitionName=p Nodes=ALL"
	for want, files := range map[string]map[string]string{
		"topology.yaml:1:1: error: the list of topologies is empty, over which slurmctld ends by a signal": {
			"slurm.conf": conf + "\n", "topology.yaml": "[]\n",
		},
		"topology.conf:2:26: error: SwitchName root has sw12345678901234567890123 below it, of whose number Slurm makes 18446744073709551615": {
			"slurm.conf": conf + "\nTopologyPlugin=topology/tree\n", "topology.conf": "SwitchName=sw12345678901234567890123 Nodes=n1\nSwitchName=root Switches=sw12345678901234567890123\n",
		},
		"slurm.conf:4:36: error: partition p has Topology=racks, which is none": {"slurm.conf": conf + " Topology=racks\n"},
	} {
		dir := t.TempDir()
		for name, text := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		set, _ := slurmconf.Read(slurmconf.Dir(dir), ofSlurmctld...)
		findings, err := confcheck.Set(set, confcheck.Options{Version: "26.05"})
		require.NoError(t, err)
		require.ErrorContains(t, findings.Err(), want)
	}
}
