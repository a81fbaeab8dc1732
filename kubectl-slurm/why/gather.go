package why

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
)

// World is where the facts are. An error is a fact that cannot be had, and no reason to give up.
type World interface {
	slurm.Asker
	// Pods are those of nodes, by the nodes' names.
	Pods(ctx context.Context) (map[string]*Pod, error)
	// Machine is nil for "".
	Machine(ctx context.Context, name string) (*Machine, error)
	// Events are Kubernetes' warnings on an object, and with "" those on pods that were not made.
	Events(ctx context.Context, pod string) ([]Event, error)
	// LastWords are the warnings and errors that the pod's container has logged before it ended last, a few of them.
	LastWords(ctx context.Context, pod string) ([]string, error)
	// Inside is the Asker of a pod.
	Inside(pod string) slurm.Asker
}

// ErrNoJob is the error of a job that slurmctld does not know, and accounting neither.
var ErrNoJob = errors.New("slurmctld knows no such job")

// Forgotten asks accounting for a job that slurmctld does not know. An error is an ErrNoJob, but for an accounting that
// cannot be asked.
func Forgotten(ctx context.Context, a slurm.Asker, id string) ([]slurm.Job, error) {
	jobs, err := slurm.FindAccounted(ctx, a, id)
	switch {
	case errors.Is(err, slurm.ErrNoAccounting):
		return nil, fmt.Errorf("%s: %w. It forgets a job MinJobAge after its end, and the cluster has no accounting that would know it (docs/run/accounting.md)", id, ErrNoJob)
	case err != nil:
		return nil, fmt.Errorf("%s: %w. It forgets a job MinJobAge after its end, and accounting cannot be asked: %w", id, ErrNoJob, err)
	case len(jobs) == 0:
		return nil, fmt.Errorf("%s: %w, and neither does accounting", id, ErrNoJob)
	}
	return jobs, nil
}

// gathering collects facts, and notes those that it cannot have.
type gathering struct {
	World
	Facts
}

// note takes what a question has led to, and says whether the fact is there.
func (g *gathering) note(what string, err error) bool {
	if err != nil {
		g.Unknown = append(g.Unknown, fmt.Sprintf("%s could not be had: %v", what, err))
	}
	return err == nil
}

// GatherJob collects what there is to know of a job. Of an array it takes the first task that waits.
func GatherJob(ctx context.Context, w World, id string, now time.Time) (Facts, error) {
	jobs, err := slurm.FindJobs(ctx, w, id)
	if err != nil {
		return Facts{}, err
	}
	if len(jobs) == 0 {
		return gatherForgotten(ctx, w, id, now)
	}
	g := &gathering{World: w, Facts: Facts{Now: now}}
	j := &jobs[0]
	for i := range jobs {
		if jobs[i].Is("PENDING") && !j.Is("PENDING") {
			j = &jobs[i]
		}
	}
	g.Job = j
	g.askController(ctx)
	if !j.Is("PENDING", "CONFIGURING") {
		return g.Facts, nil
	}
	g.askPartitions(ctx)
	g.byReason(ctx)
	g.askPods(ctx, g.interesting()...)
	return g.Facts, nil
}

// gatherForgotten has what accounting knows. Of an array it takes the first task that has not COMPLETED.
func gatherForgotten(ctx context.Context, w World, id string, now time.Time) (Facts, error) {
	jobs, err := Forgotten(ctx, w, id)
	if err != nil {
		return Facts{}, err
	}
	failed := max(0, slices.IndexFunc(jobs, func(j slurm.Job) bool { return !j.Is("COMPLETED") }))
	return Facts{Now: now, Job: &jobs[failed], Forgotten: true}, nil
}

func (g *gathering) askController(ctx context.Context) {
	agent, err := slurm.AgentOf(ctx, g)
	if g.note("The status of slurmctld's agent", err) && agent.Role == "slurmctld" {
		g.Controller = agent
	}
}

func (g *gathering) askPartitions(ctx context.Context) {
	names := g.Job.InPartitions()
	var err error
	g.Partitions, err = slurm.FindPartitions(ctx, g, names...)
	g.note("The job's partition", err)
	g.Groups, err = slurm.Groups(ctx, g, names...)
	g.note("The nodes of the partition", err)
}

// byReason asks for what only some reasons need.
func (g *gathering) byReason(ctx context.Context) {
	var err error
	j := g.Job
	switch {
	case strings.HasPrefix(j.Reason, "Dependency"):
		for _, id := range dependencies(j.Dependency) {
			others, err := slurm.FindJobs(ctx, g, id)
			if g.note("The job "+id, err) && len(others) > 0 {
				g.Others = append(g.Others, others[0])
			}
		}
	case j.Reason == "Licenses":
		g.Licenses, err = slurm.Licenses(ctx, g)
		g.note("The licenses", err)
	case isLimit(j.Reason):
		g.Limits, err = slurm.Limits(ctx, g, j, g.Partitions)
		g.note("The limits", err)
	case j.Reason == "Priority" || j.Reason == "Resources":
		g.Queue, err = slurm.Queue(ctx, g, j.InPartitions()...)
		g.note("The jobs that are ahead", err)
	}
	if j.Reason == "Reservation" || j.Reason == "ReservationDeleted" || j.Reason == "ReqNodeNotAvail" || strings.Contains(j.Description, "reserved") {
		g.Reservations, err = slurm.Reservations(ctx, g)
		g.note("The reservations", err)
	}
}

// mostOthers bounds the jobs that are looked at of a dependency.
const mostOthers = 5

// dependencies are the jobs in afterok:5(unfulfilled),afterany:6_2(unfulfilled)?singleton.
func dependencies(text string) (ids []string) {
	for one := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == '?' }) {
		_, job, has := strings.Cut(one, ":")
		if !has {
			continue
		}
		job, _, _ = strings.Cut(job, "(")
		job, _, _ = strings.Cut(job, "+") // of afterok, the minutes
		job = strings.TrimSuffix(job, "_*")
		if IsJob(job) && len(ids) < mostOthers {
			ids = append(ids, job)
		}
	}
	return ids
}

// IsJob says whether a word is a job, and no node: no node's name is a number.
func IsJob(word string) bool { return slurm.IsJobID(word) }

// interesting are the nodes whose pods may explain why the job waits, a few of each group.
func (g *gathering) interesting() (names []string) {
	if g.Job.Is("CONFIGURING") {
		return first((&slurm.Group{Nodes: g.Job.Nodes}).Names(), 20)
	}
	for i := range g.Groups {
		if g.Groups[i].Closed() {
			names = append(names, first(g.Groups[i].Names(), 5)...)
		}
	}
	return names
}

// askPods has the pods of some nodes, and their machines.
func (g *gathering) askPods(ctx context.Context, names ...string) {
	all, err := g.World.Pods(ctx)
	if !g.note("The cluster's pods", err) {
		return
	}
	g.Facts.Pods, g.Machines = map[string]*Pod{}, map[string]*Machine{}
	var refused []string
	for _, name := range names {
		pod := all[name]
		if pod == nil {
			continue
		}
		g.Facts.Pods[name] = pod
		if pod.Machine == "" || g.Machines[pod.Machine] != nil {
			continue
		}
		m, err := g.Machine(ctx, pod.Machine)
		if err != nil && !slices.Contains(refused, err.Error()) {
			refused = append(refused, err.Error())
			g.note("The machine "+pod.Machine, err)
		}
		if m != nil {
			g.Machines[pod.Machine] = m
		}
	}
}

// GatherNode collects what there is to know of a node.
func GatherNode(ctx context.Context, w World, name string, now time.Time) (Facts, error) {
	g := &gathering{World: w, Facts: Facts{Now: now, Name: name}}
	g.askController(ctx)
	node, err := slurm.FindNode(ctx, w, name)
	if g.note("The node's record", err) {
		g.Node = node
	}
	g.askPods(ctx, name)
	pod := g.Facts.Pods[name]
	if pod == nil {
		g.NotMade, err = g.Events(ctx, "")
		g.note("The events of what makes pods", err)
		return g.Facts, nil
	}
	pod.Events, err = g.Events(ctx, pod.Name)
	g.note("The pod's events", err)
	if pod.Waits == "CrashLoopBackOff" {
		pod.LastWords, err = g.LastWords(ctx, pod.Name)
		g.note("The log of the container that has ended", err)
	}
	m := g.Machines[pod.Machine]
	if pod.Phase == "Running" && pod.Waits == "" && (m == nil || !m.lost()) { // the kubelet would have to pass the question on
		agent, err := slurm.AgentOf(ctx, g.Inside(pod.Name))
		if g.note("The status of the node's agent", err) {
			g.Agent = agent
		}
	}
	if node != nil && node.Is("RESERVED", "MAINTENANCE") {
		g.Reservations, err = slurm.Reservations(ctx, w)
		g.note("The reservations", err)
	}
	return g.Facts, nil
}
