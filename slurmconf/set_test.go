package slurmconf_test

import (
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// machine is a machine with these files.
func machine(files map[string]string) slurmconf.Source {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return slurmconf.In(fsys, "/etc/slurm")
}

func TestInclude(t *testing.T) {
	set, findings := slurmconf.Read(machine(map[string]string{
		"etc/slurm/slurm.conf":       "ClusterName=Red\nInclude conf.d/nodes\nInclude /srv/%c.conf\nKillWait=1\n",
		"etc/slurm/conf.d/nodes":     "NodeName=DEFAULT CPUs=2 Boards=1\nInclude more\nNodeName=a\n",
		"etc/slurm/more":             "NodeName=b CPUs=3\nNodeName=DEFAULT CPUs=4\n",
		"srv/red.conf":               "killwait=5\nProlog=x\nInclude more\n",
		"etc/slurm/gres.conf":        "Include more\nName=gpu File=/dev/a\n",
		"etc/slurm/plugstack.conf":   "include plug.d/*.conf\n",
		"etc/slurm/plug.d/one.conf":  "required one.so a=b # c\n",
		"etc/slurm/plug.d/two.conf":  "\noptional two.so\n",
		"etc/slurm/plug.d/not.other": "nonsense\n",
	}))
	assert.Empty(t, findings)
	conf := set.Conf(slurmconf.SlurmConf)

	wait, _ := conf.Get("KillWait")
	assert.Equal(t, "1", wait.Value, "the last one counts")
	assert.Equal(t, "slurm.conf:4:10", wait.Position().String())
	assert.Equal(t, []string{"/srv/red.conf:1:10 5", "slurm.conf:4:10 1"}, places(conf.All("KILLWAIT")))

	var cpus []slurmconf.Pair
	for _, node := range conf.Records("nodename") {
		pair, _ := node.Get("cpus")
		cpus = append(cpus, pair)
		boards, _ := node.Get("Boards")
		assert.Equal(t, "conf.d/nodes:1:32", boards.Position().String(), node.Name())
	}
	assert.Equal(t, []string{"more:1:17 3", "more:2:23 4", "more:1:17 3"}, places(cpus), "the DEFAULT lines before the record")

	assert.Equal(t, []string{"more:1:10 b", "more:2:10 DEFAULT"}, places(set.Conf(slurmconf.GresConf).All("NodeName")), "DEFAULT means nothing there")
	assert.Equal(t, []string{"plug.d/one.conf:1:10 one.so a=b"}, places(set.Conf(slurmconf.PlugstackConf).All("required")))
	assert.Nil(t, set.Conf(slurmconf.CgroupConf))
	assert.Empty(t, set.Conf(slurmconf.CgroupConf).All("AllowedRAMSpace"))
}

func places(pairs []slurmconf.Pair) []string {
	var found []string
	for _, p := range pairs {
		found = append(found, p.Position().String()+" "+p.Value)
	}
	return found
}

func TestBrokenInclude(t *testing.T) {
	for _, c := range []struct {
		about    string
		files    map[string]string
		findings string
	}{
		{"nothing there", nil, "slurm.conf: error: cannot read /etc/slurm/slurm.conf: there is no such file"},
		{
			"a loop",
			map[string]string{"etc/slurm/slurm.conf": "Include a\n", "etc/slurm/a": "\nInclude ./slurm.conf\n"},
			"a:2: error: Include ./slurm.conf includes itself: /etc/slurm/slurm.conf → /etc/slurm/a → /etc/slurm/slurm.conf",
		},
		{
			"not there",
			map[string]string{"etc/slurm/slurm.conf": "Include a\nInclude /b\n"},
			"slurm.conf:1: error: Include a of /etc/slurm/a: there is no such file\nslurm.conf:2: error: Include /b of /b: there is no such file",
		},
		{
			"a directory",
			map[string]string{"etc/slurm/slurm.conf": "Include a\n", "etc/slurm/a/b": ""},
			"slurm.conf:1: warning: Include a of /etc/slurm/a: is a directory, of which Slurm reads nothing",
		},
		{
			"no cluster name",
			map[string]string{"etc/slurm/slurm.conf": "Include %c\nClusterName=a\n"},
			"slurm.conf:1: error: Include %c has %c for ClusterName: want ClusterName above it, in the same file or one that this includes",
		},
		{
			"too large",
			map[string]string{"etc/slurm/slurm.conf": strings.Repeat("#", slurmconf.MaxFileSize+1)},
			"slurm.conf: error: cannot read /etc/slurm/slurm.conf: has 4194305 bytes, want at most 4194304",
		},
		{
			"errors of all files",
			map[string]string{"etc/slurm/slurm.conf": "a\nInclude b\nc\n", "etc/slurm/b": "d\n", "etc/slurm/cgroup.conf": "e\n"},
			"b:1:1: error: cannot read \"d\": want Key=value\ncgroup.conf:1:1: error: cannot read \"e\": want Key=value\n" +
				"slurm.conf:1:1: error: cannot read \"a\": want Key=value\nslurm.conf:3:1: error: cannot read \"c\": want Key=value",
		},
	} {
		t.Run(c.about, func(t *testing.T) {
			_, findings := slurmconf.Read(machine(c.files))
			assert.Equal(t, c.findings, findings.Error())
			assert.Equal(t, strings.Contains(c.findings, "error: "), findings.Err() != nil)
		})
	}
}

// Each of the files includes the next one twice.
func TestIncludesAreBounded(t *testing.T) {
	files := map[string]string{"etc/slurm/slurm.conf": "Include 1\nInclude 1\n"}
	for i := 1; i < 600; i++ {
		files["etc/slurm/"+strconv.Itoa(i)] = strings.Repeat("Include "+strconv.Itoa(i+1)+"\n", 2) + "KillWait=1\n"
	}
	set, findings := slurmconf.Read(machine(files))
	require.Error(t, findings.Err())
	assert.Contains(t, findings.Error(), "is nested deeper than 500")
	assert.Contains(t, findings.Error(), "is one of more than 10000, and the rest is not read")
	assert.Less(t, len(set.Conf(slurmconf.SlurmConf).All("KillWait")), 10000)
}

func TestSourceThatWillLieElsewhere(t *testing.T) {
	files := map[string]string{
		"stage/candidate.conf": "Include /etc/slurm/nodes\nInclude /srv/more\nInclude nodes\n", "stage/nodes": "KillWait=1\n",
		"srv/more": "KillWait=2\n", "etc/slurm/nodes": "KillWait=3\n",
	}
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	set, findings := slurmconf.Read(slurmconf.In(fsys, "/stage").As("/etc/slurm/").Named(slurmconf.SlurmConf, "candidate.conf"))
	require.NoError(t, findings.Err())
	assert.Equal(t, []string{"nodes:1:10 1", "/srv/more:1:10 2", "nodes:1:10 1"}, places(set.Conf(slurmconf.SlurmConf).All("KillWait")))
	assert.Equal(t, "candidate.conf", set.Conf(slurmconf.SlurmConf).File.Name)

	_, findings = slurmconf.Read(slurmconf.Source{})
	assert.ErrorContains(t, findings.Err(), "slurm.conf: error: cannot read slurm.conf: there is no source")
}

// mpi.conf is read by each plugin, which takes what it knows.
func TestMPI(t *testing.T) {
	_, findings := slurmconf.Parse("mpi.conf", "PMIxDebug 1\n")
	assert.NoError(t, findings.Err())
	assert.Len(t, findings, 1)
}
