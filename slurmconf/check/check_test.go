package check

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/check/cases"
	"github.com/slurmlet/slurmlet/slurmconf/keys"
)

var update = flag.Bool("update", false, "write what is found to testdata")

// A case is judged as Slurm judges it, which "make oracle" has asked, and the words
// are those that are noted.
func TestCases(t *testing.T) {
	topics, err := cases.Read("testdata")
	require.NoError(t, err)
	for _, topic := range topics {
		for _, c := range topic.Cases {
			t.Run(strings.TrimSuffix(filepath.Base(topic.Path), ".txt")+"/"+c.Name, func(t *testing.T) { judge(t, c) })
		}
		if *update {
			require.NoError(t, topic.Write())
		}
		written, err := os.ReadFile(topic.Path)
		require.NoError(t, err)
		assert.Equal(t, topic.String(), string(written), "-update brings it into its order")
	}
}

func judge(t *testing.T, c *cases.Case) {
	files := fstest.MapFS{}
	for name, text := range c.Files {
		file := &fstest.MapFile{Data: []byte(text)}
		if dir, isDir := strings.CutSuffix(name, "/"); isDir {
			name, file.Mode = dir, fs.ModeDir
		}
		files["etc/slurm/"+name] = file
	}
	texts := map[string]string{}
	for _, version := range cases.Versions {
		var kinds []slurmconf.Kind
		if c.Daemon == "slurmdbd" {
			kinds = []slurmconf.Kind{slurmconf.SlurmdbdConf}
		}
		set, findings := slurmconf.Read(slurmconf.In(files, "/etc/slurm"), kinds...)
		more, err := Set(set, Options{Version: version})
		require.NoError(t, err)
		findings = append(findings, more...)
		findings.Sort()
		if texts[version] = findings.Error(); findings != nil {
			texts[version] += "\n"
		}
		if !*update {
			assert.Equal(t, c.Finds(version), texts[version], version)
		}
		if says, ok := c.Says(version); assert.True(t, ok, "nobody has asked Slurm") && c.Because() == "" {
			assert.Equal(t, says.Refused, findings.Err() != nil, "%s: Slurm says %s", version, says.Says)
			assert.False(t, says.Says != "" && len(findings) == 0, "%s: Slurm says %s", version, says.Says)
		}
	}
	if *update {
		c.SetFinds(texts)
	}
}

// What Slurm's own parser has read is not refused.
func TestCorpus(t *testing.T) {
	for _, dir := range directories(t, "../testdata/*") {
		set, _ := slurmconf.Read(slurmconf.Dir(dir))
		findings, err := Set(set, Options{Version: "26.05"})
		require.NoError(t, err)
		assert.NoError(t, findings.Err(), dir)
	}
}

func directories(t *testing.T, pattern string) []string {
	dirs, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	return dirs
}

func TestVersions(t *testing.T) {
	set := setOf("PrologTimeout=5\nFrontendName=f\nMetricsType=metrics/openmetrics\n")
	for version, want := range map[string]string{
		"24.11": "slurm.conf:3: error: PrologTimeout is not known to Slurm 24.11: want Slurm 25.05 or newer\n" +
			"slurm.conf:4: error: FrontendName is for Slurm that is built with --enable-front-end, every other ends over it: want a configuration without it\n" +
			"slurm.conf:5: error: MetricsType is not known to Slurm 24.11: want Slurm 25.11 or newer",
		"25.05": "slurm.conf:4: error: FrontendName is not known to Slurm 25.05: want Slurm 24.11 or older\n" +
			"slurm.conf:5: error: MetricsType is not known to Slurm 25.05: want Slurm 25.11 or newer",
		"26.05": "slurm.conf:4: error: FrontendName is not known to Slurm 26.05: want Slurm 24.11 or older",
	} {
		findings, err := Set(set, Options{Version: version})
		require.NoError(t, err)
		assert.Equal(t, want, findings.Err().Error(), version)
	}
	newest, err := Set(set, Options{})
	require.NoError(t, err)
	again, _ := Set(set, Options{Version: "26.05"})
	assert.Equal(t, again, newest)
	_, err = Set(set, Options{Version: "23.02"})
	assert.EqualError(t, err, "cannot check a configuration of Slurm 23.02: known are [24.11 25.05 25.11 26.05]")
}

// setOf is a set of one slurm.conf, in which ClusterName and SlurmctldHost are.
func setOf(text string) *slurmconf.Set {
	set, _ := slurmconf.Read(slurmconf.In(fstest.MapFS{"etc/slurm.conf": {Data: []byte("ClusterName=c\nSlurmctldHost=h\n" + text)}}, "/etc"))
	return set
}

func TestFilesOfSlurmctldsHost(t *testing.T) {
	set := setOf(`AuthType=auth/slurm
CredType=cred/slurm
SelectType=select/nosuch
PriorityType=priority/none
PrologSlurmctld=/opt/prolog
EpilogSlurmctld=/opt/epilogs/*
MailProg=/usr/bin/mail
Prolog=/not/here
PartitionName=p Nodes=ALL
`)
	root := fstest.MapFS{"opt/epilogs/1": {}, "usr/lib/slurm/auth_slurm.so": {}}
	findings, err := Set(set, Options{Version: "24.11", SlurmctldRoot: root, PluginDir: "/usr/lib/slurm"})
	require.NoError(t, err)
	const containers = "slurm.conf: info: there is no oci.conf: srun --container runs the job on the node's own root file system, and succeeds: want oci.conf with a runtime, where users have containers\n"
	assert.Equal(t, `slurm.conf: warning: there are no nodes, and none can register: MaxNodeCount is not set: want MaxNodeCount=number, or NodeName lines
`+containers+`slurm.conf:3:10: warning: AuthType is auth/slurm, and there is neither /etc/slurm/slurm.key nor slurm.jwks: want the cluster's key
slurm.conf:5:12: error: SelectType is select/nosuch, and there is no select_nosuch.so in /usr/lib/slurm: want a plugin that is installed
slurm.conf:7:17: error: PrologSlurmctld is /opt/prolog, which is not there: want a program that slurmctld can run
slurm.conf:9:10: warning: MailProg is /usr/bin/mail, which is not there: want a program that slurmctld can run
slurm.conf:10:8: info: Prolog has no time limit: one that hangs keeps its job, and slurmd from ending and from a reconfigure: want PrologEpilogTimeout=seconds`, findings.Error())
	findings, _ = Set(setOf("PluginDir=/usr/lib/slurm:/opt/slurm\nMaxNodeCount=2\nReturnToService=2\nPartitionName=p Nodes=ALL\n"), Options{SlurmctldRoot: root})
	assert.Equal(t, containers+"slurm.conf:3:11: error: PluginDir has /opt/slurm, which is not there: want directories", findings.Error())
}

func TestRestarts(t *testing.T) {
	from := setOf("SlurmctldTimeout=100\nSlurmdPort=6818\nSwitchType=switch/hpe_slingshot\n")
	to := setOf("SlurmctldTimeout=200\nAuthType=auth/slurm\nStateSaveLocation=/new\nSlurmctldPort=7000\n")
	var said []string
	for _, r := range Restarts(from, to) {
		said = append(said, r.Finding().Error())
	}
	assert.Equal(t, []string{
		`slurm.conf:4:10: error: AuthType was "auth/munge" and is "auth/slurm", which needs a restart of everything: ` + terminate,
		`slurm.conf:6:15: warning: SlurmctldPort was "6817" and is "7000", which needs a restart of everything: ` + listening,
		`slurm.conf:5:19: error: StateSaveLocation was "/var/spool" and is "/new", which needs a restart of slurmctld: ` + moving,
		`slurm.conf: error: SwitchType was "switch/hpe_slingshot" and is "", which needs a restart of everything: ` + switching,
	}, said)
	assert.Empty(t, Restarts(to, to))

	text := func(conf string) *slurmconf.Set {
		set, _ := slurmconf.Read(slurmconf.In(fstest.MapFS{"etc/slurm.conf": {Data: []byte("ClusterName=c\nSlurmctldTimeout=100\nSlurmdPort=6818\nSwitchType=switch/hpe_slingshot\n")}, "etc/cgroup.conf": {Data: []byte(conf)}}, "/etc"))
		return set
	}
	assert.Empty(t, Restarts(from, text("IgnoreSystemd=No\n")), "cgroup.conf is new, and says what it is without")
	changes := Restarts(text(""), text("\nIgnoreSystemd=Yes\n"))
	require.Len(t, changes, 1)
	assert.True(t, changes[0].Waits)
	assert.Equal(t, `cgroup.conf:2:15: warning: IgnoreSystemd was "no" and is "yes", which needs a restart of slurmd: `+scoping, changes[0].Finding().Error())
}

func TestNearest(t *testing.T) {
	known := keys.Of("26.05", slurmconf.SlurmConf, "")
	for name, want := range map[string]string{
		"slurmctldtimeot": "SlurmctldTimeout", "MaxNodesCount": "MaxNodeCount", "PrologTimout": "PrologTimeout",
		"Licences": "Licenses", "Frobnicate": "", "X": "", "": "",
	} {
		assert.Equal(t, want, nearest(name, known), name)
	}
}

// A file of another program has thousands of unknown keys.
func TestFindingsAreBounded(t *testing.T) {
	var text strings.Builder
	for i := range 120000 {
		fmt.Fprintf(&text, "SlurmctldTimeou%d=1\n", i)
	}
	set := setOf(text.String())
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	findings, err := Set(set, Options{})
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	assert.Len(t, findings.Err(), 101)
	assert.Contains(t, findings.Error(), "slurm.conf: error: 119900 more errors are not listed")
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(text.Len()*60))
}

func BenchmarkSet(b *testing.B) {
	var text strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&text, "NodeName=rack%d-n[%03d-%03d] CPUs=64 RealMemory=256000 Feature=a,b State=UNKNOWN\n", i/10, i%10*4, i%10*4+3)
	}
	for i := range 100 {
		fmt.Fprintf(&text, "PartitionName=p%d Nodes=rack[%d-%d]-n[000-039] MaxTime=7-0 State=UP\n", i, i*10, i*10+9)
	}
	set := setOf(text.String())
	b.ReportAllocs()
	for b.Loop() {
		findings, err := Set(set, Options{})
		require.NoError(b, err)
		require.NoError(b, findings.Err())
	}
}

func FuzzSet(f *testing.F) {
	topics, err := cases.Read("testdata")
	require.NoError(f, err)
	for _, topic := range topics {
		for _, c := range topic.Cases {
			f.Add(c.Files["slurm.conf"])
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, version := range keys.Versions {
			_, err := Set(setOf(text), Options{Version: version, SlurmctldRoot: fstest.MapFS{}})
			require.NoError(t, err)
		}
	})
}

// slurmctld needs a minute for so many nodes, so these are no cases.
func TestMostNodes(t *testing.T) {
	for nodes, want := range map[string]string{
		"n[0-65535]":   "",
		"n[0-65535],m": "slurm.conf: error: there are 65537 nodes: want at most 65536",
	} {
		findings, err := Set(setOf("NodeName="+nodes+"\nPartitionName=p Nodes=ALL\n"), Options{})
		require.NoError(t, err)
		if want == "" {
			assert.NoError(t, findings.Err(), nodes)
		} else {
			assert.EqualError(t, findings.Err(), want, nodes)
		}
	}
}
