package jobs

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd/spool"
)

// slurmctld answers which jobs are on a node only with all jobs and all nodes. Of the jobs whose
// steps run here the agent knows the numbers, and slurmctld answers for one job by its number.

// Holders are the jobs that have been seen on the node on its way down.
type Holders struct {
	Node
	// SackdSpeaks says whether a sackd gives credentials in slurmd's place.
	SackdSpeaks func() bool

	lock sync.Mutex
	ids  []string
	// endedJobs are jobs of which a step has ended here lately.
	endedJobs []endedJob
	// local are those of one node, and those that are over: none of them can end elsewhere.
	local map[string]bool
	// begun says that the way down has begun.
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

// Leave notes that a step has ended.
func (h *Holders) Leave(step string, now time.Time) {
	h.lock.Lock()
	defer h.lock.Unlock()
	for _, id := range spool.Jobs([]string{step}) {
		h.endedJobs = slices.DeleteFunc(h.endedJobs, func(e endedJob) bool { return e.id == id || now.Sub(e.at) > remembered })
		h.endedJobs = append(h.endedJobs, endedJob{id, now})
		h.endedJobs = h.endedJobs[max(0, len(h.endedJobs)-mostRemembered):]
	}
	maps.DeleteFunc(h.local, func(id string, _ bool) bool { return !h.knows(id) })
}

func (h *Holders) knows(id string) bool {
	return slices.Contains(h.ids, id) || slices.ContainsFunc(h.endedJobs, func(e endedJob) bool { return e.id == id })
}

// Recent are the jobs that have left lately.
func (h *Holders) Recent(now time.Time) []string {
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.recently(now)
}

func (h *Holders) recently(now time.Time) (ids []string) {
	for _, e := range h.endedJobs {
		if now.Sub(e.at) <= remembered {
			ids = append(ids, e.id)
		}
	}
	return ids
}

// Add returns all of them.
func (h *Holders) Add(ids []string) []string {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.ids = append(h.ids, ids...)
	slices.Sort(h.ids)
	h.ids = slices.Compact(h.ids)
	return slices.Clone(h.ids)
}

// Begin forgets, once, what was said before the way down: a job may have begun anew since, on more nodes.
func (h *Holders) Begin() {
	h.lock.Lock()
	defer h.lock.Unlock()
	if !h.begun {
		h.begun, h.local = true, nil
	}
}

// note takes what slurmctld says of one of them, nil for no such job.
func (h *Holders) note(id string, job *slurm.Job) {
	h.lock.Lock()
	defer h.lock.Unlock()
	if h.knows(id) && (job == nil || !job.Completing() && (job.Nodes == 1 || !job.Running())) {
		if h.local == nil {
			h.local = map[string]bool{}
		}
		h.local[id] = true
	}
}

// wide are the others, with those that have left lately.
func (h *Holders) wide(now time.Time) []string {
	h.lock.Lock()
	defer h.lock.Unlock()
	all := append(h.recently(now), h.ids...)
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(id string) bool { return h.local[id] })
}

// divided divides jobs into those that were ending on other nodes at the last look, and the others.
func (h *Holders) divided(ids []string) (ending map[string]slurm.Job, others []string) {
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
func (h *Holders) keep(jobs []slurm.Job) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.elsewhere = map[string]slurm.Job{}
	for i := range jobs {
		h.elsewhere[strconv.FormatInt(jobs[i].ID, 10)] = jobs[i]
	}
}

// EndingElsewhere asks for the jobs that have run on a node which no job holds, and that are being
// ended: on other nodes, then. One that was is asked for its state alone, because slurmctld lists every core that a
// job has.
func (h *Holders) EndingElsewhere(ctx context.Context) ([]slurm.Job, error) {
	ending, others := h.divided(h.wide(time.Now()))
	jobs, err := h.jobs(ctx, others)
	if err != nil {
		return nil, err
	}
	jobs = slices.DeleteFunc(jobs, func(j slurm.Job) bool { return !j.Completing() })
	if len(ending) > 0 {
		ids := slices.Sorted(maps.Keys(ending))
		completing, err := h.Slurm.Completing(ctx, ids)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			if completing[id] {
				jobs = append(jobs, ending[id])
			} else {
				h.note(id, nil)
			}
		}
	}
	h.keep(jobs)
	return jobs, nil
}

// Holding asks for the jobs that hold a busy node. counted: they are all of them. As long as
// one that is known holds it, or none runs any more, the others are not looked for, unless a
// sackd speaks: then the node may be set DOWN for want of a running job. With sure, others are looked
// for even where slurmctld's answer to a deletion would say so.
func (h *Holders) Holding(ctx context.Context, node *slurm.Node, steps []string, sure bool) (jobs []slurm.Job, counted bool, err error) {
	if !h.SackdSpeaks() {
		jobs, err = h.Known(ctx, steps)
		if err != nil || len(jobs) > 0 || !node.Allocated() {
			return jobs, false, err
		}
		if len(h.Add(nil)) > 0 {
			if held, err := h.stillAllocated(ctx, sure); err != nil || !held { // the question is asked anew
				return nil, false, err
			}
		}
	}
	ids, err := h.Slurm.JobsOn(ctx, h.Name)
	if err == nil {
		h.Add(ids)
		jobs, err = h.jobs(ctx, ids)
	}
	return jobs, err == nil && len(steps) == 0, err
}

// stillAllocated asks for the record again, because the last job that is known may have ended after the record was asked
// for: slurmctld would look for another one among all jobs. Of a node that may be idle, its answer to the
// deletion says so.
func (h *Holders) stillAllocated(ctx context.Context, sure bool) (bool, error) {
	node, err := h.Slurm.Glance(ctx, h.Name)
	return node != nil && node.Allocated() && (sure || !MayBeIdle(node)), err
}

// MayBeIdle: slurmctld counts a node's allocated CPUs anew only when somebody asks for all nodes
// (slurm.Scontrol.Glance).
func MayBeIdle(n *slurm.Node) bool { return n.Is("MIXED") && !n.Is("COMPLETING") }

// Known asks by their numbers which jobs are not over: those of steps, or where none runs, all
// that have been seen.
func (h *Holders) Known(ctx context.Context, steps []string) ([]slurm.Job, error) {
	ids := spool.Jobs(steps)
	if known := h.Add(ids); len(ids) == 0 {
		ids = known
	}
	jobs, err := h.jobs(ctx, ids)
	return slices.DeleteFunc(jobs, func(j slurm.Job) bool { return !j.Running() && !j.Completing() }), err
}

// Of asks for the jobs of steps.
func (h *Holders) Of(ctx context.Context, steps []string) ([]slurm.Job, error) {
	ids := spool.Jobs(steps)
	if len(ids) == 0 {
		return nil, nil
	}
	return h.jobs(ctx, ids)
}

// Here asks for the jobs that slurmctld counts on the node.
func (h *Holders) Here(ctx context.Context) ([]slurm.Job, error) {
	ids, err := h.Slurm.JobsOn(ctx, h.Name)
	if err != nil {
		return nil, err
	}
	return h.jobs(ctx, ids)
}

// jobs asks for jobs by their numbers, and notes what slurmctld says of each.
func (h *Holders) jobs(ctx context.Context, ids []string) ([]slurm.Job, error) {
	var all []slurm.Job
	for _, id := range ids {
		job, err := h.Slurm.Job(ctx, id)
		if err != nil {
			return all, err
		}
		h.note(id, job)
		if job != nil {
			all = append(all, *job)
		}
	}
	return all, nil
}

// IsForgotten says whether no job has left the node lately.
func (h *Holders) IsForgotten() bool { return len(h.Recent(time.Now())) == 0 }
