package agent

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// slurmctld answers which jobs are on a node only with all jobs and all nodes. Of the jobs whose
// steps run here the agent knows the numbers, and slurmctld answers for one job by its number.

// holders are the jobs that have been seen on the node on its way down.
type holders struct {
	lock sync.Mutex
	ids  []string
}

// add returns all of them.
func (h *holders) add(ids []string) []string {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.ids = append(h.ids, ids...)
	slices.Sort(h.ids)
	h.ids = slices.Compact(h.ids)
	return slices.Clone(h.ids)
}

// jobsHolding asks for the jobs that hold a busy node. counted: they are all of them. As long as
// one that is known holds it, or none runs any more, the others are not looked for, unless a
// sackd speaks: then the node may be set DOWN for want of a running job. With sure, others are looked
// for even where slurmctld's answer to a deletion would tell.
func (a *Agent) jobsHolding(ctx context.Context, node *slurm.Node, steps []string, sure bool) (jobs []slurm.Job, counted bool, err error) {
	if a.sackd.Load() == nil {
		jobs, err = a.knownJobs(ctx, steps)
		if err != nil || len(jobs) > 0 || !node.Allocated() {
			return jobs, false, err
		}
		if len(a.holders.add(nil)) > 0 {
			if held, err := a.stillAllocated(ctx, sure); err != nil || !held { // the question is asked anew
				return nil, false, err
			}
		}
	}
	jobs, err = a.jobsHere(ctx)
	return jobs, err == nil && len(steps) == 0, err
}

// stillAllocated asks for the record again, because the last job that is known may have ended after the record was asked
// for: slurmctld would look for another one among all jobs. Of a node that may be idle, its answer to the
// deletion tells.
func (a *Agent) stillAllocated(ctx context.Context, sure bool) (bool, error) {
	node, err := a.client.Glance(ctx, a.Config.NodeName)
	return node != nil && node.Allocated() && (sure || !mayBeIdle(node)), err
}

// mayBeIdle: slurmctld counts a node's allocated CPUs anew only when somebody asks for all nodes
// (slurm.Scontrol.Glance).
func mayBeIdle(n *slurm.Node) bool { return n.Is("MIXED") && !n.Is("COMPLETING") && !isReserved(n) }

// knownJobs asks by their numbers which jobs are not over: those of steps, or where none runs, all
// that have been seen.
func (a *Agent) knownJobs(ctx context.Context, steps []string) ([]slurm.Job, error) {
	ids := jobIDs(steps)
	if known := a.holders.add(ids); len(ids) == 0 {
		ids = known
	}
	jobs, err := a.jobs(ctx, ids)
	return slices.DeleteFunc(jobs, func(j slurm.Job) bool { return !j.Running() && !slices.Contains(j.State, "COMPLETING") }), err
}

// jobsOf asks for the jobs of steps.
func (a *Agent) jobsOf(ctx context.Context, steps []string) ([]slurm.Job, error) {
	ids := jobIDs(steps)
	if len(ids) == 0 {
		return nil, nil
	}
	return a.jobs(ctx, ids)
}

// jobIDs are those of steps, without that of an unknown one.
func jobIDs(steps []string) []string {
	var ids []string
	for _, s := range steps {
		if id, _, known := strings.Cut(s, "."); known {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// jobsHere asks for the jobs that slurmctld counts on the node.
func (a *Agent) jobsHere(ctx context.Context) ([]slurm.Job, error) {
	ids, err := a.client.JobsOn(ctx, a.Config.NodeName)
	if err != nil {
		return nil, err
	}
	a.holders.add(ids)
	return a.jobs(ctx, ids)
}
