package check

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// exclusiveOptions are options of one key of which slurmctld takes only one.
var exclusiveOptions = []struct{ key, one, other string }{
	{"JobAcctGatherParams", "UsePSS", "NoShared"},
	{"LaunchParameters", "enable_nss_slurm", "disable_send_gids"},
}

func (c *checker) exclusive() {
	for _, t := range exclusiveOptions {
		pair, one := c.says(t.key, t.one)
		if _, other := c.says(t.key, t.other); one && other {
			c.add(pair.Position(), slurmconf.Error, "exclusive", fmt.Sprintf("%s has %s and %s", t.key, t.one, t.other), "one of both")
		}
	}
	_, contain := c.has("PrologFlags", "Contain", "X11")
	if pair, ok := c.says("SlurmctldParameters", "enable_stepmgr"); ok && !contain {
		c.add(pair.Position(), slurmconf.Error, "prolog-flags",
			"SlurmctldParameters has enable_stepmgr, and PrologFlags no Contain", "PrologFlags=Contain")
	}
	for _, key := range []string{"JobContainerType", "NamespaceType"} {
		pair, ok := c.conf.Get(key)
		none := strings.Contains(strings.ToLower(pair.Value), "none")
		if ok && !contain && !none && (c.Version >= "25.11" || strings.Contains(pair.Value, "tmpfs")) {
			c.add(pair.Position(), slurmconf.Error, "prolog-flags", key+" is "+pair.Value+
				", and PrologFlags has no Contain", "PrologFlags=Contain")
		}
	}
}

// checkTaskParameters finds values of TaskPluginParam that exclude each other (src/common/read_config.c).
func (c *checker) checkTaskParameters() {
	pair, _ := c.conf.Get("TaskPluginParam")
	var units, auto []string
	for _, one := range pair.List() {
		switch {
		case oneOf("none", "sockets", "cores", "threads")(one):
			units = append(units, one)
		case oneOf("autobind=none", "autobind=sockets", "autobind=cores", "autobind=threads")(one):
			auto = append(auto, one)
		}
	}
	for _, several := range [][]string{units, auto} {
		if len(several) > 1 {
			c.add(pair.Position(), slurmconf.Error, "task", "TaskPluginParam has "+strings.Join(several, " and "), "one of them")
		}
	}
	plugins, _ := c.conf.Get("TaskPlugin")
	for _, word := range []string{"OOMKillStep", "SlurmdSpecOverride"} {
		if _, ok := c.has("TaskPluginParam", word); ok && !strings.Contains(plugins.Value, "task/cgroup") {
			c.add(pair.Position(), slurmconf.Error, "task", "TaskPluginParam has "+word+
				", and TaskPlugin no task/cgroup", "TaskPlugin=task/cgroup, or task/cgroup,task/affinity")
		}
	}
	_, off := c.has("TaskPluginParam", "SlurmdOffSpec")
	if _, override := c.has("TaskPluginParam", "SlurmdSpecOverride"); off && override {
		c.add(pair.Position(), slurmconf.Error, "task", "TaskPluginParam has SlurmdOffSpec and SlurmdSpecOverride", "one of both")
	}
}

// security judges MCSParameters and MCSPlugin, which go together (slurm.conf(5)).
func (c *checker) security() {
	parameters, has := c.conf.Get("MCSParameters")
	plugin, ok := c.conf.Get("MCSPlugin")
	switch {
	case has && !ok:
		c.add(parameters.Position(), slurmconf.Error, "mcs", "MCSParameters is set without MCSPlugin", "both, or none")
	case plugin.Value == "mcs/group" && !has:
		c.add(plugin.Position(), slurmconf.Error, "mcs", "MCSPlugin is mcs/group, and MCSParameters is not set",
			"MCSParameters=ondemand,select:group|group")
	}
}

func (c *checker) networks() {
	pair, without := c.says("CommunicationParameters", "DisableIPv4")
	if _, with := c.says("CommunicationParameters", "EnableIPv6"); without && !with {
		c.add(pair.Position(), slurmconf.Error, "network", "CommunicationParameters has DisableIPv4 without EnableIPv6", "both, or none")
	}
	port, _ := c.conf.Get("SlurmctldPort")
	first, _, _ := strings.Cut(port.Value, "-")
	user, _ := c.conf.Value("SlurmUser")
	if n, err := strconv.Atoi(first); err == nil && n > 0 && n < 1024 && user != "root" {
		c.add(port.Position(), slurmconf.Warning, "network",
			fmt.Sprintf("SlurmctldPort is %s, and SlurmUser %s may not listen there", port.Value, user),
			"1024 to 65535, or net.ipv4.ip_unprivileged_port_start=0 in the pod")
	}
}

func (c *checker) priorities() {
	half, _ := c.conf.Get("PriorityDecayHalfLife")
	n, ok := timespec(half.Value)
	if _, reset := c.conf.Get("PriorityUsageResetPeriod"); ok && n != -1 && roundUp(n) == 0 && !reset {
		c.add(half.Position(), slurmconf.Error, "priority",
			"PriorityDecayHalfLife is 0, and PriorityUsageResetPeriod is not set", "one of both")
	}
}

// schedulerOptions are those of SchedulerParameters with a number, the least and the
// most that slurmctld takes.
var schedulerOptions = []struct {
	name        string
	least, most int64
	severity    slurmconf.Severity
}{
	{"max_script_size=", math.MinInt32, 512 << 20, slurmconf.Error},
	{"max_submit_line_size=", math.MinInt32, 2 << 20, slurmconf.Error},
	{"bf_interval=", 1, 10800, slurmconf.Warning}, // and -1
	{"bf_max_time=", 1, 3600, slurmconf.Warning},
	{"bf_window=", 1, 43200, slurmconf.Warning},
	{"bf_resolution=", 1, 3600, slurmconf.Warning},
	{"bf_max_job_test=", 1, 1000000, slurmconf.Warning},
	{"bf_max_job_start=", 0, 10000, slurmconf.Warning},
	{"bf_max_job_user=", 0, math.MaxInt32, slurmconf.Warning},
	{"bf_max_job_part=", 0, math.MaxInt32, slurmconf.Warning},
	{"bf_max_job_assoc=", 0, math.MaxInt32, slurmconf.Warning},
	{"bf_max_job_array_resv=", 0, 1000, slurmconf.Warning},
	{"bf_min_age_reserve=", 0, 30 * 24 * 60 * 60, slurmconf.Warning},
}

func (c *checker) schedulerOptions() {
	for _, o := range schedulerOptions {
		pair, ok := c.says("SchedulerParameters", o.name)
		if !ok {
			continue
		}
		rest := pair.Value[strings.Index(strings.ToLower(pair.Value), o.name)+len(o.name):]
		text, _, _ := strings.Cut(rest, ",")
		n := int64(integerAtStart(rest))
		if n > o.most || n < o.least && (n != -1 || o.name != "bf_interval=") {
			c.add(pair.Position(), o.severity, "value", fmt.Sprintf("SchedulerParameters has %s%s", o.name, text),
				fmt.Sprintf("%d to %d", max(o.least, 0), o.most))
		}
	}
}

// integerAtStart reads the number that a text begins with, as atoi(3) does: 0 for none.
func integerAtStart(text string) int32 {
	digits := strings.TrimLeft(leading(`\s*[+-]?\d+`).FindString(text), " \t\n\v\f\r")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil && digits != "" {
		n = math.MaxInt64
	}
	return int32(n)
}

func (c *checker) accounting() {
	plugin, ok := c.conf.Get("AccountingStorageType")
	if ok && strings.Contains(strings.ToLower(plugin.Value), "mysql") {
		c.add(plugin.Position(), slurmconf.Error, "accounting", "AccountingStorageType is "+plugin.Value+
			", which is slurmdbd's", "accounting_storage/slurmdbd, and StorageType in slurmdbd.conf")
	}
	if enforce, set := c.conf.Get("AccountingStorageEnforce"); set && enforce.Value != "" && !c.withSlurmdbd() {
		c.add(enforce.Position(), slurmconf.Warning, "accounting",
			"AccountingStorageEnforce is set, and nothing is enforced without slurmdbd",
			"AccountingStorageType=accounting_storage/slurmdbd")
	}
	c.tres()
}
