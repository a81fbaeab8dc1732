// Package record asks slurmctld for the record of the node that slurmd's pod is.
package record

import (
	"context"
	"errors"
	"sync"

	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/gres"
	"github.com/slurmlet/slurmlet/internal/slurmd/jobs"
)

// slurmctld says when the slurmd of a node was started only together with all of its nodes. So
// slurmd registers a mark as the node's Extra (slurmd(8), --extra), which comes with the one
// node's record. 24.11 takes it with every registration, 26.05 only where Extra is empty: a
// record that outlives its slurmd is looked at whole there.

// Record is the node's.
type Record struct {
	*jobs.Holders
	// Root is where the machine's file system begins.
	Root string
	// Main is the main process, nil for none.
	Main func() *process.Process
	// Recount has slurmctld's agent have slurmctld count the allocated CPUs of all nodes anew. Where that agent is
	// away, direct is called.
	Recount func(ctx context.Context, direct func(context.Context) error) error
	// Gres are the generic resources that slurmd registers.
	Gres gres.List
	// NewExtra is a mark for the next slurmd, empty where the site gives nodes an Extra of its own.
	NewExtra func() string

	// lock guards the mark of the slurmd that was started last, which distinguishes it from those before it.
	lock    sync.Mutex
	extra   string
	process *process.Process
}

// NewMark gives the next slurmd a mark. It returns slurmd's arguments.
func (r *Record) NewMark() []string {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.extra, r.process = r.NewExtra(), nil
	if r.extra == "" {
		return nil
	}
	return []string{"--extra", r.extra}
}

// Started takes the slurmd that has the new mark.
func (r *Record) Started(p *process.Process) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.process = p
}

// Answer asks for the node record.
func (r *Record) Answer(ctx context.Context, number int, need node.Need) node.Answered {
	shown, err := r.Ask(ctx, need)
	e := node.Answered{Number: number, Node: shown, Err: err, Late: isLate(err)}
	e.Main, e.Began = process.BeganByNow(r.Root, r.Main())
	if shown != nil && r.isMarked(shown) {
		shown.SlurmdStartAt = slurm.TimeOf(e.Began)
	}
	return e
}

// Ask asks for the node record, and for suspended jobs where slurmctld shows the node as idle.
func (r *Record) Ask(ctx context.Context, need node.Need) (*slurm.Node, error) {
	node, err := r.shownRecord(ctx, need)
	if err == nil && node != nil && !node.Busy() {
		node.Detail().Suspended, err = r.suspendedJobs(ctx)
	}
	return node, err
}

// shownRecord asks for the one node where that is enough. An idle node may be MIXED in that answer
// (slurm.Scontrol.Glance).
func (r *Record) shownRecord(ctx context.Context, need node.Need) (*slurm.Node, error) {
	name := r.Name
	if need.Topology {
		return r.Slurm.WholeNode(ctx, name)
	}
	node, err := r.Slurm.Glance(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case node == nil && need.Absence, node != nil && need.Start && !r.isMarked(node):
		return r.Slurm.WholeNode(ctx, name)
	case node != nil && node.Is("MIXED") && need.Jobs && len(r.Spool.Steps()) == 0:
		return r.recounted(ctx)
	}
	return node, nil
}

// suspendedJobs are those of the steps that run here. Without an answer the node is not idle: the
// question is asked anew.
func (r *Record) suspendedJobs(ctx context.Context) (names []string, err error) {
	jobs, err := r.Of(ctx, r.Spool.Steps())
	for i := range jobs {
		if jobs[i].State.Suspended() {
			names = append(names, jobs[i].JobID())
		}
	}
	return names, err
}

// recounted asks for the one node after slurmctld has counted the allocated CPUs of all nodes anew.
// slurmctld's agent has it count for all who ask. Where that agent is away, the answer about all
// nodes is the count.
func (r *Record) recounted(ctx context.Context) (whole *slurm.Node, err error) {
	name, direct := r.Name, false
	err = r.Recount(ctx, func(ctx context.Context) (err error) {
		direct = true
		whole, err = r.Slurm.WholeNode(ctx, name)
		return err
	})
	if err != nil || direct {
		return whole, err
	}
	return r.Slurm.Node(ctx, name)
}

// isMarked: the slurmd that was started last has registered this record.
func (r *Record) isMarked(n *slurm.Node) bool {
	main := r.Main()
	r.lock.Lock()
	defer r.lock.Unlock()
	return main != nil && main == r.process && n.Extra == r.extra && n.Extra != ""
}

// isLate: the question has taken all of its limit.
func isLate(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
