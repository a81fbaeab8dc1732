package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/slurmctld"
	"github.com/slurmlet/slurmlet/internal/slurmd/cgroups"
	"github.com/slurmlet/slurmlet/internal/slurmd/devices"
	"github.com/slurmlet/slurmlet/internal/slurmd/jobs"
	"github.com/slurmlet/slurmlet/internal/slurmd/podsize"
	"github.com/slurmlet/slurmlet/internal/slurmd/userfiles"
)

// Config is everything the agent is told. docs/reference/settings.md explains it.
type Config struct {
	Role        Role
	Slurmctld   string // host:port, several separated by commas
	NodeName    string
	Machine     string // the Kubernetes node; empty: nobody has told
	CPULimit    int64  // thousandths of a CPU; 0: none
	MemoryLimit int64  // bytes; 0: none
	Reserve     int64  // bytes
	// SharesMachine: the node is the machine, less what its other pods have.
	SharesMachine bool
	Others        podsize.Shared
	CgroupMode    cgroup.Mode
	OOMGroup      cgroups.OOMGroup
	OOMHeadroom   int64 // bytes; 0: none
	// UserLimits are those of each user of a login pod; 0: the agent derives them.
	UserLimits cgroup.UserLimits
	DeadSteps  jobs.DeadSteps
	JobMetrics int // of how many jobs, 0: none
	GresChoice devices.Choice
	Grace      time.Duration
	JobSignal  jobs.Signal
	Listen     string
	RunDir     string
	ConfDir    string
	PodInfo    string // directory
	// Settings has what only slurmctld's pod is configured with.
	slurmctld.Settings
	// AgentPort is that of slurmctld's agent, 0 for none. Merge says whether that agent makes the
	// changes of the node's record.
	AgentPort int
	Merge     bool
	// Elastic: Slurm itself starts and ends this node, whose record has the flag CLOUD.
	Elastic bool
	// Peers is host:port of Slurmlet's controller, empty for none. PeersDir has its CA and the
	// pod's token.
	Peers, PeersDir string
	// Holds: the node holds for jobs of Kubernetes' pods.
	Holds bool
	// GatewayUsers are those whose jobs slurmlet's controller submits by this login pod, none for no gateway. GatewayLeastUID
	// bounds their uids.
	GatewayUsers    []string
	GatewayLeastUID int
	// Upgrade is leave for Slurm to convert what an older version has saved.
	Upgrade bool
	// DumpDir is where slurmdbd's agent keeps a dump before that; slurmdbd.NoDump for none.
	DumpDir    string
	Daemon     string
	DaemonArgs []string
	SlurmUser  string
	// SSH: users with a job on the node come in by ssh.
	SSH bool
	// SSHDConfig and SSSDConfig are files, HostKeys and AuthorizedKeys directories.
	SSHDConfig, SSSDConfig   string
	HostKeys, AuthorizedKeys string
	// RESTAuth and RESTOpenAPI name plugins of slurmrestd's, RESTListen is host:port.
	RESTUser, RESTListen, RESTAuth, RESTOpenAPI string
	LogLevel                                    slog.Level
	// StorageLimit is in bytes; 0: none. SpoolDir and TmpDir are slurm.conf's SlurmdSpoolDir and TmpFS.
	StorageLimit     int64
	SpoolDir, TmpDir string
	Leftovers        userfiles.Leftovers
	// JobContainers is the program that makes jobs' containers, empty for none.
	JobContainers string
	// WebSocket is empty for none.
	WebSocket string
}

// DefaultRunDir is SLURMLET_RUN_DIR unless it is set.
const DefaultRunDir = "/run/slurmlet"

// DefaultStateDir is SLURMLET_STATE_DIR unless it is set.
const DefaultStateDir = "/var/spool/slurmctld"

// Validate reports what is wrong with the values together, all of it at once.
func (c Config) Validate() error {
	var faults []error
	if slices.Contains([]Role{Slurmd, Login}, c.Role) && c.Slurmctld == "" {
		faults = append(faults, fmt.Errorf("SLURMLET_SLURMCTLD: %s needs slurmctld's host[:port]", c.Role))
	}
	if c.Role == Slurmd {
		if err := checkNodeName(c.NodeName); err != nil {
			faults = append(faults, fmt.Errorf("SLURMLET_NODE_NAME: cannot use %q: %w", c.NodeName, err))
		}
	}
	if c.SharesMachine && (c.CPULimit == 0 || c.MemoryLimit == 0) {
		faults = append(faults, errors.New("SLURMLET_SIZE=node: the downward API says what the machine can give: "+
			"set SLURMLET_CPU_LIMIT and SLURMLET_MEMORY_LIMIT, and no limits for the container"))
	}
	if c.Peers == "" && c.Holds {
		faults = append(faults, errors.New("SLURMLET_HOLDS=on: slurmlet's controller says whether pods are gone: set SLURMLET_PEERS"))
	}
	if c.Peers == "" && len(c.GatewayUsers) > 0 {
		faults = append(faults, errors.New(
			"SLURMLET_GATEWAY_USERS: the gateway's orders come from slurmlet's controller: set SLURMLET_PEERS"))
	}
	return errors.Join(faults...)
}

// alphanumeric, with punctuation inside, is what Slurm takes for one host and
// not for a hostlist (slurm.conf(5), NodeName), within what is valid for a
// Kubernetes pod too.
const (
	alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	punctuation  = "-_."
)

// maxNodeName is Slurm's HOST_NAME_MAX, without the final NUL.
const maxNodeName = 63

func checkNodeName(name string) error {
	switch {
	case name == "" || strings.Trim(name, alphanumeric+punctuation) != "" || strings.Trim(name, punctuation) != name:
		return errors.New("want letters, digits, '-', '_' and '.', with a letter or a digit at both ends")
	case len(name) > maxNodeName:
		return fmt.Errorf("want at most %d characters, not %d", maxNodeName, len(name))
	case slices.Contains([]string{"all", "default", "localhost"}, strings.ToLower(name)):
		return errors.New("the name has a meaning of its own in slurm.conf")
	}
	return nil
}

// sizing is what the variables say about the size of the node.
func (c Config) sizing(root string) podsize.Options {
	var shared *podsize.Shared
	if c.SharesMachine {
		shared = &c.Others
	}
	return podsize.Options{
		Shared: shared, Root: root, PodInfo: c.PodInfo, CPULimit: c.CPULimit, MemoryLimit: c.MemoryLimit, StorageLimit: c.StorageLimit,
		Reserve: c.Reserve, SpoolDir: c.SpoolDir, TmpDir: c.TmpDir,
	}
}

// gresConf is the file that the cluster's gres.conf includes.
func gresConf(c Config) string { return filepath.Join(c.RunDir, "gres.conf") }

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
