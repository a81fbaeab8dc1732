package agent

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
	"github.com/slurmlet/slurmlet/internal/slurmd/devices"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// variable is one SLURMLET_* variable: the line of the package comment as code.
type variable struct {
	name     string
	roles    []Role // nil: all
	fallback string
	parse    func(c *Config, value string) error
}

func (v variable) meant(role Role) bool { return v.roles == nil || slices.Contains(v.roles, role) }

var variables = []variable{
	{"SLURMLET_CONTROLLER", []Role{Slurmd, Login}, "", func(c *Config, v string) (err error) {
		c.Controller, err = parseControllers(v)
		return err
	}},
	{"SLURMLET_NODE_NAME", []Role{Slurmd}, hostname(), func(c *Config, v string) error {
		c.NodeName = v
		return nil
	}},
	{"SLURMLET_CPU_LIMIT", []Role{Slurmd}, "", func(c *Config, v string) (err error) {
		c.CPULimit, err = nodesize.ParseMillicores(v)
		return err
	}},
	{"SLURMLET_MEMORY_LIMIT", []Role{Slurmd}, "", func(c *Config, v string) (err error) {
		c.MemoryLimit, err = nodesize.ParseBytes(v)
		return err
	}},
	{"SLURMLET_RESERVE_MEMORY", []Role{Slurmd}, "64Mi", func(c *Config, v string) (err error) {
		c.Reserve, err = nodesize.ParseBytes(v)
		return err
	}},
	{"SLURMLET_CGROUP", []Role{Slurmd, Login}, string(CgroupPrefer), func(c *Config, v string) (err error) {
		c.CgroupMode, err = parseCgroupMode(v)
		return err
	}},
	{"SLURMLET_STORAGE_LIMIT", []Role{Slurmd}, "", func(c *Config, v string) (err error) {
		c.StorageLimit, err = nodesize.ParseBytes(v)
		return err
	}},
	{"SLURMLET_SPOOL_DIR", []Role{Slurmd}, "/var/spool/slurmd", func(c *Config, v string) error {
		c.SpoolDir = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_TMP_DIR", []Role{Slurmd}, "/tmp", func(c *Config, v string) error {
		c.TmpDir = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_OOM_GROUP", []Role{Slurmd}, string(OOMGroupClear), func(c *Config, v string) (err error) {
		c.OOMGroup, err = parseOOMGroup(v)
		return err
	}},
	{"SLURMLET_OOM_HEADROOM", []Role{Slurmd}, "32Mi", func(c *Config, v string) (err error) {
		c.OOMHeadroom, err = nodesize.ParseBytes(v)
		return err
	}},
	{"SLURMLET_LEFTOVERS", []Role{Slurmd}, string(LeftoversKeep), func(c *Config, v string) (err error) {
		c.Leftovers, err = parseLeftovers(v)
		return err
	}},
	{"SLURMLET_DEAD_STEPS", []Role{Slurmd}, string(DeadStepsEnd), func(c *Config, v string) (err error) {
		c.DeadSteps, err = parseDeadSteps(v)
		return err
	}},
	{"SLURMLET_JOB_METRICS", []Role{Slurmd}, "0", func(c *Config, v string) (err error) {
		c.JobMetrics, err = parseJobMetrics(v)
		return err
	}},
	{"SLURMLET_GRES", []Role{Slurmd}, "auto", func(c *Config, v string) (err error) {
		c.GresChoice, err = devices.ParseChoice(v)
		return err
	}},
	{"SLURMLET_GRACE_PERIOD", nil, "30s", func(c *Config, v string) (err error) {
		c.Grace, err = nodesize.ParseGracePeriod(v)
		return err
	}},
	{"SLURMLET_JOB_SIGNAL", []Role{Slurmd}, "", func(c *Config, v string) (err error) {
		c.JobSignal, err = parseJobSignal(v)
		return err
	}},
	{"SLURMLET_LISTEN", nil, ":8817", func(c *Config, v string) error {
		c.Listen = v
		return checkAddress(v)
	}},
	{"SLURMLET_RUN_DIR", nil, DefaultRunDir, func(c *Config, v string) error {
		c.RunDir = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_CONF_DIR", nil, "/etc/slurm", func(c *Config, v string) error {
		c.ConfDir = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_CONF_SOURCES", []Role{Slurmctld}, "", func(c *Config, v string) (err error) {
		c.ConfSources, err = parseSources(cmp.Or(v, c.ConfDir))
		return err
	}},
	{"SLURMLET_CONF_DEFAULTS", []Role{Slurmctld}, "on", func(c *Config, v string) (err error) {
		c.ConfDefaults, err = parseSwitch(v)
		return err
	}},
	{"SLURMLET_CONFIG_MAP", []Role{Slurmctld}, "", func(c *Config, v string) error {
		c.ConfigMap = v
		return checkObjectName(v)
	}},
	{"SLURMLET_ELASTIC_SETS", []Role{Slurmctld}, "", func(c *Config, v string) error {
		c.ElasticSets = v
		if v == "" {
			return nil
		}
		return checkAbsolute(v)
	}},
	{"SLURMLET_PREFLIGHT", []Role{Slurmctld}, string(reconfig.PreflightParse), func(c *Config, v string) (err error) {
		c.Preflight, err = reconfig.ParsePreflight(v)
		return err
	}},
	{"SLURMLET_STATE_DIR", []Role{Slurmctld}, "/var/spool/slurmctld", func(c *Config, v string) error {
		c.StateDir = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_CLUSTER_INTERVAL", []Role{Slurmctld}, "15s", func(c *Config, v string) (err error) {
		c.ClusterInterval, err = parseClusterInterval(v)
		return err
	}},
	{"SLURMLET_METRICS_USERS", []Role{Slurmctld}, "0", func(c *Config, v string) (err error) {
		c.MetricsUsers, err = parseMetricsUsers(v)
		return err
	}},
	{"SLURMLET_WEB_SOCKET", []Role{Slurmctld}, "", func(c *Config, v string) error {
		c.WebSocket = v
		if v == "" {
			return nil
		}
		return checkAbsolute(v)
	}},
	{"SLURMLET_REPORT_INTERVAL", []Role{Slurmctld}, "10s", func(c *Config, v string) (err error) {
		c.ReportInterval, err = parseClusterInterval(v)
		return err
	}},
	{"SLURMLET_GONE_PODS", []Role{Slurmctld}, "on", func(c *Config, v string) (err error) {
		c.GonePods, err = parseSwitch(v)
		return err
	}},
	{"SLURMLET_MERGE", []Role{Slurmd}, "on", func(c *Config, v string) (err error) {
		c.Merge, err = parseSwitch(v)
		return err
	}},
	{"SLURMLET_ELASTIC", []Role{Slurmd}, "no", func(c *Config, v string) (err error) {
		c.Elastic, err = parseYesNo(v)
		return err
	}},
	{"SLURMLET_AGENT_PORT", []Role{Slurmd, Login}, "8817", func(c *Config, v string) (err error) {
		c.AgentPort, err = parsePort(v)
		return err
	}},
	{"SLURMLET_PEERS", nil, "", func(c *Config, v string) error {
		c.Peers = v
		return checkPeersAddress(v)
	}},
	{"SLURMLET_PEERS_DIR", nil, "/etc/slurmlet/peers", func(c *Config, v string) error {
		c.PeersDir = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_MACHINE", []Role{Slurmd}, "", func(c *Config, v string) error {
		c.Machine = v
		return checkMachine(v)
	}},
	{"SLURMLET_PODINFO_DIR", []Role{Slurmd}, "/etc/podinfo", func(c *Config, v string) error {
		c.PodInfo = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_DAEMON", nil, "", func(c *Config, v string) error {
		c.Daemon = v
		if v == "" {
			return nil
		}
		return checkAbsolute(v)
	}},
	{"SLURMLET_DAEMON_ARGS", nil, "", func(c *Config, v string) error {
		c.DaemonArgs = strings.Fields(v)
		return nil
	}},
	{"SLURMLET_SSHD_CONFIG", []Role{Login}, "/etc/ssh/sshd_config", func(c *Config, v string) error {
		c.SSHDConfig = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_SSH_HOST_KEYS", []Role{Login}, "/var/lib/slurmlet/ssh", func(c *Config, v string) error {
		c.HostKeys = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_SSH_AUTHORIZED_KEYS", []Role{Login}, "/etc/slurmlet/authorized_keys", func(c *Config, v string) error {
		c.AuthorizedKeys = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_SSSD_CONFIG", []Role{Slurmd, Login}, "/etc/sssd/sssd.conf", func(c *Config, v string) error {
		c.SSSDConfig = v
		return checkAbsolute(v)
	}},
	{"SLURMLET_REST_USER", []Role{Slurmrestd}, "daemon", func(c *Config, v string) error {
		c.RESTUser = v
		if slices.Contains([]string{"root", "nobody"}, v) {
			return errors.New("slurmrestd does not run as root or nobody")
		}
		return nil
	}},
	{"SLURMLET_REST_LISTEN", []Role{Slurmrestd}, ":6820", func(c *Config, v string) error {
		c.RESTListen = v
		return checkAddress(v)
	}},
	{"SLURMLET_REST_AUTH", []Role{Slurmrestd}, "rest_auth/jwt", func(c *Config, v string) error {
		c.RESTAuth = v
		return checkList(v)
	}},
	{"SLURMLET_REST_OPENAPI", []Role{Slurmrestd}, "slurmctld,slurmdbd", func(c *Config, v string) error {
		c.RESTOpenAPI = v
		return checkList(v)
	}},
	{"SLURMLET_SLURM_USER", []Role{Slurmctld, Login, Slurmdbd}, "slurm", func(c *Config, v string) error {
		c.SlurmUser = v
		return nil
	}},
	{"SLURMLET_LOG_LEVEL", nil, "info", func(c *Config, v string) (err error) {
		c.LogLevel, err = parseLevel(v)
		return err
	}},
}

// checkMachine takes a name of Kubernetes (RFC 1123).
func checkMachine(text string) error {
	if len(text) > 253 || strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
		return errors.New("want the name of a Kubernetes node: fieldRef spec.nodeName")
	}
	return nil
}

// parseControllers gives every slurmctld its port, so that the value can go
// into --conf-server and SLURM_CONF_SERVER as it is.
func parseControllers(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	var all []string
	for one := range strings.SplitSeq(text, ",") {
		host, port, ported := strings.Cut(one, ":")
		if !ported {
			port = "6817"
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" || strings.ContainsAny(host, " \t[]") {
			return "", fmt.Errorf("want host or host:port, several separated by commas, not %q", one)
		}
		all = append(all, net.JoinHostPort(host, port))
	}
	return strings.Join(all, ","), nil
}

func checkAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return errors.New("want [host]:port")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("want [host]:port with a port from 0 to 65535")
	}
	return nil
}

// checkPeersAddress: the host is what the controller's certificate must be for.
func checkPeersAddress(text string) error {
	if text == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(text)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || host == "" || n == 0 || strings.ContainsAny(host, " \t/") {
		return errors.New("want the controller's host:port")
	}
	return nil
}

// checkObjectName takes the name of a Kubernetes object that has a name of DNS, or none.
func checkObjectName(name string) error {
	const lower = "abcdefghijklmnopqrstuvwxyz0123456789"
	if len(name) > 253 || strings.Trim(name, lower+"-.") != "" || strings.Trim(name, "-.") != name {
		return errors.New("want the name of a ConfigMap")
	}
	return nil
}

func parseSources(text string) ([]string, error) {
	var all []string
	for dir := range strings.SplitSeq(text, ":") {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("want absolute paths separated by colons, not %q", dir)
		}
		all = append(all, filepath.Clean(dir))
	}
	return all, nil
}

func parseSwitch(text string) (bool, error) {
	if text != "on" && text != "off" {
		return false, errors.New("want on or off")
	}
	return text == "on", nil
}

func parseYesNo(text string) (bool, error) {
	if text != "yes" && text != "no" {
		return false, errors.New("want yes or no")
	}
	return text == "yes", nil
}

// parseClusterInterval: slurmctld is not asked more often than once in a second.
func parseClusterInterval(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > 0 && d < time.Second || d > time.Hour {
		return 0, errors.New("want 0 or a duration from 1s to 1h")
	}
	return d, nil
}

// mostMetricsUsers keeps the text small.
const mostMetricsUsers = 10_000

func parseMetricsUsers(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > mostMetricsUsers {
		return 0, fmt.Errorf("want a number from 0 to %d", mostMetricsUsers)
	}
	return n, nil
}

func parsePort(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, errors.New("want a port from 0 to 65535")
	}
	return int(n), nil
}

func parseJobMetrics(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n > MostJobMetrics {
		return 0, fmt.Errorf("want a number of jobs from 0 to %d", MostJobMetrics)
	}
	return int(n), nil
}

func checkAbsolute(path string) error {
	if !filepath.IsAbs(path) {
		return errors.New("want an absolute path")
	}
	return nil
}

// checkList accepts names of plugins, separated by commas.
func checkList(text string) error {
	if strings.ContainsAny(text, " \t") || slices.Contains(strings.Split(text, ","), "") {
		return errors.New("want names of plugins, separated by commas")
	}
	return nil
}

func parseLevel(text string) (slog.Level, error) {
	var level slog.Level
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, text) {
		return 0, errors.New("want debug, info, warn or error")
	}
	return level, level.UnmarshalText([]byte(text))
}
