package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCheckTenFaults(t *testing.T) {
	t.Parallel()
	have := surroundings{dir: "/nonexistent"}.run(t, "check", "testdata/check/ten.conf")
	assert.Equal(t, 1, have.code)
	assert.Empty(t, have.stderr)
	at := func(text string) string { return "testdata/check/ten.conf:" + text + "\n" }
	assert.Equal(t, at("4: error: SlurmctldTimeot is not a key of slurm.conf: want SlurmctldTimeout")+
		at(`5:15: error: SlurmdTimeout is "70000": want at most 65535`)+
		at(`6:12: error: TrackWCKey is "maybe": want yes, up, true or 1, or no, down, false or 0`)+
		at(`7:16: error: SlurmctldDebug is "loud": want quiet, fatal, error, info, verbose, debug, debug2, debug3, debug4, debug5, or 0 to 9`)+
		at(`8:22: error: SelectTypeParameters has CR_Core and CR_CPU: want one of them`)+
		at(`9:13: error: PreemptMode is REQUEUE without a PreemptType: want PreemptType=preempt/qos or preempt/partition_prio, or PreemptMode=OFF or GANG`)+
		at(`11:10: error: n2 has a record already, at ten.conf:10: want one record for each node`)+
		at(`12:10: error: NodeName: cannot expand hostlist "m[1-": "m[1-" has no ] after its last [`)+
		at(`13:23: error: partition p has zz, which is no node and no NodeSet: want a NodeName or NodeSet line for it; dynamic nodes are in a partition by NodeSet=… Feature=… or Nodes=ALL`)+
		at(`14:15: error: partition p is there already, at ten.conf:13: want one line for each`), have.stdout)
}

const good = "ClusterName=t\nSlurmctldHost=ctl\nNodeName=n1\nPartitionName=p Nodes=ALL\n"

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		files map[string]string
		args  []string
		code  int
		want  string // DIR stands for the directory
	}{
		{
			"a directory",
			map[string]string{"slurm.conf": good + "Include more\n", "more": "PrologFlags=Serial,RunInJob\n"},
			[]string{"DIR"},
			0,
			"DIR/more:1:13: warning: PrologFlags has Serial and RunInJob: want one of both\n",
		},
		{
			"slurm.conf and the file beside it",
			map[string]string{"slurm.conf": good, "cgroup.conf": "X=1\n"},
			[]string{"DIR/slurm.conf"},
			1,
			"DIR/cgroup.conf:1: error: X is not a key of cgroup.conf\n",
		},
		{
			"cgroup.conf alone",
			map[string]string{"slurm.conf": "X=1\n", "cgroup.conf": "X=1\n"},
			[]string{"DIR/cgroup.conf"},
			1,
			"DIR/cgroup.conf:1: error: X is not a key of cgroup.conf\n",
		},
		{
			"cgroup.conf before it has its name",
			map[string]string{"cgroup.conf.new": "X=1\n"},
			[]string{"DIR/cgroup.conf.new"},
			1,
			"DIR/cgroup.conf.new:1: error: X is not a key of cgroup.conf\n",
		},
		{
			"two files",
			map[string]string{"a": good + "X=1\n", "b": good + "Y=1\n"},
			[]string{"DIR/a", "DIR/b"},
			1,
			"DIR/a:5: error: X is not a key of slurm.conf\nDIR/b:5: error: Y is not a key of slurm.conf\n",
		},
		{
			"another version",
			map[string]string{"slurm.conf": good + "PrologTimeout=1\n"},
			[]string{"-slurm-version", "24.11", "DIR"},
			1,
			"DIR/slurm.conf:5: error: PrologTimeout is not known to Slurm 24.11: want Slurm 25.05 or newer\n",
		},
		{
			"a Slurm with known faults",
			map[string]string{"slurm.conf": good},
			[]string{"-slurm-version", "25.11.8", "DIR"},
			0,
			"DIR: warning: Slurm 25.11.8 has known faults: task-launch-credential, step-io-overflow: want 26.05.5\n",
		},
		{"a Slurm without known faults", map[string]string{"slurm.conf": good}, []string{"-slurm-version", "26.05.5-1", "DIR"}, 0, ""},
		{
			"for GitHub",
			map[string]string{"slurm.conf": good + "X=1\n"},
			[]string{"-o", "github", "DIR"},
			1,
			"::error file=DIR/slurm.conf,line=5,title=unknown-key::X is not a key of slurm.conf\n",
		},
		{"no file", nil, []string{"DIR/slurm.conf"}, 1, "DIR/slurm.conf: error: cannot read: no such file or directory\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range c.files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
			}
			args := []string{"check"}
			for _, a := range c.args {
				args = append(args, strings.Replace(a, "DIR", dir, 1))
			}
			have := surroundings{dir: "/nonexistent"}.run(t, args...)
			assert.Equal(t, c.code, have.code, have.stderr)
			assert.Equal(t, strings.ReplaceAll(c.want, "DIR", dir), have.stdout)
		})
	}
}

// Slurm's own parser is asked when nothing else has found a fault, and if it is of
// the version in question.
func TestCheckAsksScontrol(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	script := "#!/bin/sh\nif [ $1 = -V ]; then echo slurm-wlm 25.05.3; exit; fi\necho \"$SLURM_CONF $*\" >&2; exit 1\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", "scontrol"), []byte(script), 0o755))
	conf := filepath.Join(dir, "slurm.conf")
	require.NoError(t, os.WriteFile(conf, []byte(good), 0o644))
	have := surroundings{dir: dir}.run(t, "check", "-o", "json", conf)
	assert.Equal(t, 1, have.code, have)
	var findings []map[string]any
	require.NoError(t, json.Unmarshal([]byte(have.stdout), &findings))
	require.Len(t, findings, 3)
	for i, rule := range []string{"slurm-security", "slurm-defect", "scontrol"} {
		assert.Equal(t, conf, findings[i]["file"])
		assert.Equal(t, rule, findings[i]["rule"])
	}
	assert.Contains(t, findings[0]["what"], "Slurm 25.05.3 has known faults: CVE-2026-65107, ")
	assert.Contains(t, findings[2]["what"], "Slurm's own parser cannot read it")
	assert.Contains(t, findings[2]["what"], conf+" show hostnames a")
	assert.Zero(t, surroundings{dir: dir}.run(t, "check", "-slurm-version", "26.05", conf).code)
	require.NoError(t, os.WriteFile(conf, []byte(good+"MetricsType=metrics/openmetrics\n"), 0o644))
	assert.Contains(t, surroundings{dir: dir}.run(t, "check", conf).stdout,
		"\n"+conf+":5: error: MetricsType is not known to Slurm 25.05: want Slurm 25.11 or newer\n")
}
