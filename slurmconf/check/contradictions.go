package check

import (
	"fmt"
	"math"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// contradictions checks settings against each other. Those that slurmctld refuses
// are Errors.
func (c *checker) contradictions() {
	c.preemption()
	c.selection()
	c.prologFlags()
	c.logs()
	c.jobNumbers()
	c.cgroups()
	c.memory()
	c.gres()
	c.dynamicNodes()
	c.manyNodes()
	c.timeouts()
	c.removedOption()
	c.exclusive()
	c.checkTaskParameters()
	c.security()
	c.networks()
	c.priorities()
	c.schedulerOptions()
	c.accounting()
	c.powerSaving()
	c.partitionOptions()
	c.parameters()
	c.withoutEffect()
}

// preemption compares PreemptMode with PreemptType, as src/common/read_config.c does.
func (c *checker) preemption() {
	plugin, _ := c.conf.Value("PreemptType")
	none := plugin == "" || plugin == "preempt/none"
	mode, set := c.conf.Get("PreemptMode")
	_, active := c.has("PreemptMode", "suspend", "on", "requeue", "cancel")
	_, within := c.has("PreemptMode", "within")
	if modes := modesOf(mode); len(modes) > 1 {
		c.add(mode.Position(), slurmconf.Error, "preemption", "PreemptMode has "+strings.Join(modes, " and "), "one of them")
		return
	}
	switch _, gang := c.has("PreemptMode", "gang"); {
	case gang && within:
		c.add(mode.Position(), slurmconf.Error, "preemption", "PreemptMode has GANG and WITHIN", "one of both")
	case none && (active || within):
		c.add(mode.Position(), slurmconf.Error, "preemption",
			fmt.Sprintf("PreemptMode is %s without a PreemptType", mode.Value),
			"PreemptType=preempt/qos or preempt/partition_prio, or PreemptMode=OFF or GANG")
	case (plugin == "preempt/qos" || plugin == "preempt/partition_prio") && !active:
		at := mode
		if !set {
			at, _ = c.conf.Get("PreemptType")
		}
		c.add(at.Position(), slurmconf.Error, "preemption",
			fmt.Sprintf("PreemptType is %s, and PreemptMode says not what becomes of the jobs", plugin),
			"PreemptMode=CANCEL, REQUEUE or SUSPEND,GANG")
	case !gang && !within:
		if _, suspend := c.has("PreemptMode", "suspend", "on"); suspend {
			c.add(mode.Position(), slurmconf.Error, "preemption",
				"PreemptMode is SUSPEND without GANG, which wakes the jobs up", "PreemptMode=SUSPEND,GANG")
		}
	}
}

// modesOf are the values of PreemptMode of which there can be one.
func modesOf(pair slurmconf.Pair) (modes []string) {
	for _, one := range pair.List() {
		if oneOf("off", "cluster", "cancel", "requeue", "suspend", "on")(one) {
			modes = append(modes, one)
		}
	}
	return modes
}

// selection: what is allocated is said once.
func (c *checker) selection() {
	pair, _ := c.conf.Get("SelectTypeParameters")
	var units []string
	for _, one := range pair.List() {
		switch strings.ToLower(one) {
		case "cr_cpu", "cr_cpu_memory", "cr_core", "cr_core_memory", "cr_socket", "cr_socket_memory", "cr_memory":
			units = append(units, one)
		}
	}
	_, perCore := c.has("SelectTypeParameters", "CR_ONE_TASK_PER_CORE")
	switch {
	case len(units) > 1:
		c.add(pair.Position(), slurmconf.Error, "selection", "SelectTypeParameters has "+strings.Join(units, " and "), "one of them")
	case perCore && len(units) == 1 && strings.HasPrefix(strings.ToLower(units[0]), "cr_cpu"):
		c.add(pair.Position(), slurmconf.Error, "selection",
			"SelectTypeParameters has CR_ONE_TASK_PER_CORE and "+units[0], "CR_Core or CR_Core_Memory")
	}
	plugin, _ := c.conf.Value("SelectType")
	_, set := c.conf.Get("SelectTypeParameters")
	c.allocated(pair, set, plugin, units)
	if most, ok := c.conf.Get("MaxNodeCount"); ok {
		if !strings.Contains(plugin, "cons_tres") {
			c.add(most.Position(), slurmconf.Error, "selection", "MaxNodeCount is set, and SelectType is "+plugin,
				"SelectType=select/cons_tres")
		}
	}
}

// allocated judges SelectTypeParameters: each plugin allocates other units.
func (c *checker) allocated(pair slurmconf.Pair, set bool, plugin string, units []string) {
	memory := len(units) == 1 && strings.EqualFold(units[0], "CR_Memory")
	switch {
	case plugin == "select/linear" && len(units) == 1 && !memory:
		c.add(pair.Position(), slurmconf.Error, "selection", "SelectTypeParameters has "+units[0]+
			", and SelectType is "+plugin, "CR_Memory, or SelectType=select/cons_tres")
	case plugin == "select/cons_tres" && set && (memory || len(units) == 0):
		c.add(pair.Position(), slurmconf.Error, "selection",
			"SelectTypeParameters does not say what is allocated besides memory", "CR_Core_Memory, CR_CPU_Memory or CR_Socket_Memory")
	}
	if topology, at := c.conf.Value("TopologyPlugin"); strings.EqualFold(topology, "topology/tree") &&
		strings.EqualFold(plugin, "select/linear") {
		c.add(at, slurmconf.Error, "selection", "TopologyPlugin is topology/tree, and SelectType is select/linear",
			"SelectType=select/cons_tres")
	}
}

func (c *checker) prologFlags() {
	pair, hold := c.has("PrologFlags", "NoHold")
	_, contain := c.has("PrologFlags", "Contain", "X11")
	if hold && contain {
		c.add(pair.Position(), slurmconf.Error, "prolog-flags", "PrologFlags has NoHold, and Contain or X11", "one of both")
	}
	if _, x11 := c.has("PrologFlags", "X11"); x11 {
		if tracker, _ := c.conf.Value("ProctrackType"); tracker == "proctrack/linuxproc" {
			c.add(pair.Position(), slurmconf.Error, "prolog-flags",
				"PrologFlags has X11, and ProctrackType is "+tracker, "ProctrackType=proctrack/cgroup")
		}
	}
	_, serial := c.has("PrologFlags", "Serial")
	if _, inJob := c.has("PrologFlags", "RunInJob"); serial && inJob {
		c.add(pair.Position(), slurmconf.Warning, "prolog-flags", "PrologFlags has Serial and RunInJob", "one of both")
	}
}

func (c *checker) logs() {
	level, set := c.conf.Get("SlurmSchedLogLevel")
	if n, err := level.Uint(math.MaxUint16); !set || err != nil || n == 0 {
		return
	}
	if _, ok := c.conf.Get("SlurmSchedLogFile"); !ok {
		c.add(level.Position(), slurmconf.Error, "log", "SlurmSchedLogLevel is set without SlurmSchedLogFile", "both, or none")
	}
}

func (c *checker) jobNumbers() {
	pair, ok := c.conf.Get("FirstJobId")
	first, err := pair.Uint(math.MaxUint32)
	if !ok || err != nil {
		return
	}
	last := uint64(0x03ff0000) // DEFAULT_MAX_JOB_ID
	if most, ok := c.conf.Get("MaxJobId"); ok {
		if last, err = most.Uint(math.MaxUint32); err != nil {
			return
		}
		last = min(last, maxJobID)
	}
	if first > last {
		c.add(pair.Position(), slurmconf.Error, "job-count",
			fmt.Sprintf("FirstJobId is %d, and MaxJobId %d", first, last), "a smaller FirstJobId")
	}
}
