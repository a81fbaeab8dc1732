package main

import (
	"io/fs"
	"path"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// complete adds to the configuration in dir, a path in an fs.FS, what slurmctld's agent adds, and
// the files that agents write. name is that of slurm.conf. What cannot be read stays as it is.
func complete(o overlay, dir, name string, sets *[]reconfig.ElasticSet) {
	o.texts[path.Join(agent.DefaultRunDir, "gres.conf")[1:]] = ""
	conf := path.Join(dir, name)
	set, findings := slurmconf.Read(slurmconf.In(o, "/"+dir).As("/etc/slurm").Named(slurmconf.SlurmConf, name), slurmconf.SlurmConf)
	text, err := fs.ReadFile(o, conf)
	if findings.Err() != nil || err != nil {
		return
	}
	var all []reconfig.ElasticSet
	if sets != nil {
		all = *sets
	}
	o.texts[conf] = string(text) + reconfig.Complete(set.Conf(slurmconf.SlurmConf), agent.DefaultRunDir, sets != nil, all)
	cgroup := path.Join(dir, string(slurmconf.CgroupConf))
	if _, err := fs.Stat(o, cgroup); err != nil {
		o.texts[cgroup] = reconfig.DefaultCgroupConf()
	}
}
