package slurmconf_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// read reads a configuration without errors.
func read(t *testing.T, files map[string]string) *slurmconf.Set {
	t.Helper()
	at := map[string]string{}
	for name, text := range files {
		at["etc/slurm/"+name] = text
	}
	set, findings := slurmconf.Read(machine(at))
	require.NoError(t, findings.Err())
	return set
}

func TestCluster(t *testing.T) {
	set := read(t, map[string]string{
		"slurm.conf": `
SlurmctldHost=a(10.0.0.1)
SlurmctldHost=b
slurmctldport=7000
Prolog=/a
Prolog=b.sh
MailProg=/bin/mail
NodeName=DEFAULT Feature=x,y CPUs=4
NodeName=n[1-2] NodeHostname=h[1-2] Features=z
NodeName=m NodeAddr=10.0.0.9
NodeSet=big Feature=x
NodeSet=small Nodes=m
PartitionName=DEFAULT Nodes=ALL
PartitionName=p
PartitionName=q Nodes=big,m
`,
		"plugstack.conf": "required a.so x=1 y\noptional\t/b.so\n",
	})
	conf := set.Conf(slurmconf.SlurmConf)

	port, from := conf.Value("SlurmctldPort")
	assert.Equal(t, "7000 slurm.conf:4:15", port+" "+from.String())
	spool, from := conf.Value("StateSaveLocation")
	assert.Equal(t, "/var/spool", spool, "slurm.conf(5)'s default")
	assert.Zero(t, from)

	var hosts []string
	for _, c := range conf.SlurmctldHosts() {
		hosts = append(hosts, c.Host+" "+c.Address)
	}
	assert.Equal(t, []string{"a 10.0.0.1", "b b"}, hosts)

	nodes := conf.Nodes()
	require.Len(t, nodes, 2)
	assert.Equal(t, []string{"n[1-2]", "h[1-2]", "h[1-2]"}, []string{nodes[0].Names, nodes[0].Hostnames, nodes[0].Addresses})
	assert.Equal(t, []string{"z"}, nodes[0].Features, "Features of the record, before Feature of DEFAULT")
	assert.Equal(t, []string{"m", "m", "10.0.0.9"}, []string{nodes[1].Names, nodes[1].Hostnames, nodes[1].Addresses})
	assert.Equal(t, []string{"x", "y"}, nodes[1].Features)

	sets := conf.NodeSets()
	require.Len(t, sets, 2)
	assert.Equal(t, []string{"big", "x", "", "small", "", "m"}, []string{sets[0].Name(), sets[0].Feature, sets[0].Nodes, sets[1].Name(), sets[1].Feature, sets[1].Nodes})
	partitions := conf.Partitions()
	require.Len(t, partitions, 2)
	assert.Equal(t, []string{"p", "ALL", "q", "big,m"}, []string{partitions[0].Name(), partitions[0].Nodes, partitions[1].Name(), partitions[1].Nodes})

	var programs []string
	for _, p := range conf.Programs() {
		programs = append(programs, p.Key+" "+p.Path+" "+string(p.On))
	}
	assert.Equal(t, []string{"Prolog /a slurmd", "Prolog b.sh slurmd", "MailProg /bin/mail slurmctld"}, programs)

	plugins := set.Conf(slurmconf.PlugstackConf).Plugins()
	require.Len(t, plugins, 2)
	assert.Equal(t, []string{"a.so", "x=1", "y"}, append([]string{plugins[0].Path}, plugins[0].Arguments...))
	assert.True(t, plugins[0].Required)
	assert.Equal(t, "/b.so", plugins[1].Path)
	assert.False(t, plugins[1].Required)
}

func TestFormerSlurmctldHosts(t *testing.T) {
	conf := read(t, map[string]string{"slurm.conf": "ControlMachine=a\nControlAddr=b\nBackupController=c\n"}).Conf(slurmconf.SlurmConf)
	controllers := conf.SlurmctldHosts()
	require.Len(t, controllers, 2)
	assert.Equal(t, slurmconf.SlurmctldHost{Host: "a", Address: "b", From: slurmconf.Position{File: "slurm.conf", Line: 1, Column: 16}}, controllers[0])
	assert.Equal(t, "c", controllers[1].Address)
}

// As scontrol of 24.11 and 26.05 takes and refuses them for KillWait, but for 0b1,
// which the latter takes.
func TestUint(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "30": 30, "010": 8, "0x1f": 31, "+5": 5, `" 5"`: 5, `""`: 0, "65535": 65535,
		"INFINITE": slurmconf.Infinite, "unlimited": slurmconf.Infinite,
	} {
		n, err := wait(t, text).Uint(math.MaxUint16)
		assert.NoError(t, err, text)
		assert.Equal(t, want, n, text)
	}
	for text, want := range map[string]string{
		"65536": "at most 65535", "99999999999999999999": "at most 65535",
		"5s": "a number", "-1": "a number", "08": "a number", "0x": "a number", "0b1": "a number", "0o7": "a number", "1_0": "a number", "5.0": "a number",
	} {
		_, err := wait(t, text).Uint(math.MaxUint16)
		assert.EqualError(t, err, "slurm.conf:1:10: error: KillWait is \""+text+"\": want "+want)
	}
}

// wait is KillWait with a value.
func wait(t *testing.T, value string) slurmconf.Pair {
	file, _ := slurmconf.Parse("slurm.conf", "KillWait="+value)
	return get(t, file, "KillWait")
}

func TestBool(t *testing.T) {
	for text, want := range map[string]bool{"YES": true, "up": true, "True": true, "1": true, "no": false, "DOWN": false, "false": false, "0": false} {
		is, err := wait(t, text).Bool()
		assert.NoError(t, err, text)
		assert.Equal(t, want, is, text)
	}
	_, err := wait(t, "on").Bool()
	assert.EqualError(t, err, `slurm.conf:1:10: error: KillWait is "on": want yes, up, true or 1, or no, down, false or 0`)
}
