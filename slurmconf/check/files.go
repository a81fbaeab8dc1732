package check

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// programs looks for those that run beside slurmctld.
func (c *checker) programs() {
	for _, p := range c.conf.Programs() {
		if p.On != slurmconf.OnSlurmctld || !path.IsAbs(p.Path) {
			continue
		}
		found, err := fs.Glob(c.SlurmctldRoot, strings.TrimPrefix(path.Clean(p.Path), "/"))
		if err != nil || len(found) > 0 {
			continue
		}
		severity := slurmconf.Warning
		if strings.EqualFold(p.Key, "PrologSlurmctld") || strings.EqualFold(p.Key, "EpilogSlurmctld") {
			severity = slurmconf.Error
		}
		c.add(p.Position(), severity, "missing-program", p.Key+" is "+p.Path+", which is not there", "a program that slurmctld can run")
	}
}

// loaded are the plugins that slurmctld does not start without, but for those of
// CredType: cred/slurm is in auth_slurm.so.
var loaded = []string{
	"AccountingStorageType", "AuthType", "HashPlugin", "JobAcctGatherType", "JobCompType",
	"PreemptType", "PriorityType", "SchedulerType", "SelectType", "TopologyPlugin",
}

// plugins looks for them in the directories that slurmctld would.
func (c *checker) plugins() {
	dirs := c.PluginDir
	if pair, ok := c.conf.Get("PluginDir"); ok {
		dirs = pair.Value
		for dir := range strings.SplitSeq(dirs, ":") {
			if !c.exists(dir) {
				c.add(pair.Position(), slurmconf.Error, "missing-plugin", "PluginDir has "+dir+", which is not there", "directories")
				return
			}
		}
	}
	if dirs == "" {
		return
	}
	for _, key := range loaded {
		pair, ok := c.conf.Get(key)
		kind, name, isPlugin := strings.Cut(pair.Value, "/")
		if !ok || !isPlugin || name == "none" || name == "default" {
			continue // Slurm has no plugin for it any more.
		}
		if !c.inOneOf(dirs, kind+"_"+name+".so") {
			c.add(pair.Position(), slurmconf.Error, "missing-plugin", key+" is "+pair.Value+", and there is no "+kind+
				"_"+name+".so in "+dirs, "a plugin that is installed")
		}
	}
}

// knowsPlugins: they were looked for where they are.
func (c *checker) knowsPlugins() bool {
	_, set := c.conf.Get("PluginDir")
	return c.SlurmctldRoot != nil && (set || c.PluginDir != "")
}

func (c *checker) inOneOf(dirs, name string) bool {
	for dir := range strings.SplitSeq(dirs, ":") {
		if c.exists(path.Join(dir, name)) {
			return true
		}
	}
	return false
}

// key: auth/slurm reads slurm.key or slurm.jwks from the directory of slurm.conf.
func (c *checker) key() {
	dir := cmp.Or(c.ConfDir, "/etc/slurm")
	kind, at := c.conf.Value("AuthType")
	if kind != "auth/slurm" || c.exists(path.Join(dir, "slurm.key")) || c.exists(path.Join(dir, "slurm.jwks")) {
		return
	}
	c.add(at, slurmconf.Warning, "missing-key-file", "AuthType is auth/slurm, and there is neither "+dir+
		"/slurm.key nor slurm.jwks", "the cluster's key")
}

// exists is true for what cannot be looked at.
func (c *checker) exists(name string) bool {
	_, err := fs.Stat(c.SlurmctldRoot, strings.TrimPrefix(path.Clean(name), "/"))
	return !errors.Is(err, fs.ErrNotExist)
}

// containers: without oci.conf, slurmstepd passes over --container (src/slurmd/slurmstepd/container.c). slurmlet's plugin
// refuses it then, but knows of it by SLURM_CONTAINER alone, which slurmrestd does not set.
func (c *checker) containers() {
	if c.whole.Conf(slurmconf.OCIConf) != nil {
		return
	}
	what := "there is no oci.conf: srun --container runs the job on the node's own root file system, and succeeds"
	if c.stacks(slurmletPlugin) {
		what = "there is no oci.conf: nodes refuse srun --container by " + slurmletPlugin +
			"; a job that slurmrestd submits with a container and without SLURM_CONTAINER in its environment runs on the node's own root"
	}
	c.add(c.startOfConf(), slurmconf.Info, "containers", what, "oci.conf with a runtime, where users have containers")
}

// runtime finds what slurmlet's own runtime needs, which reads config.json itself, and the step's environment from a file.
func (c *checker) runtime() {
	conf := c.whole.Conf(slurmconf.OCIConf)
	if conf == nil {
		return
	}
	run, at := conf.Value("RunTimeRun")
	if !strings.Contains(run, "slurmlet-container oci run") {
		return
	}
	ignore, _ := conf.Get("IgnoreFileConfigJson")
	file, _ := conf.Value("CreateEnvFile")
	path, _ := conf.Value("ContainerPath")
	for _, wrong := range []struct {
		is         bool
		what, want string
	}{
		{!isYes(ignore), "Slurm reads config.json beside it and asks for containers' states", "IgnoreFileConfigJson=true"},
		{
			!slices.Contains([]string{"null", "true", "y", "yes", "1"}, strings.ToLower(file)),
			"each task fails without its environment", "CreateEnvFile=null",
		},
		{!strings.Contains(path, "%t"), "the tasks of a step have one directory on Slurm 24.11", "ContainerPath with %j, %s and %t"},
	} {
		if wrong.is {
			c.add(at, slurmconf.Warning, "containers", "RunTimeRun is slurmlet-container oci run, and "+wrong.what, wrong.want)
		}
	}
}
