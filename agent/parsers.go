package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurmd/usage"
)

// checkMachine takes a name of Kubernetes (RFC 1123).
func checkMachine(text string) error {
	if len(text) > 253 || strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
		return errors.New("want the name of a Kubernetes node: fieldRef spec.nodeName")
	}
	return nil
}

// parseSlurmctlds gives every slurmctld its port, so that the value can go
// into --conf-server and SLURM_CONF_SERVER as it is.
func parseSlurmctlds(text string) (string, error) {
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

// parseSize says whether the node is the machine.
func parseSize(text string) (bool, error) {
	if text != "pod" && text != "node" {
		return false, errors.New("want pod or node")
	}
	return text == "node", nil
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

// parseProcesses returns 0 where there is no number.
func parseProcesses(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 0, errors.New("want a number of processes from 1")
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
	if err != nil || n > usage.MostJobMetrics {
		return 0, fmt.Errorf("want a number of jobs from 0 to %d", usage.MostJobMetrics)
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

// userName is what a user of a gateway may be called (useradd(8), and names of directories).
var userName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.@-]*\$?$`)

func parseUsers(v string) ([]string, error) {
	if v == "" {
		return nil, nil
	}
	all := strings.Split(v, ",")
	for _, name := range all {
		if !userName.MatchString(name) || name == "root" {
			return nil, fmt.Errorf("want names of users other than root, separated by commas, not %q", name)
		}
	}
	return all, nil
}

func parseLeastUID(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > math.MaxInt32 {
		return 0, fmt.Errorf("want a number from 1 to %d", math.MaxInt32)
	}
	return n, nil
}
