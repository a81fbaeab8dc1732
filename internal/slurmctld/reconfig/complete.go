package reconfig

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// Complete is what slurmctld's agent writes behind a slurm.conf, with Slurm's user and the
// directory of its state as the images have them. elastic says whether there are elastic sets.
func Complete(conf *slurmconf.Conf, runDir string, elastic bool, sets []ElasticSet) string {
	o := Options{SlurmUser: "slurm", StateDir: "/var/spool/slurmctld", RunDir: runDir}
	if elastic {
		o.sets = new(slices.Clone(sets))
	}
	return o.rendered(conf)
}

// DefaultCgroupConf is the cgroup.conf of a configuration that has none.
func DefaultCgroupConf() string { return cgroupDefaults }

// addDefaults writes what slurm.conf does not set. It comes at the end: the numbers
// of the lines in Slurm's messages stay those of the user's file.
func (o Options) addDefaults(dir *os.Root) error {
	if !o.Defaults {
		return nil
	}
	var err error
	if o.sets, err = elasticOf(dir); err != nil {
		return err
	}
	set, findings := slurmconf.Read(slurmconf.Dir(dir.Name()), slurmconf.SlurmConf)
	if findings.Err() != nil {
		return nil // it is refused
	}
	err = appendTo(dir, confset.Main, o.rendered(set.Conf(slurmconf.SlurmConf)))
	if _, missing := dir.Stat(string(slurmconf.CgroupConf)); err == nil && missing != nil {
		err = appendTo(dir, string(slurmconf.CgroupConf), cgroupDefaults)
	}
	if err != nil {
		return fmt.Errorf("cannot write the defaults: %v", err)
	}
	return nil
}

func appendTo(dir *os.Root, name, text string) error {
	f, err := dir.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// rendered is the text of all defaults that are needed, empty for none.
func (o Options) rendered(conf *slurmconf.Conf) string {
	var text strings.Builder
	for _, d := range o.parameters() {
		value := d.value(o, conf)
		if _, set := conf.Get(d.key); set || value == "" || !o.fits(d, conf) {
			continue
		}
		if text.Len() == 0 {
			text.WriteString("\n\n# slurmlet wrote what follows, because the lines above do not set it (SLURMLET_CONF_DEFAULTS).\n")
		}
		fmt.Fprintf(&text, "# %s: %s.\n%s=%s\n", d.key, d.why, d.key, value)
	}
	return text.String()
}

// fits: with the user's own value of another key, Slurm may not take a default.
func (o Options) fits(d parameter, conf *slurmconf.Conf) bool {
	if most, _ := strconv.Atoi(d.value(o, conf)); d.key == "MaxNodeCount" && conf.NodeCount() > most {
		return false
	}
	for _, other := range o.parameters() {
		if have, set := conf.Get(other.key); other.key == d.with && set {
			return have.Value == other.value(o, conf)
		}
	}
	return true
}
