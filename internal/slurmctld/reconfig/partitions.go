package reconfig

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/keys"
)

// slurmctld ends the jobs of a partition that a reconfigure does not find any more, at
// once, pending and running ones (_sync_jobs_to_conf in its read_config.c). So a set without
// the partition waits for them.

// mayGo asks slurmctld whether the partitions can go. It returns a conf.InUse if not.
func (r *Reloader) mayGo(ctx context.Context, removed removedPartitions) error {
	if len(removed.gone) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, node.QuestionLimit)
	defer cancel()
	jobs, err := r.Client.Unfinished(ctx)
	if err != nil {
		return removed.inUse(func(string) string {
			return "slurmctld does not say whether there are jobs in it: " + err.Error()
		})
	}
	lost := removed.lost(jobs, r.slurmBuild(ctx, true).version)
	return removed.inUse(func(name string) string {
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

// stillInUse asks only for jobs if jobs kept the same set from being used before.
func (r *Reloader) stillInUse(ctx context.Context, set *confset.Set) error {
	removed := r.attempt.known().removed
	if removed.set == nil || !removed.set.Same(set) || removed.place != r.livePlace() {
		return nil
	}
	if err := r.mayGo(ctx, removed); err != nil {
		return err
	}
	return r.pendingMayGo(ctx, removed, true)
}

// lost are the jobs that slurmctld would end. A running job names the partition that it
// runs in. Where a pending job names several, all of them have to stay; since 25.11 one is enough.
func (p removedPartitions) lost(jobs []slurm.Unfinished, version string) []slurm.Unfinished {
	goes := func(name string) bool {
		return slices.ContainsFunc(p.gone, func(p slurmconf.Partition) bool { return p.Name() == name })
	}
	stays := func(name string) bool { return !goes(name) }
	oneIsEnough := slices.Index(keys.Versions, version) >= slices.Index(keys.Versions, "25.11")
	return slices.DeleteFunc(slices.Clone(jobs), func(j slurm.Unfinished) bool {
		return !slices.ContainsFunc(j.Partitions, goes) || oneIsEnough && slices.ContainsFunc(j.Partitions, stays)
	})
}

// inUse has a line for each partition that cannot go, nil if all can. A line that was
// removed has no place in the sources any more, so only its file is named.
func (p removedPartitions) inUse(why func(name string) string) error {
	var all []string
	for _, one := range p.gone {
		because := why(one.Name())
		if because == "" {
			continue
		}
		finding := slurmconf.Finding{
			Position: slurmconf.Position{File: source(p.set, one.Line.Position().File)}, Severity: slurmconf.Error, Rule: "partition",
			What: fmt.Sprintf("PartitionName=%s is not there any more, but %s", one.Name(), because),
			Want: "it back, with State=DRAIN, until its jobs are over; the edit is tried again every " + conf.InUsePause.String(),
		}
		all = append(all, finding.Error())
	}
	if all == nil {
		return nil
	}
	return conf.InUse{Why: strings.Join(all, "\n")}
}
