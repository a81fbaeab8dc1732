package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/keys"
)

// pluginKey is a key whose value is a plugin, or a list of some.
type pluginKey struct {
	key, kind string
	list      bool
	bare      bool   // the kind may be left out
	bareUntil string // up to this version
	none      string // has this in it: no plugin, empty if that is one
	elsewhere bool   // slurmctld does not load it
}

var pluginKeys = []pluginKey{
	{key: "AccountingStorageType", kind: "accounting_storage", none: "none"},
	{key: "AcctGatherEnergyType", kind: "acct_gather_energy", list: true, none: "none"},
	{key: "AcctGatherFilesystemType", kind: "acct_gather_filesystem", list: true, none: "none"},
	{key: "AcctGatherInterconnectType", kind: "acct_gather_interconnect", list: true, none: "none"},
	{key: "AcctGatherProfileType", kind: "acct_gather_profile", none: "none"},
	{key: "AuthAltTypes", kind: "auth", list: true},
	{key: "AuthType", kind: "auth", bare: true},
	{key: "BurstBufferType", kind: "burst_buffer", list: true, bare: true, none: "none"},
	{key: "CliFilterPlugins", kind: "cli_filter", list: true, bare: true, none: "none", elsewhere: true},
	{key: "CredType", kind: "cred", bare: true},
	{key: "HashPlugin", kind: "hash", bare: true},
	{key: "JobAcctGatherType", kind: "jobacct_gather", none: "none"},
	{key: "JobCompType", kind: "jobcomp", none: "none"},
	{key: "JobSubmitPlugins", kind: "job_submit", list: true, bare: true},
	{key: "MCSPlugin", kind: "mcs", none: "none"},
	{key: "NodeFeaturesPlugins", kind: "node_features", list: true, bare: true},
	{key: "PreemptType", kind: "preempt", none: "preempt/none"},
	{key: "PrEpPlugins", kind: "prep", list: true, bare: true},
	{key: "PriorityType", kind: "priority"},
	{key: "ProctrackType", kind: "proctrack", elsewhere: true},
	{key: "SchedulerType", kind: "sched"},
	{key: "SelectType", kind: "select"},
	{key: "SwitchType", kind: "switch", none: "none"},
	{key: "TaskPlugin", kind: "task", list: true, bare: true, none: "none", elsewhere: true},
	{key: "TLSType", kind: "tls", bareUntil: "24.11"},
	{key: "TopologyPlugin", kind: "topology", none: "none"},
}

// own are the kinds of which clusters have plugins of their own.
var own = []string{
	"acct_gather_energy", "burst_buffer", "cli_filter", "job_submit", "jobcomp", "mcs",
	"node_features", "prep", "site_factor", "task",
}

// pluginNames checks the names of plugins where nobody can be asked which are
// installed.
func (c *checker) pluginNames() {
	for _, k := range pluginKeys {
		pair, ok := c.conf.Get(k.key)
		if !ok || pair.Value == "" || c.noPlugin(k, pair.Value) || k.kind == "topology" && c.hasTopologyYAML() {
			continue
		}
		if k.key == "AccountingStorageType" && strings.Contains(strings.ToLower(pair.Value), "mysql") {
			continue // Another check has the finding.
		}
		values := []string{pair.Value}
		if k.list {
			values = pair.List()
		}
		for _, value := range values {
			c.pluginName(k, pair, value)
		}
	}
	if plugin, _ := c.conf.Value("PriorityType"); plugin == "priority/multifactor" {
		if pair, ok := c.conf.Get("PrioritySiteFactorPlugin"); ok && !strings.Contains(strings.ToLower(pair.Value), "none") {
			c.pluginName(pluginKey{key: pair.Key, kind: "site_factor"}, pair, pair.Value)
		}
	}
}

// noPlugin: since 25.05 topology has whole words for none (src/common/read_config.c).
func (c *checker) noPlugin(k pluginKey, value string) bool {
	if k.kind == "topology" && c.Version >= "25.05" {
		return oneOf("none", "default", "topology/none", "topology/default")(value)
	}
	return k.none != "" && strings.Contains(strings.ToLower(value), k.none)
}

// pluginName: capitals matter. What Slurm does not have may be the cluster's own.
func (c *checker) pluginName(k pluginKey, pair slurmconf.Pair, value string) {
	k.bare = k.bare || k.bareUntil != "" && c.Version <= k.bareUntil
	known := keys.Plugins(c.Version, k.kind)
	name, whole := strings.CutPrefix(value, k.kind+"/")
	if k.kind == "acct_gather_energy" {
		name = strings.ReplaceAll(name, "rsmi", "gpu")
	}
	if slices.Contains(known, name) && (whole || k.bare) {
		return
	}
	bare := value[strings.IndexByte(value, '/')+1:]
	meant := known
	if k.none != "" {
		meant = append(slices.Clone(known), "none")
	}
	near := nearestOf(strings.TrimLeft(bare, "="), meant)
	severity, want := slurmconf.Error, k.kind+"/"+strings.Join(known, ", ")
	if near != "" {
		want = k.kind + "/" + near
	}
	if _, elsewhere := c.conf.Get("PluginDir"); k.elsewhere || near == "" &&
		(elsewhere || slices.Contains(own, k.kind)) && (whole || k.bare) {
		severity = slurmconf.Warning
	}
	of := "Slurm"
	if slices.ContainsFunc(keys.Versions,
		func(v string) bool { return slices.Contains(keys.Plugins(v, k.kind), name) }) && (whole || k.bare) {
		of += " " + c.Version
	}
	c.add(pair.Position(), severity, "plugin", fmt.Sprintf("%s is %s, which is no plugin of %s", k.key, value, of), want)
}
