package slurmconf_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/check"
	"github.com/slurmlet/slurmlet/slurmconf/keys"
	"github.com/slurmlet/slurmlet/slurmconf/report"
)

func TestIsSecret(t *testing.T) {
	for key, want := range map[string]bool{
		"StoragePass": true, "storagepass": true, "AccountingStoragePass": true, "JobCompPass": true, "DefaultStoragePass": true,
		"EnergyIPMIPassword": true, "ProfileInfluxDBPass": true, "JobCompPas": true, "SlurmdHttpAuthParameters": true,
		"StoragePassScript": false, "StorageUser": false, "AuthInfo": false, "ClusterName": false, "PartitionName": false, "": false,
	} {
		require.Equal(t, want, slurmconf.IsSecret(key), key)
	}
}

// TestSecretKeys: whatever a Slurm reads that is called a password is one.
func TestSecretKeys(t *testing.T) {
	text, err := os.ReadFile("keys/keys.txt")
	require.NoError(t, err)
	var secret []string
	for line := range strings.Lines(string(text)) {
		if key, _, _ := strings.Cut(strings.TrimSpace(line), " "); slurmconf.IsSecret(key) {
			secret = append(secret, key)
		}
	}
	require.Subset(t, secret, []string{"AccountingStoragePass", "JobCompPass", "StoragePass", "EnergyIPMIPassword", "ProfileInfluxDBPass"})
	require.Less(t, len(secret), 20, "%v", secret)
}

func TestHide(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"StoragePass=hunter2":     "StoragePass=(hidden)",
		"JobCompPas = hunter2\nx": "JobCompPas =(hidden)\nx",
		`error: Parse error in file /etc/slurm.conf line 3: "hunter2 x"`: `error: Parse error in file /etc/slurm.conf line 3: (hidden)`,
		"JobCompLoc=http://u:hunter2@h:9200/x":                           "JobCompLoc=http://u:(hidden)@h:9200/x",
		"http://h:9200/x and ftp://u:hunter2@h":                          "http://h:9200/x and ftp://u:(hidden)@h",
		"PartitionName=p Nodes=ALL":                                      "PartitionName=p Nodes=ALL",
		"StoragePass is set already, at slurm.conf:4":                    "StoragePass is set already, at slurm.conf:4",
		"a=b StoragePass=hunter2 c=d":                                    "a=b StoragePass=(hidden)",
	} {
		require.Equal(t, want, slurmconf.Hide(text))
	}
}

// leaks are lines with a secret, as people write them when something is wrong besides.
var leaks = []string{
	"JobCompPass=hunter2\nJobCompPass=hunter2\n", "JobCompPas=hunter2\n", "JobCompPass hunter2\n", "JobCompPass=\"hunter2\n", "JobCompPass=a hunter2 hunter2\n",
	"JobCompPass = hunter2 \"hunter2\n", "JobCompPass==hunter2\n", "ClusterName=c JobCompPass=hunter2\n", "NodeName=n1 JobCompPass=hunter2\n",
	"StoragePass=hunter2 StorageUser=x\n", "MpiDefault=http://u:hunter2@h\n", "storagepass=x foo\\\nbar hunter2\n", "StoragePass=hunter2\xff\xfe\n",
	"Name=gpu Pass=hunter2\n", "JobCompPass hunter2 = x\n", "JobComp Pass=hunter2\n", "JobCompPass\u00a0=hunter2\n", "JobCompPass=\nhunter2\n",
	"EnergyIPMIPassword=hunter2 hunter2\n", "AccountingStoragePass=hunter2 #\n", "PartitionName=p Nodes=ALL Password=hunter2 hunter2\n",
}

// TestNoFindingTellsASecret, in no format, of no file.
func TestNoFindingTellsASecret(t *testing.T) {
	for _, kind := range slurmconf.Kinds {
		for _, leak := range leaks {
			set := setOf(t, kind, leak)
			for format, write := range report.Formats {
				var text strings.Builder
				require.NoError(t, write(&text, set.findings))
				require.NotContains(t, text.String(), "hunter2", "%s of %s: %q", format, kind, leak)
			}
		}
	}
}

// TestNoDifferenceTellsASecret, but that there is one.
func TestNoDifferenceTellsASecret(t *testing.T) {
	before := setOf(t, slurmconf.SlurmConf, "JobCompPass=hunter2\nJobCompLoc=http://u:hunter2@h\n")
	after := setOf(t, slurmconf.SlurmConf, "JobCompPass=hunter22\nJobCompLoc=http://u:hunter2@i\n")
	changes := slurmconf.Diff(before.Set, after.Set)
	require.Len(t, changes, 2)
	text, err := json.Marshal(changes)
	require.NoError(t, err)
	for _, all := range []string{string(text), fmt.Sprint(changes)} {
		require.NotContains(t, all, "hunter2")
	}
	require.Equal(t, "slurm.conf: JobCompPass: (hidden) → (hidden) (slurm.conf:4:13)", changes[1].String())
}

type judged struct {
	*slurmconf.Set
	findings slurmconf.Findings
}

// setOf is a configuration with lines in one of its files.
func setOf(t *testing.T, kind slurmconf.Kind, lines string) judged {
	t.Helper()
	dir := t.TempDir()
	files := map[slurmconf.Kind]string{slurmconf.SlurmConf: "ClusterName=c\nSlurmctldHost=h\nPartitionName=all Nodes=ALL\n"}
	files[kind] += lines
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, string(name)), []byte(text), 0o600))
	}
	set, findings := slurmconf.Read(slurmconf.Dir(dir))
	more, err := check.Set(set, check.Options{Version: keys.Versions[0]})
	require.NoError(t, err)
	return judged{set, append(findings, more...)}
}
