package agent

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// slurmctld answers which jobs are on a node only with all jobs and all nodes. Of the jobs whose
// steps run here the agent knows the numbers, and slurmctld answers for one job by its number.

// holders are the jobs that have been seen on the node on its way down.
type holders struct {
	lock sync.Mutex
	ids  []string
	// ended are jobs of which a step has ended here lately.
	ended []endedJob
	// local are those of one node, and those that are over: none of them can end elsewhere.
	local map[string]bool
	// begun: the way down has.
	begun bool
	// elsewhere are those that were ending on other nodes at the last look.
	elsewhere map[string]slurm.Job
}

type endedJob struct {
	id string
	at time.Time
}

// remembered is for how long a job is asked for after its last step here, because it may be ending on
// other nodes, and mostRemembered how many are.
const (
	remembered     = 10 * time.Minute
	mostRemembered = 16
)

// leave notes that a step has ended.
func (h *holders) leave(step string, now time.Time) {
	h.lock.Lock()
	defer h.lock.Unlock()
	for _, id := range jobIDs([]string{step}) {
		h.ended = slices.DeleteFunc(h.ended, func(e endedJob) bool { return e.id == id || now.Sub(e.at) > remembered })
		h.ended = append(h.ended, endedJob{id, now})
		h.ended = h.ended[max(0, len(h.ended)-mostRemembered):]
	}
	maps.DeleteFunc(h.local, func(id string, _ bool) bool { return !h.knows(id) })
}

func (h *holders) knows(id string) bool {
	return slices.Contains(h.ids, id) || slices.ContainsFunc(h.ended, func(e endedJob) bool { return e.id == id })
}

// recent are the jobs that have left lately.
func (h *holders) recent(now time.Time) []string {
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.recently(now)
}

func (h *holders) recently(now time.Time) (ids []string) {
	for _, e := range h.ended {
		if now.Sub(e.at) <= remembered {
			ids = append(ids, e.id)
		}
	}
	return ids
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

// begin forgets, once, what was said before the way down: a job may have begun anew since, on more nodes.
func (h *holders) begin() {
	h.lock.Lock()
	defer h.lock.Unlock()
	if !h.begun {
		h.begun, h.local = true, nil
	}
}

// note takes what slurmctld says of one of them, nil for no such job.
func (h *holders) note(id string, job *slurm.Job) {
	h.lock.Lock()
	defer h.lock.Unlock()
	if h.knows(id) && (job == nil || !job.Completing() && (job.Nodes.Number == 1 || !job.Running())) {
		if h.local == nil {
			h.local = map[string]bool{}
		}
		h.local[id] = true
	}
}

// wide are the others, with those that have left lately.
func (h *holders) wide(now time.Time) []string {
	h.lock.Lock()
	defer h.lock.Unlock()
	all := append(h.recently(now), h.ids...)
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(id string) bool { return h.local[id] })
}

// known divides jobs into those that were ending on other nodes at the last look, and the others.
func (h *holders) known(ids []string) (ending map[string]slurm.Job, others []string) {
	h.lock.Lock()
	defer h.lock.Unlock()
	ending = map[string]slurm.Job{}
	for _, id := range ids {
		if job, is := h.elsewhere[id]; is {
			ending[id] = job
		} else {
			others = append(others, id)
		}
	}
	return ending, others
}

// keep notes which jobs are ending on other nodes.
func (h *holders) keep(jobs []slurm.Job) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.elsewhere = map[string]slurm.Job{}
	for i := range jobs {
		h.elsewhere[strconv.FormatInt(jobs[i].ID, 10)] = jobs[i]
	}
}

// endingElsewhere asks for the jobs that have run on a node which no job holds, and that are being
// ended: on other nodes, then. One that was is asked for its state alone, because slurmctld tells of every core that a
// job has.
func (a *Agent) endingElsewhere(ctx context.Context) ([]slurm.Job, error) {
	ending, others := a.holders.known(a.holders.wide(time.Now()))
	jobs, err := a.jobs(ctx, others)
	if err != nil {
		return nil, err
	}
	jobs = slices.DeleteFunc(jobs, func(j slurm.Job) bool { return !j.Completing() })
	if len(ending) > 0 {
		ids := slices.Sorted(maps.Keys(ending))
		completing, err := a.client.Completing(ctx, ids)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			if completing[id] {
				jobs = append(jobs, ending[id])
			} else {
				a.holders.note(id, nil)
			}
		}
	}
	a.holders.keep(jobs)
	return jobs, nil
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
	ids, err := a.client.JobsOn(ctx, a.Config.NodeName)
	if err == nil {
		a.holders.add(ids)
		jobs, err = a.jobs(ctx, ids)
	}
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
func mayBeIdle(n *slurm.Node) bool { return n.Is("MIXED") && !n.Is("COMPLETING") }

// knownJobs asks by their numbers which jobs are not over: those of steps, or where none runs, all
// that have been seen.
func (a *Agent) knownJobs(ctx context.Context, steps []string) ([]slurm.Job, error) {
	ids := jobIDs(steps)
	if known := a.holders.add(ids); len(ids) == 0 {
		ids = known
	}
	jobs, err := a.jobs(ctx, ids)
	return slices.DeleteFunc(jobs, func(j slurm.Job) bool { return !j.Running() && !j.Completing() }), err
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
	return a.jobs(ctx, ids)
}
