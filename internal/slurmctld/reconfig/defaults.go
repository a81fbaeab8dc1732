package reconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// parameter is one of slurm.conf(5) that a cluster of pods needs with another value than
// Slurm's own default. Where slurm.conf sets it, its value stays.
type parameter struct {
	key string
	// value is empty where Slurm's own default is right.
	value func(Options, *slurmconf.Conf) string
	why   string
	// cost is what another value leads to, empty for nothing.
	cost func(value string) string
	// with is the key of a default without whose value Slurm does not take this one.
	with string
}

func is(value string) func(Options, *slurmconf.Conf) string {
	return func(Options, *slurmconf.Conf) string { return value }
}

func unless(value, cost string) func(string) string {
	return func(have string) string {
		for one := range strings.SplitSeq(have, ",") {
			if strings.EqualFold(strings.TrimSpace(one), value) {
				return ""
			}
		}
		return cost
	}
}

func free(string) string { return "" }

func noCredentials(have string) string {
	if strings.EqualFold(have, "cred/none") {
		return "nodes of pods are dynamic, and dynamic nodes need credentials"
	}
	return ""
}

// stateSaveLocation is a directory that slurmctld makes, for itself alone: many a volume comes
// with mode 0777. A volume with a cluster's state at its top is taken as it is,
// because a slurmctld that finds none starts without jobs.
func (o Options) stateSaveLocation() string {
	if _, err := os.Lstat(filepath.Join(o.StateDir, "clustername")); !errors.Is(err, fs.ErrNotExist) {
		return o.StateDir
	}
	return filepath.Join(o.StateDir, "state")
}

// defaultNodes is how many nodes there may be where slurm.conf does not say it.
const defaultNodes = "4096"

// mostNodes returns how many nodes slurmctld takes by this slurm.conf.
func mostNodes(conf *slurmconf.Conf) int {
	most, set := conf.Get("MaxNodeCount")
	if !set {
		most.Value = defaultNodes
	}
	n, _ := strconv.Atoi(most.Value) // the check finds what is no number
	return max(n, conf.NodeCount())
}

// slurmctldParameters: 512 connections are the default from Slurm 25.05 on. In a large cluster as
// many agents may wait for slurmctld at once as it has just joined, and users stand behind them.
func slurmctldParameters(o Options, conf *slurmconf.Conf) string {
	connections, elastic := 512, ""
	if mostNodes(conf) > slurmconf.DefaultTree {
		connections = 1024
	}
	if o.sets != nil {
		elastic = ",power_save_interval=0"
	}
	return fmt.Sprintf("enable_configless,conmgr_max_connections=%d%s", connections, elastic)
}

func treeWidth(_ Options, conf *slurmconf.Conf) string {
	if nodes := mostNodes(conf); nodes > slurmconf.DefaultTree {
		return strconv.Itoa(slurmconf.TreeWidth(nodes))
	}
	return ""
}

var defaults = []parameter{
	{
		"SlurmUser", func(o Options, _ *slurmconf.Conf) string { return o.SlurmUser },
		"the user that the agent starts slurmctld as", free, "",
	},
	{
		"StateSaveLocation", func(o Options, _ *slurmconf.Conf) string { return o.stateSaveLocation() },
		"on the pod's volume, which may itself be open to everybody", free, "",
	},
	{"AuthType", is("auth/slurm"), "pods share a key, and run no munged", unless("auth/slurm", "munged must run in every container"), ""},
	{
		"AuthInfo", is("use_client_ids"), "users need to be known where they submit only",
		unless("use_client_ids", "every user of a job must be known in the nodes' containers"), "AuthType",
	},
	{"CredType", is("cred/slurm"), "goes with auth/slurm", noCredentials, "AuthType"},
	{
		"SlurmctldParameters", slurmctldParameters,
		"nodes have no configuration but slurmctld's, and many may ask at once (24.11 serves 50 connections by " +
			"default)", unless("enable_configless", "slurmd does not start: it asks slurmctld for its configuration"), "",
	},
	{"MaxNodeCount", is(defaultNodes), "nodes come and go, and this is how many there may be at once (at most 65536)", free, "SelectType"},
	{
		"TreeWidth", treeWidth,
		"a message reaches every node through three slurmds, as it does with Slurm's default up to 4368 nodes", free, "",
	},
	// With three hops, an answer through the tree may take six times as long. That stays below Slurm's SlurmdTimeout,
	// 300 s, after which nodes are set DOWN.
	{
		"MessageTimeout", is("30"),
		"in seconds: commands wait for a slurmctld that starts anew, and an srun that gives up leaves its job running", free, "",
	},
	{
		"ReturnToService", is("2"), "a node whose pod has come back is in service again",
		unless("2", "a node that was away stays DOWN until somebody resumes it"), "",
	},
	{"SelectType", is("select/cons_tres"), "dynamic nodes need it", unless("select/cons_tres", "dynamic nodes do not register"), ""},
	{"SelectTypeParameters", is("CR_Core_Memory"), "a node's memory is its pod's limit, and shared out like CPUs", free, "SelectType"},
	{"TaskPlugin", is("task/cgroup"), "jobs are held to the memory that they asked for", free, ""},
	{
		"PrologEpilogTimeout", is("300"),
		"in seconds: slurmd waits for a prolog before it stops or reconfigures, by Slurm's default for ever", free, "",
	},
}

// cgroupDefaults is for a set without a cgroup.conf.
const cgroupDefaults = `# slurmlet wrote this, because the sources hold no cgroup.conf (cgroup.conf(5)).
CgroupPlugin=cgroup/v2
# Jobs are held to the memory that they asked for.
ConstrainRAMSpace=yes
ConstrainSwapSpace=yes
# The pod's quota bounds the CPUs. Bound jobs of all pods of a machine would meet on its first ones.
ConstrainCores=no
`
