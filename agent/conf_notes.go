package agent

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// confNotes are what somebody may want to know of a configuration that works.
type confNotes struct {
	costs, warnings []string
}

// mostWarnings are enough for the status and the log; "slurmlet check" tells all.
const mostWarnings = 20

// note looks at the live configuration once more, for what nobody has to mend.
func (a *Agent) note(set *confset.Set, dir string) {
	ctx, cancel := context.WithTimeout(context.Background(), questionLimit)
	defer cancel()
	conf, findings := slurmconf.Read(slurmconf.Dir(dir), ofController...)
	if a.Config.Preflight != PreflightOff {
		findings = append(findings, taken(conf, a.judged(ctx, conf, dir, true))...)
	}
	findings.Sort()
	notes := confNotes{costs: costs(set, conf.Conf(slurmconf.SlurmConf)), warnings: lines(set, dir, findings, slurmconf.Warning)}
	if more := len(notes.warnings) - mostWarnings; more > 0 {
		notes.warnings = append(notes.warnings[:mostWarnings], fmt.Sprintf("and %d more", more))
	}
	if former := a.conf.notes.Swap(&notes); former == nil || !slices.Equal(former.warnings, notes.warnings) {
		for _, w := range notes.warnings {
			a.tell(slog.LevelWarn, "the configuration may not do what it says", slog.String("warning", w))
		}
	}
}

// costs are what the user's own values lead to in a cluster of pods.
func costs(set *confset.Set, conf *slurmconf.Conf) []string {
	var all []string
	for _, d := range confDefaults {
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
	return all
}
