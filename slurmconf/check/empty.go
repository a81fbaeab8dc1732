package check

import (
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// notEmpty are keys of which Slurm refuses the empty value (Key=""), other than no value:
// there is no plugin of no name, and no user and directory either.
var notEmpty = []string{
	"AccountingStorageType", "AcctGatherProfileType", "CredType", "JobAcctGatherType", "JobCompType", "MCSPlugin",
	"MetricsType", "PreemptType", "PriorityType",
	"SchedulerType", "SelectType", "SlurmctldHost", "SlurmUser", "StateSaveLocation", "SwitchType", "TLSType", "TopologyPlugin",
}

func (c *checker) emptyValues() {
	for _, key := range notEmpty {
		pair, ok := c.conf.Get(key)
		if !ok || pair.Value != "" || key == "TopologyPlugin" && c.hasTopologyYAML() || key == "TLSType" && c.Version < "25.05" {
			continue
		}
		c.add(pair.Position(), slurmconf.Error, "empty", key+` is ""`, "a value, or no "+key)
	}
	if pair, _ := c.conf.Get("StateSaveLocation"); strings.HasPrefix(pair.Value, "~") {
		c.add(pair.Position(), slurmconf.Error, "value", "StateSaveLocation is "+pair.Value+
			", and Slurm takes ~ for the name of a directory", "an absolute path")
	}
	c.formerSlurmctldHost()
}

// formerSlurmctldHost judges ControlMachine, where no SlurmctldHost is set (src/common/read_config.c, _validate_slurm_conf).
func (c *checker) formerSlurmctldHost() {
	pair, _ := c.conf.Get("ControlMachine")
	_, has := c.conf.Get("ControlAddr")
	if len(c.conf.All("SlurmctldHost")) == 0 && strings.Contains(pair.Value, ",") && !has {
		c.add(pair.Position(), slurmconf.Error, "controller", "ControlMachine is "+pair.Value+" without ControlAddr",
			"SlurmctldHost=name, a line for each")
	}
}
