package slurmconf_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/slurmconf"
)

func TestDiff(t *testing.T) {
	for _, c := range []struct {
		about         string
		before, after string
		changes       []string
	}{
		{"nothing", "KillWait=5\n", "# five\nkillwait = 5\n", nil},
		{"a value", "KillWait=5\n", "\nKillWait=6\n", list("KillWait: 5 → 6 (slurm.conf:2:10)")},
		{"a value is set", "", "KillWait=6\n", list("KillWait: not set → 6 (slurm.conf:1:10)")},
		{"a value is not set any more", "KillWait=5\n", "", list("KillWait: 5 → not set (slurm.conf:1:10)")},
		{"Slurm's default is spelled out", "", "SlurmctldPort=6817\n", nil},
		{"a value that is overridden", "KillWait=5\n", "KillWait=7\nKillWait=5\n", nil},
		{"the order of keys", "KillWait=5\nSlurmdPort=6\n", "SlurmdPort=6\nKillWait=5\n", nil},
		{"an empty value is one", "", "Prolog=\"\"\n", list(`Prolog: not set → "" (slurm.conf:1:8)`)},
		{"the order of controllers", "SlurmctldHost=a\nSlurmctldHost=b\n", "SlurmctldHost=b\nSlurmctldHost=a\n", list("SlurmctldHost: a, b → b, a (slurm.conf:1:15)")},
		{"another prolog", "Prolog=a\n", "Prolog=a\nProlog=b\n", list("Prolog: a → a, b (slurm.conf:1:8)")},

		{"a node goes", "NodeName=n[1-3] CPUs=4\n", "NodeName=n[1-2] CPUs=4\n", list("NodeName=n3: gone (was slurm.conf:1)")},
		{"nodes come", "NodeName=n1\n", "NodeName=n1\nNodeName=n[2-3]\n", list("NodeName=n[2-3]: new (slurm.conf:2)")},
		{"nodes written otherwise", "NodeName=n[1-3] CPUs=4\n", "NodeName=n3 cpus=4\nNodeName=n2,n1 CPUs=4 # same\n", nil},
		{"a default written out", "NodeName=DEFAULT CPUs=4\nNodeName=a\n", "NodeName=a CPUs=4\n", nil},
		{"a default changes", "NodeName=DEFAULT CPUs=4\nNodeName=a\nNodeName=b CPUs=2\n", "NodeName=DEFAULT CPUs=8\nNodeName=a\nNodeName=b CPUs=2\n", list("NodeName=a: CPUs: 4 → 8 (slurm.conf:1:23)")},
		{"a default below the record", "NodeName=DEFAULT CPUs=4\nNodeName=a\n", "NodeName=a\nNodeName=DEFAULT CPUs=4\n", list("NodeName=a: CPUs: 4 → not set (slurm.conf:1:23)")},
		{
			"some of the nodes", "NodeName=n[1-9] CPUs=4 Gres=gpu:1\n", "NodeName=n[1,3-9] CPUs=4 Gres=gpu:1\nNodeName=n2 CPUs=8\n",
			list("NodeName=n2: CPUs: 4 → 8 (slurm.conf:2:18)", "NodeName=n2: Gres: gpu:1 → not set (slurm.conf:1:29)"),
		},
		{"addresses written otherwise", "NodeName=n[1-2] NodeAddr=10.0.0.[1-2]\n", "NodeName=n1 NodeAddr=10.0.0.1\nNodeName=n2 NodeAddr=10.0.0.2\n", nil},
		{
			"one address", "NodeName=n[1-2] NodeAddr=10.0.0.[1-2]\n", "NodeName=n[1-2] NodeAddr=10.0.0.[1,3]\n",
			list("NodeName=n2: NodeAddr: 10.0.0.[1-2] → 10.0.0.[1,3] (slurm.conf:1:26)"),
		},
		{"names that are no hostlist", "NodeName=n[1- CPUs=4\n", "NodeName=n[1- CPUs=5\n", list("NodeName=n[1-: CPUs: 4 → 5 (slurm.conf:1:20)")},

		{"a partition", "PartitionName=p Nodes=a MaxTime=1\n", "PartitionName=p Nodes=a MaxTime=2\n", list("PartitionName=p: MaxTime: 1 → 2 (slurm.conf:1:33)")},
		{"a partition's nodes written otherwise", "PartitionName=p Nodes=n[1-2],m\n", "PartitionName=p Nodes=m,n2,n1\n", nil},
		{"a partition's nodes", "PartitionName=p Nodes=n[1-2]\n", "PartitionName=p Nodes=n[1-3]\n", list("PartitionName=p: Nodes: n[1-2] → n[1-3] (slurm.conf:1:23)")},
		{"partitions come and go", "PartitionName=p\n", "PartitionName=P\n", list("PartitionName=P: new (slurm.conf:1)", "PartitionName=p: gone (was slurm.conf:1)")},
		{"the order of partitions", "PartitionName=p\nPartitionName=q\n", "PartitionName=q\nPartitionName=p\n", nil},
		{"a partition that is there twice", "PartitionName=p\nPartitionName=p\n", "PartitionName=p\n", list("PartitionName=p (2): gone (was slurm.conf:2)")},
		{"down nodes", "DownNodes=n[1-2] Reason=a\n", "DownNodes=n1 Reason=a\n", list("DownNodes=n2: gone (was slurm.conf:1)")},
	} {
		t.Run(c.about, func(t *testing.T) {
			before, after := read(t, map[string]string{"slurm.conf": c.before}), read(t, map[string]string{"slurm.conf": c.after})
			assert.Equal(t, c.changes, changes(slurmconf.Diff(before, after), "slurm.conf: "))
			assert.Empty(t, slurmconf.Diff(before, before))
			assert.Empty(t, slurmconf.Diff(after, after))
		})
	}
}

// changes is how they are told, without the name of the file.
func changes(all []slurmconf.Change, without string) []string {
	var told []string
	for _, c := range all {
		told = append(told, c.String()[len(without):])
	}
	return told
}

func TestDiffOfOtherFiles(t *testing.T) {
	for _, c := range []struct {
		file, about   string
		before, after string
		changes       []string
	}{
		{"gres.conf", "a file", "Name=gpu File=/dev/a\n", "Name=gpu File=/dev/a Flags=x\nName=gpu File=/dev/b\n", list("Name=gpu File=/dev/a: Flags: not set → x (gres.conf:1:28)", "Name=gpu File=/dev/b: new (gres.conf:2)")},
		{"gres.conf", "the order of devices", "Name=gpu File=/dev/a\nName=gpu File=/dev/b\n", "Name=gpu File=/dev/b\nName=gpu File=/dev/a\n", list("order: Name=gpu File=/dev/a → Name=gpu File=/dev/b (gres.conf:1)")},
		{"gres.conf", "two nodes", "NodeName=a Name=gpu File=/dev/a\nNodeName=b Name=gpu File=/dev/a\n", "NodeName=a Name=gpu File=/dev/a\nNodeName=b Name=gpu File=/dev/a Cores=1\n", list("NodeName=b Name=gpu File=/dev/a: Cores: not set → 1 (gres.conf:2:39)")},
		{"cgroup.conf", "a value", "ConstrainCores=no\n", "ConstrainCores=yes\n", list("ConstrainCores: no → yes (cgroup.conf:1:16)")},
		{"topology.conf", "a switch's nodes written otherwise", "SwitchName=s Nodes=n[1-2]\n", "SwitchName=s Nodes=n2,n1\n", nil},
		{"topology.conf", "a ring's nodes", "RingName=r Nodes=n[1-2]\n", "RingName=r Nodes=n2,n1\n", list("RingName=r: Nodes: n[1-2] → n2,n1 (topology.conf:1:18)")},
		{"topology.conf", "a ring's nodes written otherwise", "RingName=r Nodes=n[1-2]\n", "RingName=r Nodes=n1,n2\n", nil},
		{"plugstack.conf", "the order", "required a\noptional b c\n", "optional b  c\nrequired a\n", list("plugins: required a, optional b c → optional b c, required a (plugstack.conf)")},
		{"topology.yaml", "anything", "- topology: a\n  flat: true\n", "- topology: a\n  flat: false\n", list("text: flat: true → flat: false (topology.yaml:2)")},
	} {
		t.Run(c.file+" "+c.about, func(t *testing.T) {
			before := read(t, map[string]string{"slurm.conf": "", c.file: c.before})
			after := read(t, map[string]string{"slurm.conf": "", c.file: c.after})
			assert.Equal(t, c.changes, changes(slurmconf.Diff(before, after), c.file+": "))
			assert.Empty(t, slurmconf.Diff(before, before))
		})
	}
}

func TestDiffOfFiles(t *testing.T) {
	none, some := read(t, map[string]string{"slurm.conf": ""}), read(t, map[string]string{"slurm.conf": "Include a\n", "a": "", "cgroup.conf": "ConstrainCores=yes\n"})
	assert.Equal(t, list("cgroup.conf: new (cgroup.conf)", "cgroup.conf: ConstrainCores: not set → yes (cgroup.conf:1:16)"), changes(slurmconf.Diff(none, some), ""))
	assert.Equal(t, list("cgroup.conf: gone (was cgroup.conf)", "cgroup.conf: ConstrainCores: yes → not set (cgroup.conf:1:16)"), changes(slurmconf.Diff(some, none), ""))
}

func TestCorpusDoesNotDiffer(t *testing.T) {
	for _, name := range corpus(t) {
		one, _ := slurmconf.Read(slurmconf.Dir(filepath.Join("testdata", name)))
		again, _ := slurmconf.Read(slurmconf.Dir(filepath.Join("testdata", name)))
		assert.Empty(t, slurmconf.Diff(one, again), name)
	}
}

func BenchmarkDiff10000Lines(b *testing.B) {
	before, _ := slurmconf.Read(machine(map[string]string{"etc/slurm/slurm.conf": large()}))
	after, _ := slurmconf.Read(machine(map[string]string{"etc/slurm/slurm.conf": strings.Replace(large(), "CPUs=64", "CPUs=32", 1)}))
	b.ReportAllocs()
	for b.Loop() {
		slurmconf.Diff(before, after)
	}
}
