package reconfig

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// mostWarnings are enough for the status and the log; "slurmlet check" lists all.
const mostWarnings = 20

// note checks the live configuration once more, for findings that refuse nothing.
func (r *Reloader) note(ctx context.Context, set *confset.Set, dir string) {
	ctx, cancel := context.WithTimeout(ctx, node.QuestionLimit)
	defer cancel()
	conf, findings := slurmconf.Read(slurmconf.Dir(dir), ofSlurmctld...)
	if r.Preflight != PreflightOff {
		findings = append(findings, taken(conf, r.findings(ctx, conf, dir, true))...)
	}
	findings.Sort()
	found := notes{
		costs: costs(set, conf.Conf(slurmconf.SlurmConf)), warnings: lines(set, dir, findings, slurmconf.Warning),
		constrains: constrains(conf.Conf(slurmconf.CgroupConf)),
	}
	if conf.Conf(slurmconf.OCIConf) == nil {
		if at := containerPlugin(conf.Conf(slurmconf.PlugstackConf)); at != nil {
			at.File = source(set, at.File)
			found.costs = append(found.costs, fmt.Sprintf("%s: %s", at, unconfigured))
		} else {
			found.uncontained = true
		}
	}
	if more := len(found.warnings) - mostWarnings; more > 0 {
		found.warnings = append(found.warnings[:mostWarnings], fmt.Sprintf("and %d more", more))
	}
	if w := r.unassociated.Load(); w != nil {
		found.warnings = append(found.warnings, *w)
	}
	if former := r.notes.Swap(&found); former == nil || !slices.Equal(former.warnings, found.warnings) {
		for _, w := range found.warnings {
			r.Log(slog.LevelWarn, "the configuration may not do what it says", slog.String("warning", w))
		}
	}
}

// unconfigured is what becomes of --container where nodes have slurmlet's plugin, and there is no oci.conf.
const unconfigured = "there is no oci.conf: nodes refuse srun --container by spank_slurmlet.so; a job that slurmrestd submits with a " +
	"container and without SLURM_CONTAINER in its environment runs on the node's own root file system, and succeeds"

// containerPlugin is where plugstack.conf has slurmlet's plugin of jobs in containers, nil for nowhere.
func containerPlugin(conf *slurmconf.Conf) *slurmconf.Position {
	for _, p := range conf.Plugins() {
		if path.Base(p.Path) == "spank_slurmlet.so" {
			at := p.Position()
			return &at
		}
	}
	return nil
}

// costs are what the user's own values lead to in a cluster of pods.
func costs(set *confset.Set, conf *slurmconf.Conf) []string {
	var all []string
	var o Options
	if _, elastic := set.File(elasticFile); elastic {
		o.sets = &[]ElasticSet{}
	}
	for _, d := range o.parameters() {
		have, isSet := conf.Get(d.key)
		if !isSet {
			continue
		}
		if cost := d.cost(have.Value); cost != "" {
			at := have.Position()
			at.File = source(set, at.File)
			all = append(all, fmt.Sprintf("%s: %s=%s: %s", at, d.key, have.Value, cost))
		}
	}
	if own := conf.All("PrologSlurmctld"); o.sets != nil && len(own) > 0 &&
		!slices.ContainsFunc(own, func(p slurmconf.Pair) bool { return strings.HasSuffix(p.Value, "/programs/wait-nodes") }) {
		at := own[0].Position()
		at.File = source(set, at.File)
		all = append(all,
			fmt.Sprintf(
				"%s: PrologSlurmctld=%s: jobs whose nodes have to be started begin up to 30 s after these are up; "+
					"a second line PrologSlurmctld=SLURMLET_RUN_DIR/programs/wait-nodes changes that", at, own[0].Value))
	}
	return all
}

// constrains are the keys of cgroup.conf that are yes and bound jobs.
func constrains(conf *slurmconf.Conf) (all []string) {
	for _, key := range []string{"ConstrainCores", "ConstrainDevices", "ConstrainRAMSpace", "ConstrainSwapSpace"} {
		pair, set := conf.Get(key)
		if yes, err := pair.Bool(); set && err == nil && yes {
			all = append(all, key)
		}
	}
	return all
}
