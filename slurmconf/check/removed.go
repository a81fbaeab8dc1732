package check

import (
	"fmt"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// removed are keys that Slurm's parser still knows, to end over them
// (src/common/read_config.c, src/interfaces/cgroup.c), and what takes their place.
var removed = map[slurmconf.Kind]map[string]string{
	slurmconf.SlurmConf: {
		"accountingstorageloc":      "a configuration without it",
		"accountingstorejobcomment": "AccountingStoreFlags=job_comment",
		"sallocdefaultcommand":      "LaunchParameters=use_interactive_step",
	},
	slurmconf.CgroupConf: {"cgroupreleaseagentdir": "a configuration without it"},
}

// removed finds what earlier versions had, as configurations that have grown
// old with their clusters do.
func (c *checker) removed(kind slurmconf.Kind, pair slurmconf.Pair) {
	key := strings.ToLower(pair.Key)
	if want := removed[kind][key]; want != "" {
		c.add(pair.Line().Position(), slurmconf.Error, "removed-key", pair.Key+" is in Slurm no more, which ends over it", want)
	}
	if kind != slurmconf.SlurmConf {
		return
	}
	switch n, err := pair.Uint(1 << 16); {
	case key == "frontendname":
		c.add(pair.Line().Position(), slurmconf.Error, "removed-key",
			"FrontendName is for Slurm that is built with --enable-front-end, every other ends over it", "a configuration without it")
	case key == "fastschedule" && err == nil && n == 1:
		c.add(pair.Line().Position(), slurmconf.Warning, "removed-key", "FastSchedule=1 has no effect any more",
			"a configuration without it")
	case key == "fastschedule" && err == nil:
		c.add(pair.Line().Position(), slurmconf.Error, "removed-key",
			fmt.Sprintf("FastSchedule=%d is in Slurm no more, which ends over it", n),
			"SlurmdParameters=config_overrides in the place of 2, nothing in that of 0")
	}
}

// removedOption finds max_job_bf, over which src/plugins/sched/backfill/backfill.c ends; builtin.c still takes it.
func (c *checker) removedOption() {
	plugin, _ := c.conf.Value("SchedulerType")
	pair, _ := c.conf.Get("SchedulerParameters")
	options := strings.ToLower(pair.Value)
	if plugin != "sched/builtin" && strings.Contains(options, "max_job_bf=") && !strings.Contains(options, "bf_max_job_test=") {
		c.add(pair.Position(), slurmconf.Error, "removed-option",
			"SchedulerParameters has max_job_bf, which is in Slurm no more, which ends over it", "bf_max_job_test")
	}
}
