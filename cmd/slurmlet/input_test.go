package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
)

// TestUsage is about the command line alone.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"nothing", nil, 64, "usage: slurmlet slurmctld|slurmd"},
		{"an unknown role", []string{"slurmfoo"}, 64, `cannot play role "slurmfoo": there are slurmctld, slurmd, login, slurmdbd, slurmrestd`},
		{"an argument too many", []string{"slurmd", "-D"}, 64, `role slurmd takes no arguments, but the environment: ["-D"]`},
		{"an unknown flag of status", []string{"status", "-x"}, 64, "-x"},
		{"an unknown format", []string{"status", "-o", "yaml"}, 64, `want -o text or -o json, not "yaml"`},
		{"an argument of status", []string{"status", "n1"}, 64, `status: no arguments but flags, not ["n1"]`},
		{"status without an agent", []string{"status"}, 69, "no agent answers"},
		{"an unknown flag of drain", []string{"drain", "-x"}, 64, "-x"},
		{"an argument of drain", []string{"drain", "n1"}, 64, `drain: no arguments but flags, not ["n1"]`},
		{"drain without a reason", []string{"drain", "-reason", ""}, 64, `drain: want a reason of one line, not ""`},
		{"drain with a reason of two lines", []string{"drain", "-reason", "a\nb"}, 64, `drain: want a reason of one line, not "a\nb"`},
		{"drain without an agent", []string{"drain", "-wait"}, 69, "no agent answers"},
		{"drain, its help", []string{"drain", "-h"}, 0, "-reason text"},
		{"an unknown flag of resume", []string{"resume", "-wait"}, 64, "-wait"},
		{"an argument of resume", []string{"resume", "n1"}, 64, `resume: no arguments but flags, not ["n1"]`},
		{"resume without an agent", []string{"resume"}, 69, "no agent answers"},
		{"an unknown flag of reload", []string{"reload", "-f"}, 64, "-f"},
		{"an argument of reload", []string{"reload", "slurm.conf"}, 64, `reload: no arguments but flags, not ["slurm.conf"]`},
		{"an argument of diff", []string{"diff", "slurm.conf"}, 64, `diff: no arguments but flags, not ["slurm.conf"]`},
		{"diff without an agent", []string{"diff"}, 69, "no agent answers"},
		{"reload without an agent", []string{"reload"}, 69, "no agent answers"},
		{"check without a file", []string{"check"}, 64, "check: want files, directories or -"},
		{"check, an unknown format", []string{"check", "-o", "xml", "f"}, 64, "check: want files, directories or -"},
		{"check, an unknown version", []string{"check", "-slurm-version", "23.11", "f"}, 64, "check: want files, directories or -"},
		{"check, an unknown flag", []string{"check", "-x", "f"}, 64, "-x"},
		{"check, its help", []string{"check", "-h"}, 0, "-slurm-version version"},
		{"help", []string{"help"}, 0, ""},
		{"version", []string{"version"}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			have := surroundings{dir: "/nonexistent"}.run(t, c.args...)
			require.Equal(t, c.code, have.code, have)
			require.Contains(t, have.stderr, c.says)
		})
	}
}

// TestFaults: each message names the variable or the file, and what is allowed.
func TestFaults(t *testing.T) {
	const name = "want letters, digits, '-', '_' and '.', with a letter or a digit at both ends"
	for _, c := range []struct {
		name string
		role string
		env  string // one variable, besides what a role needs
		code int
		says []string
	}{
		{"an unknown variable", "slurmd", "SLURMLET_NODENAME=n1", 78, []string{"SLURMLET_NODENAME: no such variable; there are SLURMLET_SLURMCTLD, SLURMLET_NODE_NAME,"}},
		{"peers at a URL", "slurmd", "SLURMLET_PEERS=https://slurmlet", 78, []string{`SLURMLET_PEERS: cannot use "https://slurmlet": want the controller's host:port`}},
		{"peers in a relative directory", "slurmdbd", "SLURMLET_PEERS_DIR=peers", 78, []string{`SLURMLET_PEERS_DIR: cannot use "peers": want an absolute path`}},
		{"a machine that is none", "slurmd", "SLURMLET_MACHINE=Machine 1", 78, []string{`SLURMLET_MACHINE: cannot use "Machine 1": want the name of a Kubernetes node`}},
		{"no slurmctld", "slurmd", "SLURMLET_SLURMCTLD=", 78, []string{"SLURMLET_SLURMCTLD: slurmd needs slurmctld's host[:port]"}},
		{"the name that it had", "slurmd", "SLURMLET_CONTROLLER=ctl", 78, []string{"SLURMLET_CONTROLLER: this variable is called SLURMLET_SLURMCTLD now"}},
		{"a port that is none", "slurmd", "SLURMLET_SLURMCTLD=ctl:http", 78, []string{`SLURMLET_SLURMCTLD: cannot use "ctl:http": want host or host:port`}},
		{"port 0", "slurmd", "SLURMLET_SLURMCTLD=ctl:0", 78, []string{"SLURMLET_SLURMCTLD", "want host or host:port"}},
		{"an empty host among others", "slurmd", "SLURMLET_SLURMCTLD=a,,b", 78, []string{"SLURMLET_SLURMCTLD", "several separated by commas"}},
		{"a hostlist", "slurmd", "SLURMLET_NODE_NAME=n[1-4]", 78, []string{`SLURMLET_NODE_NAME: cannot use "n[1-4]": ` + name}},
		{"two names", "slurmd", "SLURMLET_NODE_NAME=n1,n2", 78, []string{"SLURMLET_NODE_NAME", name}},
		{"a name with a space", "slurmd", "SLURMLET_NODE_NAME=n 1", 78, []string{"SLURMLET_NODE_NAME", name}},
		{"a blank name", "slurmd", "SLURMLET_NODE_NAME= ", 78, []string{"SLURMLET_NODE_NAME", name}},
		{"a long name", "slurmd", "SLURMLET_NODE_NAME=" + strings.Repeat("n", 64), 78, []string{"SLURMLET_NODE_NAME", "want at most 63 characters, not 64"}},
		{"all nodes", "slurmd", "SLURMLET_NODE_NAME=ALL", 78, []string{"SLURMLET_NODE_NAME", "a meaning of its own in slurm.conf"}},
		{"the default", "slurmd", "SLURMLET_NODE_NAME=DEFAULT", 78, []string{"SLURMLET_NODE_NAME", "a meaning of its own in slurm.conf"}},
		{"CPUs in words", "slurmd", "SLURMLET_CPU_LIMIT=two", 78, []string{`SLURMLET_CPU_LIMIT: cannot use "two": want a positive whole number of thousandths of a CPU`}},
		{"a unit of CPUs", "slurmd", "SLURMLET_CPU_LIMIT=500m", 78, []string{"SLURMLET_CPU_LIMIT", "thousandths of a CPU"}},
		{"memory in words", "slurmd", "SLURMLET_MEMORY_LIMIT=lots", 78, []string{`SLURMLET_MEMORY_LIMIT: cannot use "lots": want a whole number of bytes, or one with Ki, Mi, Gi or Ti`}},
		{"too large a number", "slurmd", "SLURMLET_MEMORY_LIMIT=9999999999Gi", 78, []string{"SLURMLET_MEMORY_LIMIT", "want a whole number of bytes"}},
		{"a negative reserve", "slurmd", "SLURMLET_RESERVE_MEMORY=-1", 78, []string{"SLURMLET_RESERVE_MEMORY", "want a whole number of bytes"}},
		{"less memory than the reserve", "slurmd", "SLURMLET_MEMORY_LIMIT=32Mi", 78, []string{"SLURMLET_MEMORY_LIMIT: 33554432 bytes leave no memory for jobs: SLURMLET_RESERVE_MEMORY keeps 67108864 bytes"}},
		{"a machine of no size", "slurmd", "SLURMLET_SIZE=node", 78, []string{"SLURMLET_SIZE=node", "set SLURMLET_CPU_LIMIT and SLURMLET_MEMORY_LIMIT"}},
		{"a cgroup mode that is none", "slurmd", "SLURMLET_CGROUP=yes", 78, []string{`SLURMLET_CGROUP: cannot use "yes": want require, prefer or off`}},
		{"no cgroup of its own", "slurmd", "SLURMLET_CGROUP=require", 77, []string{"SLURMLET_CGROUP=require: Slurm cannot limit jobs by cgroup", "To change it, "}},
		{"a GPU's count in words", "slurmd", "SLURMLET_GRES=gpu:h200:x:2", 78, []string{`SLURMLET_GRES: cannot use "gpu:h200:x:2": want auto, none, or a list: want name[:type][:count]`}},
		{"some GPUs with a type", "slurmd", "SLURMLET_GRES=gpu:1,gpu:h200:1", 78, []string{`SLURMLET_GRES: cannot use "gpu:1,gpu:h200:1"`, "want every gpu with a type, or none"}},
		{"more GPUs than there are", "slurmd", "SLURMLET_GRES=gpu:h200:99", 78, []string{`SLURMLET_GRES: cannot use "gpu:h200:99": gpu:h200:99: the container has not that many: `}},
		{"a grace period in bare seconds", "slurmctld", "SLURMLET_GRACE_PERIOD=30", 78, []string{`SLURMLET_GRACE_PERIOD: cannot use "30": want a duration such as 30s or 10m`}},
		{"a negative grace period", "slurmctld", "SLURMLET_GRACE_PERIOD=-1s", 78, []string{"SLURMLET_GRACE_PERIOD", "want a duration such as 30s or 10m"}},
		{"a signal that is none", "slurmd", "SLURMLET_JOB_SIGNAL=USR3@60", 78, []string{`SLURMLET_JOB_SIGNAL: cannot use "USR3@60": want [B:]signal[@seconds] as of sbatch --signal`}},
		{"a signal with a unit of time", "slurmd", "SLURMLET_JOB_SIGNAL=B:USR1@1m", 78, []string{"SLURMLET_JOB_SIGNAL", "want a whole number of seconds"}},
		{"a bare port", "slurmctld", "SLURMLET_LISTEN=8817", 78, []string{`SLURMLET_LISTEN: cannot use "8817": want [host]:port`}},
		{"a relative file of accounts", "slurmctld", "SLURMLET_ACCOUNTS=accounts.yaml", 78, []string{`SLURMLET_ACCOUNTS: cannot use "accounts.yaml": want an absolute path`}},
		{"a collection in each moment", "slurmctld", "SLURMLET_CLUSTER_INTERVAL=10ms", 78, []string{"SLURMLET_CLUSTER_INTERVAL", "0 or a duration from 1s to 1h"}},
		{"reports in each moment", "slurmctld", "SLURMLET_REPORT_INTERVAL=10ms", 78, []string{`SLURMLET_REPORT_INTERVAL: cannot use "10ms": want 0 or a duration from 1s to 1h`}},
		{"an elastic node, or not", "slurmd", "SLURMLET_ELASTIC=on", 78, []string{`SLURMLET_ELASTIC: cannot use "on": want yes or no`}},
		{"leavers end, or not", "login", "SLURMLET_LEAVERS=yes", 78, []string{`SLURMLET_LEAVERS: cannot use "yes": want on or off`}},
		{"pods that are gone, or not", "slurmctld", "SLURMLET_GONE_PODS=yes", 78, []string{`SLURMLET_GONE_PODS: cannot use "yes": want on or off`}},
		{"users by a word", "slurmctld", "SLURMLET_METRICS_USERS=yes", 78, []string{"SLURMLET_METRICS_USERS", "a number from 0 to 10000"}},
		{"a port above all", "slurmctld", "SLURMLET_LISTEN=:65536", 78, []string{"SLURMLET_LISTEN", "a port from 0 to 65535"}},
		{"a relative run directory", "slurmctld", "SLURMLET_RUN_DIR=run", 78, []string{`SLURMLET_RUN_DIR: cannot use "run": want an absolute path`}},
		{"a relative configuration", "slurmctld", "SLURMLET_CONF_DIR=etc", 78, []string{"SLURMLET_CONF_DIR", "want an absolute path"}},
		{"a relative source", "slurmctld", "SLURMLET_CONF_SOURCES=/etc/slurm:etc", 78, []string{`SLURMLET_CONF_SOURCES: cannot use "/etc/slurm:etc": want absolute paths separated by colons, not "etc"`}},
		{"a socket of the page that is no path", "slurmctld", "SLURMLET_WEB_SOCKET=web.sock", 78, []string{`SLURMLET_WEB_SOCKET: cannot use "web.sock": want an absolute path`}},
		{"a preflight that is none", "slurmctld", "SLURMLET_PREFLIGHT=yes", 78, []string{`SLURMLET_PREFLIGHT: cannot use "yes": want off or parse`}},
		{"a dry run, which has gone", "slurmctld", "SLURMLET_PREFLIGHT=full", 78, []string{`SLURMLET_PREFLIGHT: cannot use "full": want off or parse; full has gone`}},
		{"defaults that are neither", "slurmctld", "SLURMLET_CONF_DEFAULTS=some", 78, []string{`SLURMLET_CONF_DEFAULTS: cannot use "some": want on or off`}},
		{"an upgrade to a version", "slurmctld", "SLURMLET_UPGRADE=26.05", 78, []string{`SLURMLET_UPGRADE: cannot use "26.05": want on or off`}},
		{"a relative place for dumps", "slurmdbd", "SLURMLET_DUMP_DIR=dumps", 78, []string{`SLURMLET_DUMP_DIR: cannot use "dumps": want an absolute path`}},
		{"a relative state", "slurmctld", "SLURMLET_STATE_DIR=state", 78, []string{"SLURMLET_STATE_DIR", "want an absolute path"}},
		{"another end of files without a job", "slurmd", "SLURMLET_LEFTOVERS=burn", 78, []string{`SLURMLET_LEFTOVERS: cannot use "burn": want keep or remove`}},
		{"another end of a job without a step", "slurmd", "SLURMLET_DEAD_STEPS=bury", 78, []string{`SLURMLET_DEAD_STEPS: cannot use "bury": want end, requeue or keep`}},
		{"a user's memory in another unit", "login", "SLURMLET_USER_MEMORY=2GB", 78, []string{`SLURMLET_USER_MEMORY: cannot use "2GB": want a whole number of bytes`}},
		{"no processes for users", "login", "SLURMLET_USER_PROCESSES=0", 78, []string{`SLURMLET_USER_PROCESSES: cannot use "0": want a number of processes from 1`}},
		{"metrics of too many jobs", "slurmd", "SLURMLET_JOB_METRICS=513", 78, []string{`SLURMLET_JOB_METRICS: cannot use "513": want a number of jobs from 0 to 512`}},
		{"metrics of fewer than no jobs", "slurmd", "SLURMLET_JOB_METRICS=-1", 78, []string{`SLURMLET_JOB_METRICS: cannot use "-1": want a number of jobs from 0 to 512`}},
		{"an agent's port in words", "slurmd", "SLURMLET_AGENT_PORT=http", 78, []string{`SLURMLET_AGENT_PORT: cannot use "http": want a port from 0 to 65535`}},
		{"a relative daemon", "slurmctld", "SLURMLET_DAEMON=slurmctld", 78, []string{"SLURMLET_DAEMON", "want an absolute path"}},
		{"a level that is none", "slurmctld", "SLURMLET_LOG_LEVEL=verbose", 78, []string{`SLURMLET_LOG_LEVEL: cannot use "verbose": want debug, info, warn or error`}},

		{"no daemon", "slurmctld", "SLURMLET_DAEMON=/nonexistent/slurmctld", 72, []string{"cannot find the program /nonexistent/slurmctld"}},
		{"nothing in PATH", "slurmd", "PATH=/nonexistent", 72, []string{
			"cannot find the program slurmd", "cannot find the program scontrol", "cannot find the program scancel", "cannot find the program squeue",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			have := newSurroundings(t, c.role, c.env).run(t, c.role)
			require.Equal(t, c.code, have.code, have)
			require.Empty(t, have.stderr)
			for _, says := range c.says {
				require.NoError(t, logOf(have).find(entry{"level": "ERROR", "source": "slurmlet", "error": says}), have.stdout)
			}
		})
	}
}

// newSurroundings are enough for a role; a variable that is given replaces what is there.
func newSurroundings(t *testing.T, role string, more ...string) surroundings {
	t.Helper()
	s := surroundings{dir: newStage(t)}
	s.env = []string{"SLURMLET_SLURM_USER=root"}
	if role == "slurmd" {
		s.env = append(s.env, "SLURMLET_SLURMCTLD=127.0.0.1:1", "SLURMLET_NODE_NAME=n1")
	}
	s.env = append(s.env, more...)
	return s
}

func logOf(o outcome) *logbook {
	l := new(logbook)
	_, _ = l.Write([]byte(o.stdout))
	return l
}

// TestAllFaults: one run tells everything, a line for each. TestEveryVariableRefuses (agent) has all variables.
func TestAllFaults(t *testing.T) {
	t.Parallel()
	faulty := []string{
		"SLURMLET_SLURMCTLD=:", "SLURMLET_NODE_NAME=a b", "SLURMLET_CPU_LIMIT=0", "SLURMLET_MEMORY_LIMIT=1G", "SLURMLET_RESERVE_MEMORY=x", "SLURMLET_GRES=gpu:",
		"SLURMLET_STORAGE_LIMIT=x", "SLURMLET_SPOOL_DIR=x", "SLURMLET_TMP_DIR=x", "SLURMLET_GRACE_PERIOD=x", "SLURMLET_JOB_SIGNAL=x", "SLURMLET_LISTEN=x", "SLURMLET_RUN_DIR=x", "SLURMLET_CONF_DIR=x", "SLURMLET_DAEMON=x",
		"SLURMLET_LOG_LEVEL=x", "SLURMLET_X=x",
	}
	have := newSurroundings(t, "slurmd", faulty...).run(t, "slurmd")
	require.Equal(t, agent.ExitConfig, have.code, have)
	for _, variable := range faulty {
		name, _, _ := strings.Cut(variable, "=")
		require.NoError(t, logOf(have).find(entry{"error": name + ": "}), have.stdout)
	}
}

// TestMissing: what the container lacks is told in one run, too.
func TestMissing(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/run/munge/munge.socket.2"); err == nil || os.Getuid() != 0 {
		t.Skip("needs root, and no munged")
	}
	have := newSurroundings(t, "slurmctld", "PATH=/nonexistent", "SLURMLET_CONF_DIR=/nonexistent", "SLURMLET_SLURM_USER=nosuchuser").run(t, "slurmctld")
	require.Equal(t, agent.ExitMissing, have.code, have)
	for _, says := range []string{
		"cannot find the program slurmctld",
		"cannot find the program scontrol",
		"cannot find the cluster's key: there is neither /nonexistent/slurm.key nor /nonexistent/slurm.jwks (auth/slurm), nor munged's socket",
		`SLURMLET_SLURM_USER: cannot find the user "nosuchuser" in /etc/passwd`,
	} {
		require.NoError(t, logOf(have).find(entry{"level": "ERROR", "source": "slurmlet", "error": says}), have.stdout)
	}
}

// TestOpenKey: a key that every user of the container can read is refused before
// anything is started with it.
func TestOpenKey(t *testing.T) {
	t.Parallel()
	s := newSurroundings(t, "slurmd")
	key := filepath.Join(s.dir, "conf", "slurm.key")
	require.NoError(t, os.Chmod(key, 0o644))
	have := s.run(t, "slurmd")
	require.Equal(t, agent.ExitMissing, have.code, have)
	require.NoError(t, logOf(have).find(entry{"level": "ERROR", "error": "cannot use the cluster's key: " + key + " has mode 0644"}), have.stdout)
}

// TestPathsInTheWay are failures of the agent itself.
func TestPathsInTheWay(t *testing.T) {
	t.Run("the port is in use", func(t *testing.T) {
		t.Parallel()
		port := usedPort(t)
		have := newSurroundings(t, "slurmctld", "SLURMLET_LISTEN="+port).run(t, "slurmctld")
		require.Equal(t, agent.ExitFailure, have.code, have)
		require.NoError(t, logOf(have).find(entry{"error": "SLURMLET_LISTEN: listen tcp " + port}), have.stdout)
		require.NoError(t, logOf(have).find(entry{"error": "address already in use"}), have.stdout)
	})
	t.Run("the run directory is a file", func(t *testing.T) {
		t.Parallel()
		s := newSurroundings(t, "slurmctld")
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, "run"), nil, 0o600))
		have := s.run(t, "slurmctld")
		require.Equal(t, agent.ExitFailure, have.code, have)
		require.NoError(t, logOf(have).find(entry{"error": "cannot make SLURMLET_RUN_DIR"}), have.stdout)
	})
}

// TestServiceLinks: what Kubernetes makes of a Service named slurmlet or slurmlet-controller is none of our variables.
func TestServiceLinks(t *testing.T) {
	t.Parallel()
	play(t, given{role: "slurmctld", env: []string{
		"SLURMLET_SERVICE_HOST=10.0.0.1", "SLURMLET_SERVICE_PORT=6817", "SLURMLET_SERVICE_PORT_SLURMCTLD=6817",
		"SLURMLET_PORT=tcp://10.0.0.1:6817", "SLURMLET_PORT_6817_TCP=tcp://10.0.0.1:6817", "SLURMLET_PORT_6817_TCP_PROTO=tcp",
		"SLURMLET_PORT_6817_TCP_PORT=6817", "SLURMLET_PORT_6817_TCP_ADDR=10.0.0.1", "SLURMLET_CONTROLLER_SERVICE_HOST=10.0.0.2",
		"SLURMLET_CONTROLLER_PORT_6817_TCP_ADDR=10.0.0.2",
	}}, phase{"it is Ready", nil, []condition{isReady}})
}
