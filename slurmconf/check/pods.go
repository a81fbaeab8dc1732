package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// cgroups: what cgroup.conf constrains, task/cgroup does (cgroup.conf(5)).
func (c *checker) cgroups() {
	if _, ok := c.has("TaskPlugin", "task/cgroup", "cgroup"); ok {
		return
	}
	for _, key := range []string{"ConstrainCores", "ConstrainDevices", "ConstrainRAMSpace", "ConstrainSwapSpace"} {
		pair, ok := c.whole.Conf(slurmconf.CgroupConf).Get(key)
		if ok && isYes(pair) {
			c.add(pair.Position(), slurmconf.Warning, "cgroup",
				key+"=yes does nothing without TaskPlugin=task/cgroup in slurm.conf",
				"TaskPlugin=task/cgroup, or task/cgroup,task/affinity")
		}
	}
}

// memory: both would end jobs, for different reasons.
func (c *checker) memory() {
	kill, kills := c.has("JobAcctGatherParams", "OverMemoryKill")
	pair, ok := c.whole.Conf(slurmconf.CgroupConf).Get("ConstrainRAMSpace")
	if _, task := c.has("TaskPlugin", "task/cgroup", "cgroup"); task && kills && ok && isYes(pair) {
		c.add(kill.Position(), slurmconf.Error, "memory",
			"JobAcctGatherParams has OverMemoryKill, and cgroup.conf ConstrainRAMSpace=yes", "one of both")
	}
}

// dynamicNodes judges MaxNodeCount and ReturnToService, which pods that register need (slurm.conf(5)).
func (c *checker) dynamicNodes() {
	_, set := c.conf.Get("MaxNodeCount")
	if !set {
		if len(c.conf.Nodes()) == 0 {
			c.add(c.startOfConf(), slurmconf.Warning, "dynamic-nodes",
				"there are no nodes, and none can register: MaxNodeCount is not set", "MaxNodeCount=number, or NodeName lines")
		}
		return
	}
	if service, at := c.conf.Value("ReturnToService"); service != "2" {
		if at.File == "" {
			at = c.startOfConf()
		}
		c.add(at, slurmconf.Info, "dynamic-nodes",
			fmt.Sprintf("ReturnToService is %s: a dynamic node that was away is down until somebody resumes it",
				service), "ReturnToService=2")
	}
	if kind, at := c.conf.Value("CredType"); strings.EqualFold(kind, "cred/none") {
		c.add(at, slurmconf.Warning, "dynamic-nodes", "CredType is cred/none, and no job can run on a dynamic node",
			"CredType=cred/slurm or cred/munge")
	}
}

// gres: slurmctld logs a kind that it does not know, and ignores it.
func (c *checker) gres() {
	types, _ := c.conf.Get("GresTypes")
	c.gresTypes(types)
	for _, node := range c.conf.Nodes() {
		pair, _ := node.Get("Gres")
		for _, one := range pair.List() {
			name, _, _ := strings.Cut(one, ":")
			if !slices.Contains(types.List(), name) {
				c.add(pair.Position(), slurmconf.Warning, "gres",
					fmt.Sprintf("%s has Gres=%s, and GresTypes has no %s", node.Names, one, name), "GresTypes="+name)
			}
		}
	}
}

// gresTypes finds types that are there twice, and those that need another one (src/interfaces/gres.c, gres_init).
func (c *checker) gresTypes(pair slurmconf.Pair) {
	seen := map[string]bool{}
	for _, one := range pair.List() {
		if seen[one] {
			c.add(pair.Position(), slurmconf.Warning, "gres", "GresTypes has "+one+" twice", "it once")
		}
		seen[one] = true
	}
	for _, shared := range []string{"shard", "mps"} {
		if seen[shared] && !seen["gpu"] {
			c.add(pair.Position(), slurmconf.Error, "gres", "GresTypes has "+shared+" and no gpu", "gpu,"+shared)
		}
		if plugin, _ := c.conf.Value("SelectType"); seen[shared] && plugin == "select/linear" {
			c.add(pair.Position(), slurmconf.Error, "gres", "GresTypes has "+shared+", and SelectType is "+plugin,
				"SelectType=select/cons_tres")
		}
	}
}

// timeouts finds a Prolog or Epilog without a time limit (slurm.conf(5), PrologEpilogTimeout).
func (c *checker) timeouts() {
	programs := map[string]string{"Prolog": "PrologTimeout", "Epilog": "EpilogTimeout"}
	if _, ok := c.conf.Get("PrologEpilogTimeout"); ok {
		return
	}
	for _, key := range []string{"Prolog", "Epilog"} {
		pair, ok := c.conf.Get(key)
		if _, bounded := c.conf.Get(programs[key]); ok && !bounded {
			c.add(pair.Position(), slurmconf.Info, "timeout",
				key+" has no time limit: one that hangs keeps its job, and slurmd from ending and from a reconfigure",
				"PrologEpilogTimeout=seconds")
		}
	}
}
