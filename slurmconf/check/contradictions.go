package check

import (
	"fmt"
	"math"
	"slices"
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
	c.timeouts()
	c.removedOption()
}

// has says whether a list of words in slurm.conf has one of these, and where.
func (c *checker) has(key string, words ...string) (slurmconf.Pair, bool) {
	pair, ok := c.conf.Get(key)
	return pair, ok && slices.ContainsFunc(pair.List(), func(one string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, one) })
	})
}

// preemption: src/common/read_config.c, PreemptMode and PreemptType.
func (c *checker) preemption() {
	plugin, _ := c.conf.Value("PreemptType")
	none := plugin == "" || plugin == "preempt/none"
	mode, set := c.conf.Get("PreemptMode")
	_, active := c.has("PreemptMode", "suspend", "requeue", "cancel")
	switch _, gang := c.has("PreemptMode", "gang"); {
	case none && active:
		c.add(mode.Position(), slurmconf.Error, "preemption", fmt.Sprintf("PreemptMode is %s without a PreemptType", mode.Value), "PreemptType=preempt/qos or preempt/partition_prio, or PreemptMode=OFF or GANG")
	case (plugin == "preempt/qos" || plugin == "preempt/partition_prio") && !active:
		at := mode
		if !set {
			at, _ = c.conf.Get("PreemptType")
		}
		c.add(at.Position(), slurmconf.Error, "preemption", fmt.Sprintf("PreemptType is %s, and PreemptMode says not what becomes of the jobs", plugin), "PreemptMode=CANCEL, REQUEUE or SUSPEND,GANG")
	case !none && !gang:
		if _, suspend := c.has("PreemptMode", "suspend"); suspend {
			c.add(mode.Position(), slurmconf.Error, "preemption", "PreemptMode is SUSPEND without GANG, which wakes the jobs up", "PreemptMode=SUSPEND,GANG")
		}
	}
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
		c.add(pair.Position(), slurmconf.Error, "selection", "SelectTypeParameters has CR_ONE_TASK_PER_CORE and "+units[0], "CR_Core or CR_Core_Memory")
	}
	if most, ok := c.conf.Get("MaxNodeCount"); ok {
		if plugin, _ := c.conf.Value("SelectType"); !strings.Contains(plugin, "cons_tres") {
			c.add(most.Position(), slurmconf.Error, "selection", "MaxNodeCount is set, and SelectType is "+plugin, "SelectType=select/cons_tres")
		}
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
			c.add(pair.Position(), slurmconf.Error, "prolog-flags", "PrologFlags has X11, and ProctrackType is "+tracker, "ProctrackType=proctrack/cgroup")
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
	if pair, ok := c.conf.Get("MaxJobCount"); ok {
		if n, err := pair.Uint(math.MaxUint32); err == nil && n == 0 {
			c.add(pair.Position(), slurmconf.Error, "job-count", "MaxJobCount is 0", "at least 1")
		}
	}
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
	}
	if first > last {
		c.add(pair.Position(), slurmconf.Error, "job-count", fmt.Sprintf("FirstJobId is %d, and MaxJobId %d", first, last), "a smaller FirstJobId")
	}
}
