package reconfig

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// inDryRun is a dry run of these files.
func inDryRun(t *testing.T, files map[string]string) *dryRun {
	t.Helper()
	root := fstest.MapFS{}
	for name, text := range files {
		root["c/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	conf, findings := slurmconf.Read(slurmconf.In(root, "/c"), slurmconf.SlurmConf)
	require.NoError(t, findings.Err())
	return &dryRun{set: candidate{conf: conf}, dir: "/t", port: 4000}
}

// ownInDryRun are the settings of every dry run.
const ownInDryRun = "SlurmctldPort=4000\nStateSaveLocation=/t/state\nSlurmctldPidFile=/t/pid\nSlurmctldDebug=info\nSlurmctldSyslogDebug=quiet\nMailProg=/bin/true\n"

func TestDryRunText(t *testing.T) {
	here, err := os.Hostname()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		files      map[string]string
		kept, gets string
	}{
		"what harms nobody":               {files: map[string]string{"slurm.conf": "ClusterName=c\nTaskPlugin=task/none # ours\nTaskProlog=/a\\#b\n"}, kept: "ClusterName=c\nTaskPlugin=task/none # ours\nTaskProlog=/a\\#b\n"},
		"an Include":                      {files: map[string]string{"slurm.conf": "KillWait=1\nInclude more.conf\nWaitTime=2\n", "more.conf": "statesavelocation=/x\nMinJobAge=3\n"}, kept: "KillWait=1\nMinJobAge=3\nWaitTime=2\n"},
		"a file that a backslash ends":    {files: map[string]string{"slurm.conf": "Include more.conf\nWaitTime=2\n", "more.conf": "MinJobAge=3\\"}, kept: "MinJobAge=3\\\n\nWaitTime=2\n"},
		"this host":                       {files: map[string]string{"slurm.conf": "SlurmctldHost=a\nSlurmctldHost=" + here + "(10.0.0.1)\n"}, gets: "SlurmctldHost=" + here + "(127.0.0.1)\n"},
		"another host":                    {files: map[string]string{"slurm.conf": "SlurmctldHost=a(10.0.0.1)\n"}, gets: "SlurmctldHost=a(127.0.0.1)\n"},
		"hosts as they were named before": {files: map[string]string{"slurm.conf": "ControlMachine=a\nControlAddr=b\nBackupController=d\n"}, gets: "SlurmctldHost=a(127.0.0.1)\n"},
		"auth/slurm":                      {files: map[string]string{"slurm.conf": "AuthType=auth/slurm\n"}, kept: "AuthType=auth/slurm\n", gets: "AuthInfo=disable_sack\n"},
		"auth/slurm with more":            {files: map[string]string{"slurm.conf": "AuthType=auth/slurm\nAuthInfo=use_client_ids\n"}, kept: "AuthType=auth/slurm\n", gets: "AuthInfo=use_client_ids,disable_sack\n"},
		"auth/munge":                      {files: map[string]string{"slurm.conf": "AuthType=auth/munge\nAuthInfo=socket=/x\n"}, kept: "AuthType=auth/munge\n", gets: "AuthInfo=socket=/x\n"},
		"programs":                        {files: map[string]string{"slurm.conf": "ResumeProgram=/x\nResumeFailProgram=/x\nSlurmctldPrimaryOffProg=/x\n"}, gets: "ResumeProgram=/bin/true\n"},
		"nodes":                           {files: map[string]string{"slurm.conf": "NodeName=DEFAULT CPUs=2\nNodeName=a,b[1-2] Feature=x # y\n"}, kept: "NodeName=DEFAULT CPUs=2\nNodeName=a,b[1-2] Feature=x NodeAddr=127.0.0.1\n"},
		"nodes with addresses":            {files: map[string]string{"slurm.conf": "NodeName=a[1-2] nodeaddr=b[1-2] CPUs=2\nNodeName=c NodeAddr=d\n"}, kept: "NodeName=a[1-2] CPUs=2 NodeAddr=127.0.0.1\nNodeName=c NodeAddr=127.0.0.1\n"},
		"nodes with too few addresses":    {files: map[string]string{"slurm.conf": "NodeName=a[1-3] NodeAddr=b[1-2]\n"}, kept: "NodeName=a[1-3] NodeAddr=b[1-2]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			have, kept := strings.CutPrefix(inDryRun(t, c.files).text(), c.kept)
			require.True(t, kept, have)
			want := strings.Split(c.gets+ownInDryRun, "\n")
			require.ElementsMatch(t, want, strings.Split(have, "\n"))
		})
	}
}

// TestDryRunRead: slurmctld is given the same configuration as the candidate, but for the settings of the dry run.
func TestDryRunRead(t *testing.T) {
	const conf = "ClusterName=c\nPluginDir=\"/a b\"\nNodeName=a[1-2] \\\n Feature=\"x,y\" Reason=\"it's \\\\ here\"\nPartitionName=p Nodes=ALL\n"
	given := inDryRun(t, map[string]string{"slurm.conf": conf})
	after := inDryRun(t, map[string]string{"slurm.conf": given.text()})
	require.Equal(t, given.slurmConf().Nodes()[0].Features, after.slurmConf().Nodes()[0].Features)
	reason, _ := after.slurmConf().Nodes()[0].Get("Reason")
	require.Equal(t, `it's \ here`, reason.Value)
	require.Equal(t, after.text(), inDryRun(t, map[string]string{"slurm.conf": after.text()}).text(), "nothing is left to be changed")
}

// TestDryRunResult: what is not the configuration's fault refuses nothing.
func TestDryRunResult(t *testing.T) {
	const accounted = "AccountingStorageType=accounting_storage/slurmdbd\n"
	exit := process.Status{Code: 1}
	for _, c := range []struct {
		name, conf, said string
		status           process.Status
		why, fault       string
	}{
		{"a fault", "", "Invalid Port 0", exit, "Invalid Port 0", ""},
		{"a fault without a word", "", "", exit, "exit code 1", ""},
		{"a crash", "", "", process.Status{Signal: unix.SIGSEGV}, "killed by SIGSEGV", ""},
		{"the kernel's OOM killer", "", "Invalid Port 0", process.Status{Signal: unix.SIGKILL}, "", "short of memory"},
		{"a port that was free a moment ago", "", "Unable to listen to file descriptors. Existing slurmctld process likely already is listening on the ports.", exit, "", "another process has taken its port 4000"},
		{"a QOS that slurmdbd may have", accounted, "Partition q has an invalid qos (new), please check your configuration", exit, "", "slurmdbd may know better"},
		{"a QOS without a slurmdbd", "", "Partition q has an invalid qos (new), please check your configuration", exit, "Partition q has an invalid qos (new), please check your configuration", ""},
		{"a TRES that slurmdbd is to be told of", accounted, "Problem adding tres to the database, can't continue until database is able to make new tres", exit, "", "slurmdbd may know better"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tried := inDryRun(t, map[string]string{"slurm.conf": c.conf})
			if c.said != "" {
				tried.said.besides = "/t/state/"
				tried.said.hear(process.Line{Level: process.LevelFatal, Text: c.said})
			}
			why, err := tried.result(c.status)
			require.Equal(t, c.why, why)
			if c.fault == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.fault)
			}
		})
	}
}

func TestLastWords(t *testing.T) {
	for _, c := range []struct{ said, want string }{
		{"", ""},
		{"info: it begins", ""},
		{"error: MailProg is invalid\ninfo: going on\nfatal: no plugin", "no plugin"},
		{"info: going on\nerror: not found\nerror: not found\nerror: cannot create\nfatal: no plugin", "not found; cannot create; no plugin"},
		{"error: no controller\ninfo: bye", "no controller"},
		{"error: /t/state/jobs is not there\nerror: NOTE: Trying backup state save file.\nfatal: bad", "bad"},
		{"error: High latency for 1000 calls to gettimeofday(): 999 microseconds\nerror: Job accounting information gathered, but not stored\nfatal: bad", "bad"},
		{"error: 1\nerror: 2\nerror: 3\nerror: 4\nfatal: 5", "2; 3; 4; 5"},
	} {
		w := lastWords{besides: "/t/state/"}
		for line := range strings.SplitSeq(c.said, "\n") {
			level, text, _ := strings.Cut(line, ": ")
			w.hear(process.Line{Level: map[string]slog.Level{"error": slog.LevelError, "fatal": process.LevelFatal}[level], Text: text})
		}
		require.Equal(t, c.want, w.String(), c.said)
	}
}
