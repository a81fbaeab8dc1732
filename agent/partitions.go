package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/keys"
)

// slurmctld ends the jobs of a partition that a reconfigure does not find any more, at
// once, those that wait and those that run (_sync_jobs_to_conf in its read_config.c). So
// a set without it waits for them.

// inUse is why a set cannot be used as long as there are jobs that need what it takes
// away, or nobody can tell whether there are.
type inUse struct{ why string }

func (e inUse) Error() string { return e.why }

func isInUse(err error) bool { return errors.As(err, &inUse{}) }

// departure is the partitions that a set takes away from the live one.
type departure struct {
	set  *confset.Set
	live string
	gone []slurmconf.Partition
}

// gone are the partitions of one configuration that the next does not have. Their names
// are no hostlists, and case counts.
func gone(before, after *slurmconf.Set) []slurmconf.Partition {
	stays := map[string]bool{}
	for _, p := range after.Conf(slurmconf.SlurmConf).Partitions() {
		stays[p.Name()] = true
	}
	return slices.DeleteFunc(before.Conf(slurmconf.SlurmConf).Partitions(), func(p slurmconf.Partition) bool { return stays[p.Name()] })
}

// departs asks slurmctld whether partitions can go; inUse if not.
func (a *Agent) departs(d departure) error {
	if len(d.gone) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), questionLimit)
	defer cancel()
	jobs, err := a.client.Unfinished(ctx)
	if err != nil {
		return d.refusal(func(string) string { return "slurmctld does not tell whether there are jobs in it: " + err.Error() })
	}
	lost := d.lost(jobs, a.slurmBuild(ctx, true).version)
	return d.refusal(func(name string) string {
		var ids []string
		for _, j := range lost {
			if slices.Contains(j.Partitions, name) {
				ids = append(ids, j.Name)
			}
		}
		switch len(ids) {
		case 0:
			return ""
		case 1:
			return "job " + ids[0] + " is in it, and slurmctld would end it"
		}
		return fmt.Sprintf("%d jobs are in it (%s), and slurmctld would end them", len(ids), few(ids))
	})
}

// lost are the jobs that slurmctld would end. One that runs names the partition that it
// runs in. Of one that waits for several, all have to stay; since 25.11 one is enough.
func (d departure) lost(jobs []slurm.Unfinished, version string) []slurm.Unfinished {
	goes := func(name string) bool {
		return slices.ContainsFunc(d.gone, func(p slurmconf.Partition) bool { return p.Name() == name })
	}
	stays := func(name string) bool { return !goes(name) }
	oneIsEnough := slices.Index(keys.Versions, version) >= slices.Index(keys.Versions, "25.11")
	return slices.DeleteFunc(slices.Clone(jobs), func(j slurm.Unfinished) bool {
		return !slices.ContainsFunc(j.Partitions, goes) || oneIsEnough && slices.ContainsFunc(j.Partitions, stays)
	})
}

// refusal has a line for each partition that cannot go, nil if all can. The line that
// somebody has taken away has no place in the sources any more.
func (d departure) refusal(why func(name string) string) error {
	var all []string
	for _, p := range d.gone {
		because := why(p.Name())
		if because == "" {
			continue
		}
		finding := slurmconf.Finding{
			Position: slurmconf.Position{File: source(d.set, p.Line.Position().File)}, Severity: slurmconf.Error, Rule: "partition",
			What: fmt.Sprintf("PartitionName=%s is not there any more, but %s", p.Name(), because),
			Want: "it back, with State=DRAIN, until its jobs are over; the edit is tried again every " + inUsePause.String(),
		}
		all = append(all, finding.Error())
	}
	if all == nil {
		return nil
	}
	return inUse{strings.Join(all, "\n")}
}

// departsAgain asks only for jobs if they kept the same set before.
func (a *Agent) departsAgain(set *confset.Set) error {
	if d := a.conf.departure; d.set != nil && d.set.Same(set) && d.live == a.livePlace() {
		return a.departs(d)
	}
	return nil
}
