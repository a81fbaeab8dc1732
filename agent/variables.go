package agent

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
	"github.com/slurmlet/slurmlet/internal/slurmd/cgroups"
	"github.com/slurmlet/slurmlet/internal/slurmd/devices"
	"github.com/slurmlet/slurmlet/internal/slurmd/jobs"
	"github.com/slurmlet/slurmlet/internal/slurmd/userfiles"
	"github.com/slurmlet/slurmlet/internal/slurmdbd"
)

// variable is one SLURMLET_* variable: a row of docs/reference/settings.md, which TestReference writes.
type variable struct {
	name     string
	roles    []Role // nil: all
	fallback string
	// text is what it means, in Markdown whose links lead from docs/reference.
	text  string
	parse func(c *Config, value string) error
}

func (v variable) meant(role Role) bool { return v.roles == nil || slices.Contains(v.roles, role) }

var variables = []variable{
	{"SLURMLET_SLURMCTLD", []Role{Slurmd, Login}, "", "slurmctld's host[:port], several separated by commas; the " +
		"port is 6817 unless given; with SLURMLET_PEERS it may be left out", func(c *Config, v string) (err error) {
		c.Slurmctld, err = parseSlurmctlds(v)
		return err
	}},
	{"SLURMLET_NODE_NAME", []Role{Slurmd}, hostname(), "the node's name in Slurm", func(c *Config, v string) error {
		c.NodeName = v
		return nil
	}},
	{"SLURMLET_CPU_LIMIT", []Role{Slurmd}, "", "the container's CPU limit in thousandths of a CPU: " +
		"resourceFieldRef limits.cpu, divisor 1m", func(c *Config, v string) (err error) {
		c.CPULimit, err = nodesize.ParseMillicores(v)
		return err
	}},
	{"SLURMLET_MEMORY_LIMIT", []Role{Slurmd}, "", "the container's memory limit in bytes, or with Ki, Mi, Gi, Ti: " +
		"resourceFieldRef limits.memory", func(c *Config, v string) (err error) {
		c.MemoryLimit, err = nodesize.ParseBytes(v)
		return err
	}},
	{"SLURMLET_RESERVE_MEMORY", []Role{Slurmd}, "64Mi", "memory that jobs do not get, for the agent and slurmd, in " +
		"bytes or with Ki, Mi, Gi, Ti", func(c *Config, v string) (err error) {
		c.Reserve, err = nodesize.ParseBytes(v)
		return err
	}},
	{"SLURMLET_SIZE", []Role{Slurmd}, "pod", "`pod`: the node has what its pod may use; `node`: what the machine can give to " +
		"pods, which SLURMLET_CPU_LIMIT and SLURMLET_MEMORY_LIMIT say where the container has no limits, less " +
		"SLURMLET_OTHERS_CPU and SLURMLET_OTHERS_MEMORY, whatever CPUs the kubelet takes away", func(c *Config, v string) (err error) {
		c.SharesMachine, err = parseSize(v)
		return err
	}},
	{"SLURMLET_OTHERS_CPU", []Role{Slurmd}, "0", "CPUs that the machine's other pods have, with SLURMLET_SIZE=node: a quantity " +
		"of Kubernetes, as in 1500m", func(c *Config, v string) (err error) {
		c.Others.CPU, err = nodesize.ParseQuantity(v, 1000)
		return err
	}},
	{"SLURMLET_OTHERS_MEMORY", []Role{Slurmd}, "0", "memory that the machine's other pods have, with SLURMLET_SIZE=node: a " +
		"quantity of Kubernetes, as in 4Gi", func(c *Config, v string) (err error) {
		c.Others.Memory, err = nodesize.ParseQuantity(v, 1)
		return err
	}},
	{"SLURMLET_CGROUP", []Role{Slurmd, Login}, string(cgroup.Prefer), "`require`: exit with 77 if Slurm cannot " +
		"limit jobs by cgroup, or sessions have none; `prefer`: report it; `off`: leave " +
		"cgroups alone", func(c *Config, v string) (err error) {
		c.CgroupMode, err = cgroup.ParseMode(v)
		return err
	}},
	{"SLURMLET_STORAGE_LIMIT", []Role{Slurmd}, "", "the container's limit of local disk in bytes, or with Ki, Mi, " +
		"Gi, Ti: resourceFieldRef limits.ephemeral-storage", func(c *Config, v string) (err error) {
		c.StorageLimit, err = nodesize.ParseBytes(v)
		return err
	}},
	{"SLURMLET_SPOOL_DIR", []Role{Slurmd}, "/var/spool/slurmd", "slurm.conf's SlurmdSpoolDir, an " +
		"absolute path", func(c *Config, v string) error {
		c.SpoolDir = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_TMP_DIR", []Role{Slurmd}, "/tmp", "slurm.conf's TmpFS, an absolute path", func(c *Config, v string) error {
		c.TmpDir = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_OOM_GROUP", []Role{Slurmd}, string(cgroups.OOMGroupClear), "`clear` the container's " +
		"memory.oom.group, so that a job at the pod's limit does not take slurmd with it; " +
		"or `keep`", func(c *Config, v string) (err error) {
		c.OOMGroup, err = cgroups.ParseOOMGroup(v)
		return err
	}},
	{"SLURMLET_OOM_HEADROOM", []Role{Slurmd}, "32Mi", "memory that a job's cgroup gets above its steps' limit, for " +
		"slurmstepd, in bytes or with Ki, Mi, Gi, Ti; 0 for none", func(c *Config, v string) (err error) {
		c.OOMHeadroom, err = nodesize.ParseBytes(v)
		return err
	}},
	{"SLURMLET_LEFTOVERS", []Role{Slurmd}, string(userfiles.LeftoversKeep), "files in /tmp, /var/tmp, /dev/shm and " +
		"TmpFS of users whose jobs on the node are over: `keep` or `remove`", func(c *Config, v string) (err error) {
		c.Leftovers, err = userfiles.ParseLeftovers(v)
		return err
	}},
	{"SLURMLET_DEAD_STEPS", []Role{Slurmd}, string(jobs.DeadStepsEnd), "a job that has lost a slurmstepd: `end` " +
		"(cancel it), `requeue` (if it is a batch job that allows it, otherwise end) or `keep`", func(c *Config, v string) (err error) {
		c.DeadSteps, err = jobs.ParseDeadSteps(v)
		return err
	}},
	{"SLURMLET_JOB_METRICS", []Role{Slurmd}, "0", "how many jobs have metrics of their own, by their numbers, from " +
		"0 to 512: those that began first; see [What a node's jobs " +
		"use](metrics.md#what-a-nodes-jobs-use)", func(c *Config, v string) (err error) {
		c.JobMetrics, err = parseJobMetrics(v)
		return err
	}},
	{"SLURMLET_GRES", []Role{Slurmd}, "auto", "generic resources: `auto` (the GPUs that the agent finds), `none`, " +
		"or name[:type][:count],… with no more GPUs than the agent finds", func(c *Config, v string) (err error) {
		c.GresChoice, err = devices.ParseChoice(v)
		return err
	}},
	{"SLURMLET_JOB_CONTAINERS", []Role{Slurmd}, "", "the program that makes jobs' containers, as in " +
		"/usr/local/bin/slurmlet-container: the agent asks it at its start whether it can, and the node has the feature " +
		"`containers` then; see [Jobs in containers](../install/job-containers.md)", func(c *Config, v string) error {
		if c.JobContainers = v; v == "" {
			return nil
		}
		return checkAbsolute(v)
	}},
	{"SLURMLET_GRACE_PERIOD", nil, "30s", "the time from SIGTERM to SIGKILL, as in terminationGracePeriodSeconds: " +
		"a duration such as 30s or 10m", func(c *Config, v string) (err error) {
		c.Grace, err = nodesize.ParseGracePeriod(v)
		return err
	}},
	{"SLURMLET_JOB_SIGNAL", []Role{Slurmd}, "", "a signal that jobs get some time before they are requeued, as in " +
		"sbatch --signal: [B:]signal[@seconds]", func(c *Config, v string) (err error) {
		c.JobSignal, err = jobs.ParseSignal(v)
		return err
	}},
	{"SLURMLET_LISTEN", nil, ":8817", "[host]:port of the agent's HTTP port, with /livez, /readyz, /startupz, " +
		"/metrics and a short /status", func(c *Config, v string) error {
		c.Listen = v
		return checkAddress(v)
	}},
	{"SLURMLET_RUN_DIR", nil, DefaultRunDir, "the directory of the agent's sockets, of gres.conf and of the live " +
		"set, an absolute path", func(c *Config, v string) error {
		c.RunDir = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_CONF_DIR", nil, "/etc/slurm", "Slurm's configuration directory, an absolute path", func(c *Config, v string) error {
		c.ConfDir = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_CONF_SOURCES", []Role{Slurmctld}, "", "directories with slurm.conf and what goes with it, absolute " +
		"paths separated by colons", func(c *Config, v string) (err error) {
		c.ConfSources, err = parseSources(cmp.Or(v, c.ConfDir))
		return err
	}},
	{"SLURMLET_CONF_DEFAULTS", []Role{Slurmctld}, "on", "`on` adds what a cluster of pods needs and slurm.conf " +
		"does not set; or `off`", func(c *Config, v string) (err error) {
		c.ConfDefaults, err = parseSwitch(v)
		return err
	}},
	{"SLURMLET_ELASTIC_SETS", []Role{Slurmctld}, "", "a directory with a file NAME.json for each set of nodes that " +
		"Slurm itself starts and ends, an absolute path; see [Elastic node sets](../run/elastic.md)", func(c *Config, v string) error {
		c.ElasticSets = v
		if v == "" {
			return nil
		}
		return checkAbsolute(v)
	}},
	{"SLURMLET_ACCOUNTS", []Role{Slurmctld}, "", "a file of accounts, QOS, users and limits that slurmdbd is to have, an " +
		"absolute path; see [Accounts](../run/accounts.md)", func(c *Config, v string) error {
		c.Accounts = v
		if v == "" {
			return nil
		}
		return checkAbsolute(v)
	}},
	{"SLURMLET_PREFLIGHT", []Role{Slurmctld}, string(reconfig.PreflightParse), "how the agent checks an edit " +
		"before slurmctld gets it: `off` or `parse` (its own rules, and Slurm's parser)", func(c *Config, v string) (err error) {
		c.Preflight, err = reconfig.ParsePreflight(v)
		return err
	}},
	{"SLURMLET_UPGRADE", []Role{Slurmctld, Slurmdbd}, "off", "`on`: Slurm may convert what an older version has " +
		"saved, and cannot go back; see [Upgrade Slurm](../run/upgrade.md); or `off`", func(c *Config, v string) (err error) {
		c.Upgrade, err = parseSwitch(v)
		return err
	}},
	{"SLURMLET_DUMP_DIR", []Role{Slurmdbd}, "", "a directory on a volume, an absolute path, for a dump of the database before " +
		"a newer slurmdbd converts it, which it cannot without; or `off`: you have made one", func(c *Config, v string) error {
		c.DumpDir = v
		if v == "" || v == slurmdbd.NoDump {
			return nil
		}
		return checkAbsolute(v)
	}},
	{"SLURMLET_STATE_DIR", []Role{Slurmctld}, DefaultStateDir, "a volume, an absolute path: the last good " +
		"configuration is in slurmlet/, slurmctld's state in state/ (at its top if it is there already), unless " +
		"slurm.conf names another place", func(c *Config, v string) error {
		c.StateDir = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_CLUSTER_INTERVAL", []Role{Slurmctld}, "15s", "the least time between two collections of what the " +
		"cluster does, which slurmctld is asked for when somebody wants to know: a duration from 1s to 1h; 0: " +
		"slurmctld is never asked", func(c *Config, v string) (err error) {
		c.ClusterInterval, err = parseClusterInterval(v)
		return err
	}},
	{"SLURMLET_METRICS_USERS", []Role{Slurmctld}, "0", "how many users and accounts have metrics of their own, " +
		"which everybody may read who reaches SLURMLET_LISTEN; 0: none", func(c *Config, v string) (err error) {
		c.MetricsUsers, err = parseMetricsUsers(v)
		return err
	}},
	{"SLURMLET_WEB_SOCKET", []Role{Slurmctld}, "", "a unix socket for `slurmlet-web`, an absolute path; see [The " +
		"status page](../run/status-page.md)", func(c *Config, v string) error {
		c.WebSocket = v
		if v == "" {
			return nil
		}
		return checkAbsolute(v)
	}},
	{"SLURMLET_REPORT_INTERVAL", []Role{Slurmctld}, "10s", "how often slurmctld's agent looks at the nodes for " +
		"slurmlet's controller, while it is connected: a duration from 1s to 1h; 0: never", func(c *Config, v string) (err error) {
		c.ReportInterval, err = parseClusterInterval(v)
		return err
	}},
	{"SLURMLET_GONE_PODS", []Role{Slurmctld}, "on", "`on`: records of pods that are gone are deleted, and jobs of " +
		"machines that are gone are requeued; `off`: both are left to slurmctld", func(c *Config, v string) (err error) {
		c.GonePods, err = parseSwitch(v)
		return err
	}},
	{"SLURMLET_LEAVERS", []Role{Slurmctld, Login}, "on", "`on`: jobs and sessions of those end who are taken out of the users, or whom " +
		"the directory no longer lets in; see [Users](../run/users.md#a-leaver); `off`: both go on", func(c *Config, v string) (err error) {
		c.EndLeavers, err = parseSwitch(v)
		return err
	}},
	{"SLURMLET_MERGE", []Role{Slurmd}, "on", "`on`: slurmctld's agent makes one change of those that many nodes " +
		"ask for at once; `off`: each agent runs scontrol", func(c *Config, v string) (err error) {
		c.Merge, err = parseSwitch(v)
		return err
	}},
	{"SLURMLET_ELASTIC", []Role{Slurmd}, "no", "`yes`: the pod is a node of an elastic set, which Slurm starts and " +
		"ends; `no`: it is not", func(c *Config, v string) (err error) {
		c.Elastic, err = parseYesNo(v)
		return err
	}},
	{"SLURMLET_AGENT_PORT", []Role{Slurmd, Login}, "8817", "the port of slurmctld's agent, from which the agent " +
		"learns that slurmd or sackd has missed a configuration, and that slurmctld starts anew; 0: the agent " +
		"asks nobody", func(c *Config, v string) (err error) {
		c.AgentPort, err = parsePort(v)
		return err
	}},
	{"SLURMLET_PEERS", nil, "", "host:port of slurmlet's controller, which sends the cluster's pods; without one, " +
		"names come from DNS; see [Names of pods](../run/names-of-pods.md)", func(c *Config, v string) error {
		c.Peers = v
		return checkPeersAddress(v)
	}},
	{"SLURMLET_PEERS_DIR", nil, "/etc/slurmlet/peers", "a directory with the controller's CA (ca.crt) and the " +
		"pod's token for it (token, mode 0400), an absolute path", func(c *Config, v string) error {
		c.PeersDir = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_HOLDS", []Role{Slurmd}, "off", "`on`: jobs that stand for Kubernetes' pods keep the node until these are gone; " +
		"it needs SLURMLET_PEERS, and slurm.conf's Prolog and Epilog of the chart; `off`: they do not", func(c *Config, v string) (err error) {
		c.Holds, err = parseSwitch(v)
		return err
	}},
	{"SLURMLET_GATEWAY_USERS", []Role{Login}, "", "users, separated by commas, for whom slurmlet's controller may submit jobs that " +
		"stand for Kubernetes' pods; it needs SLURMLET_PEERS; empty: it submits none here", func(c *Config, v string) (err error) {
		c.GatewayUsers, err = parseUsers(v)
		return err
	}},
	{"SLURMLET_GATEWAY_MIN_UID", []Role{Login}, "1000", "the least uid that one of these users may have, from 1", func(c *Config, v string) (err error) {
		c.GatewayLeastUID, err = parseLeastUID(v)
		return err
	}},
	{"SLURMLET_MACHINE", []Role{Slurmd}, "", "the Kubernetes node: fieldRef spec.nodeName. The agent then lifts " +
		"the drain of a cordoned machine that its pod has left", func(c *Config, v string) error {
		c.Machine = v
		return checkMachine(v)
	}},
	{"SLURMLET_PODINFO_DIR", []Role{Slurmd}, "/etc/podinfo", "the mount path of a downward-API volume with labels, " +
		"annotations, cpu_limit and mem_limit, an absolute path", func(c *Config, v string) error {
		c.PodInfo = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_DAEMON", nil, "", "the daemon's absolute path", func(c *Config, v string) error {
		c.Daemon = v
		if v == "" {
			return nil
		}
		return checkAbsolute(v)
	}},
	{"SLURMLET_DAEMON_ARGS", nil, "", "further arguments for the daemon, separated by spaces", func(c *Config, v string) error {
		c.DaemonArgs = strings.Fields(v)
		return nil
	}},
	{"SLURMLET_SSH", []Role{Slurmd}, "no", "`yes`: the agent runs sshd, which lets users in who have a job on this node, " +
		"and puts what they start into that job; see [ssh into a job's node](../run/ssh.md); " +
		"`no`: it does not", func(c *Config, v string) (err error) {
		c.SSH, err = parseYesNo(v)
		return err
	}},
	{"SLURMLET_USER_MEMORY", []Role{Login}, "", "what all processes of one user may have of a login pod's memory, in bytes or with Ki, " +
		"Mi, Gi, Ti; empty: half of the container's limit, or of the machine's memory", func(c *Config, v string) (err error) {
		c.UserLimits.Memory, err = nodesize.ParseBytes(v)
		return err
	}},
	{"SLURMLET_USER_PROCESSES", []Role{Login}, "", "how many processes and threads one user may have in a login pod, from 1; empty: " +
		"half of the container's pids.max, and 1,000 at most", func(c *Config, v string) (err error) {
		c.UserLimits.Processes, err = parseProcesses(v)
		return err
	}},
	{"SLURMLET_SSHD_CONFIG", []Role{Slurmd, Login}, "/etc/ssh/sshd_config", "sshd's configuration file, an " +
		"absolute path", func(c *Config, v string) error {
		c.SSHDConfig = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_SSH_HOST_KEYS", []Role{Slurmd, Login}, "/var/lib/slurmlet/ssh", "a directory with ssh_host_…_key files, an " +
		"absolute path", func(c *Config, v string) error {
		c.HostKeys = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_SSH_AUTHORIZED_KEYS", []Role{Slurmd, Login}, "/etc/slurmlet/authorized_keys", "a directory with one file of " +
		"authorized keys for each user, an absolute path", func(c *Config, v string) error {
		c.AuthorizedKeys = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_SSSD_CONFIG", []Role{Slurmd, Login}, "/etc/sssd/sssd.conf", "sssd's configuration file, an absolute " +
		"path; the agent runs sssd if the file exists", func(c *Config, v string) error {
		c.SSSDConfig = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_REST_USER", []Role{Slurmrestd}, "daemon", "the user that runs slurmrestd, which refuses root, " +
		"SlurmUser and nobody", func(c *Config, v string) error {
		c.RESTUser = v
		if slices.Contains([]string{"root", "nobody"}, v) {
			return errors.New("slurmrestd does not run as root or nobody")
		}
		return nil
	}},
	{"SLURMLET_REST_LISTEN", []Role{Slurmrestd}, ":6820", "[host]:port of slurmrestd", func(c *Config, v string) error {
		c.RESTListen = v
		return checkAddress(v)
	}},
	{"SLURMLET_REST_AUTH", []Role{Slurmrestd}, "rest_auth/jwt", "slurmrestd's authentication plugins, separated by " +
		"commas: rest_auth/jwt, rest_auth/local", func(c *Config, v string) error {
		c.RESTAuth = v
		return checkList(v)
	}},
	{"SLURMLET_REST_OPENAPI", []Role{Slurmrestd}, "slurmctld,slurmdbd", "slurmrestd's OpenAPI plugins, separated " +
		"by commas", func(c *Config, v string) error {
		c.RESTOpenAPI = v
		return checkList(v)
	}},
	{"SLURMLET_SLURM_USER", []Role{Slurmctld, Login, Slurmdbd}, "slurm", "the user that runs slurmctld, sackd and " +
		"slurmdbd, slurm.conf's SlurmUser", func(c *Config, v string) error {
		c.SlurmUser = v
		return nil
	}},
	{"SLURMLET_LOG_LEVEL", nil, "info", "debug, info, warn or error", func(c *Config, v string) (err error) {
		c.LogLevel, err = parseLevel(v)
		return err
	}},
}
