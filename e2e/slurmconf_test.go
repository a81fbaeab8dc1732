//go:build e2e

package e2e

import (
	"encoding/base64"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// shown are keys that "scontrol show config" tells as they are, or as a number
// and a unit, and that can be changed while the cluster runs.
var shown = strings.Fields(`
	BatchStartTimeout CompleteWait KillWait LaunchParameters Licenses LogTimeFormat MailDomain MailProg MessageTimeout MinJobAge
	PriorityWeightAge PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition PriorityWeightQOS RebootProgram
	RequeueExit RequeueExitHold ResumeTimeout SchedulerParameters SrunEpilog SrunProlog SuspendTimeout TaskEpilog TaskProlog
	UnkillableStepProgram UnkillableStepTimeout WaitTime`)

// configurationIsReadAsSlurmDoes: slurmctld is given the lines of slurmconf's
// corpus as they stand there, and says what it makes of them.
func configurationIsReadAsSlurmDoes(t *testing.T, c *cluster) {
	c.run(t, sandbox.Slurmctld, "sh", "-ec", "cd /etc/slurm; cp slurm.conf slurm.conf.before; echo Include corpus.conf >> slurm.conf")
	seen := 0
	for _, file := range corpus(t) {
		set, findings := slurmconf.Read(slurmconf.Dir(filepath.Dir(file)), slurmconf.SlurmConf)
		require.NoError(t, findings.Err(), file)
		conf, text := set.Conf(slurmconf.SlurmConf), ""
		for _, key := range shown {
			for _, p := range conf.All(key) {
				text += strings.TrimSuffix(p.Line().Text(), "\n") + "\n"
			}
		}
		if text == "" {
			continue
		}
		c.reconfigure(t, "echo "+base64.StdEncoding.EncodeToString([]byte(text))+" | base64 -d > corpus.conf")
		until(t, "slurmctld has read "+file, func() (bool, string) {
			differ := different(conf, showConfig(t, c))
			return differ == "", differ
		})
		seen += strings.Count(text, "\n")
	}
	assert.Greater(t, seen, 30, "values compared")
	c.reconfigure(t, "mv slurm.conf.before slurm.conf; rm corpus.conf")
	c.waitReady(t, sandbox.Slurmctld, "node-0", "node-1")
}

// showConfig is what slurmctld works with, by key in lower case.
func showConfig(t *testing.T, c *cluster) map[string]string {
	config := map[string]string{}
	for key, value := range slurm.ParseConfig(c.run(t, sandbox.Slurmctld, "scontrol", "show", "config")) {
		config[strings.ToLower(key)] = value
	}
	return config
}

// different tells what slurmctld shows otherwise than the files say.
func different(conf *slurmconf.Conf, config map[string]string) string {
	var differ string
	for _, key := range shown {
		want, ok := conf.Get(key)
		if !ok {
			continue
		}
		text := want.Value
		if n, err := want.Uint(math.MaxUint32); err == nil && text != "" {
			text = strconv.FormatUint(n, 10)
		}
		if is := strings.TrimSuffix(config[strings.ToLower(key)], " sec"); is != text {
			differ += fmt.Sprintf("%s: %q in %s, %q in slurmctld\n", key, text, want.Position(), is)
		}
	}
	return differ
}

// corpus is slurmconf's, and each slurm.conf in a directory of SLURMLET_CORPUS: files of others are not ours to keep.
func corpus(t *testing.T) []string {
	var all []string
	for _, dir := range []string{"../slurmconf/testdata", os.Getenv("SLURMLET_CORPUS")} {
		files, err := filepath.Glob(filepath.Join(dir, "*", "slurm.conf"))
		require.NoError(t, err)
		all = append(all, files...)
	}
	require.Greater(t, len(all), 10)
	return all
}

// configurationIsRefusedAsSlurmDoes: scontrol reads a file and says which lines
// are wrong. The files have one that it is to read and one of each fault.
func configurationIsRefusedAsSlurmDoes(t *testing.T, c *cluster) {
	for _, text := range []string{
		"", "KillWait=5 # c\n", "\t KillWait \t=\t5\r\n", "KillWait=\\\n5\n", "KillWait=5\\", "KillWait+=5\n", "MailProg=\"a b\"\n", "MailProg=\"a\"b\n", "MailProg=\"\"\n",
		"MailProg=a\\#b\n", "# a \\\nKillWait=5\n", "NodeName=a CPUs=4 \\\n Feature=b\n", "Include more\n", "Include more#c\n", "include /tmp/oracle/more #c\n", "Include %c\n",
		"KillWait=\n", "\n\nKillWait 5\n", "=5\n", "KillWait=5 SlurmdPort=6\n", "KillWait+ =5\n", "MailProg=\"a b\nKillWait=\n", "MailProg=\"a # b\"\nx\n", "NodeName=a Feature=\n",
		"NodeName=a \\\n CPUs=4 x\n", "NodeName=a CPUs= Sockets=4 5\n", " Include more\n", "Include more more\n", "Include more#c d\n", "Include m*\n", "\xef\xbb\xbf# a\n", "PartitionName=\n", "NodeName=a\\\\ x\n",
	} {
		file, findings := slurmconf.Parse("/tmp/oracle/slurm.conf", text)
		lines := map[int]bool{}
		for _, f := range findings {
			for _, l := range file.Lines {
				if from := l.Position().Line; f.Severity == slurmconf.Error && from <= f.Line && f.Line <= from+strings.Count(strings.TrimSuffix(l.Text(), "\n"), "\n") {
					lines[from] = true
				}
			}
		}
		assert.Equal(t, findings.Err() != nil, len(lines) > 0)
		written := base64.StdEncoding.EncodeToString([]byte(text + "\n\nClusterName=c\nSlurmctldHost=h\n"))
		_, stderr, code, err := c.Exec(t.Context(), sandbox.Slurmctld, "sh", "-c", "mkdir -p /tmp/oracle; cd /tmp/oracle; echo WaitTime=3 | tee more > c; echo "+
			written+" | base64 -d > slurm.conf; sed -i '/%c/{s/^/ClusterName=c\\n/}' slurm.conf; SLURM_CONF=$PWD/slurm.conf scontrol show hostnames a")
		require.NoError(t, err)
		assert.Equal(t, len(lines) > 0, code != 0, "%q: %v, scontrol says %s", text, findings, stderr)
		for line := range lines {
			assert.Regexp(t, fmt.Sprintf(`in file /tmp/oracle/slurm\.conf line %d\b`, line), stderr, "%q: %v", text, findings)
		}
	}
	c.run(t, sandbox.Slurmctld, "rm", "-r", "/tmp/oracle")
}
