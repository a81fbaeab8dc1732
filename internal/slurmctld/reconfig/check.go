package reconfig

import (
	"context"
	"slices"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/slurmconf"
	confcheck "github.com/slurmlet/slurmlet/slurmconf/check"
)

// checkFirst checks a set before slurmctld runs. It compares the set with the last good one
// as far as that is possible then: slurmctld may have jobs in its partitions, and nodes that
// run with it.
func (r *Reloader) checkFirst(ctx context.Context, set, good *confset.Set) (inspection, error) {
	i, err := r.checkSet(ctx, set, false)
	if err != nil {
		return i, err
	}
	if good == nil {
		return i, nil
	}
	before, err := r.lastGood(good)
	if err != nil {
		return r.orDrop(i, err)
	}
	after, _ := slurmconf.Read(slurmconf.Dir(i.staged), ofSlurmctld...)
	i.anew = slices.ContainsFunc(confcheck.Restarts(before, after), func(one confcheck.Restart) bool { return !one.Waits })
	if i.anew || r.Preflight == PreflightOff {
		return i, nil // what only a start can change is no less urgent than jobs
	}
	removed := removedPartitions{set: set, gone: gone(before, after)}
	return r.orDrop(i, removed.inUse(func(string) string { return "slurmctld knows only when it runs whether there are jobs in it" }))
}

// lastGood is the last good set as slurmctld would read it.
func (r *Reloader) lastGood(good *confset.Set) (*slurmconf.Set, error) {
	dir, err := r.stage(good)
	if err != nil {
		return nil, conf.InUse{Why: "cannot compare the configuration with the last good one: " + err.Error()}
	}
	defer r.liveSet.Drop(dir)
	conf, _ := slurmconf.Read(slurmconf.Dir(dir), ofSlurmctld...)
	return conf, nil
}

// checkEdit checks a set for the slurmctld that runs. A precheck may have done so already, but
// for the jobs in the partitions that the set removes.
func (r *Reloader) checkEdit(ctx context.Context, set *confset.Set) (inspection, error) {
	r.releaseJobs() // an edit that was overtaken may have held them
	if err := r.stillInUse(ctx, set); err != nil {
		return inspection{}, err
	}
	starts := r.nodeStarts(ctx)
	defer func() {
		answer := starts.answer()
		r.attempt.learn(func(f *facts) { f.starts = answer })
	}()
	i, prechecked := r.takePrecheck(set)
	if !prechecked {
		var err error
		if i, err = r.checkSet(ctx, set, true); err != nil {
			return i, err
		}
	}
	removed := removedPartitions{set, r.livePlace(), i.gone, i.nodeChange, i.enforces}
	r.attempt.learn(func(f *facts) { f.removed, f.changes = removed, i.changes })
	if err := r.mayGo(ctx, removed); err != nil {
		return r.orDrop(i, err)
	}
	return r.orDrop(i, r.pendingMayGo(ctx, removed, true))
}
