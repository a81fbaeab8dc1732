package agent

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/link/ask"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/noderecords"
)

// slurmctld tells when the slurmd of a node was started only together with all of its nodes. So
// slurmd registers a mark as the node's Extra (slurmd(8), --extra), which comes with the one
// node's record. 24.11 takes it with every registration, 26.05 only where Extra is empty: a
// record that outlives its slurmd is looked at whole there.

// mark tells the slurmd that was started last from those before it.
type mark struct {
	extra   string
	process *process.Process
}

// newMark is empty where SLURMLET_DAEMON_ARGS has an Extra of the site's.
func (a *Agent) newMark() mark {
	if !a.daemon.registers || slices.ContainsFunc(a.Config.DaemonArgs, func(arg string) bool { return strings.HasPrefix(arg, "--extra") }) {
		return mark{}
	}
	// An object, as SchedulerParameters=extra_constraints wants it (slurm.conf(5)).
	return mark{extra: noderecords.Mark(time.Now(), a.Config.Peers != "")}
}

func (m mark) args() []string {
	if m.extra == "" {
		return nil
	}
	return []string{"--extra", m.extra}
}

// recordAnswer asks for the node record.
func (a *Agent) recordAnswer(ctx context.Context, number int, need lifecycle.Need) lifecycle.Answered {
	node, err := a.askRecord(ctx, need)
	e := lifecycle.Answered{Number: number, Node: node, Err: err, Late: isLate(err)}
	e.Main, e.Began = a.beganByNow(a.mainProcess())
	if node != nil && a.isMarked(node) {
		node.SlurmdStart.Time = e.Began
	}
	return e
}

// askRecord asks for the node record, and for suspended jobs where slurmctld shows the node as idle.
func (a *Agent) askRecord(ctx context.Context, need lifecycle.Need) (*slurm.Node, error) {
	node, err := a.shownRecord(ctx, need)
	if err == nil && node != nil && !node.Busy() {
		node.Suspended, err = a.suspendedJobs(ctx)
	}
	return node, err
}

// shownRecord asks for the one node where that is enough. An idle node may be MIXED in that answer
// (slurm.Scontrol.Glance).
func (a *Agent) shownRecord(ctx context.Context, need lifecycle.Need) (*slurm.Node, error) {
	name := a.Config.NodeName
	if need.Topology {
		return a.client.WholeNode(ctx, name)
	}
	node, err := a.client.Glance(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case node == nil && need.Absence, node != nil && need.Start && !a.isMarked(node):
		return a.client.WholeNode(ctx, name)
	case node != nil && node.Is("MIXED") && need.Jobs && len(a.stepSockets()) == 0:
		return a.recounted(ctx)
	}
	return node, nil
}

// suspendedJobs are those of the steps that run here. Without an answer the node is not idle: the
// question is asked anew.
func (a *Agent) suspendedJobs(ctx context.Context) (names []string, err error) {
	jobs, err := a.jobsOf(ctx, a.stepSockets())
	for i := range jobs {
		if jobs[i].Suspended() {
			names = append(names, jobs[i].Name())
		}
	}
	return names, err
}

// recounted asks for the one node after slurmctld has counted the allocated CPUs of all nodes anew.
// slurmctld's agent has it count for all who ask. Where that agent is away, the answer about all
// nodes is the count.
func (a *Agent) recounted(ctx context.Context) (whole *slurm.Node, err error) {
	name, direct := a.Config.NodeName, false
	err = a.asker.Change(ctx, ask.Change{Verb: ask.Recount, Node: name}, func(ctx context.Context) (err error) {
		direct = true
		whole, err = a.client.WholeNode(ctx, name)
		return err
	})
	if err != nil || direct {
		return whole, err
	}
	return a.client.Node(ctx, name)
}

// isMarked: the slurmd that was started last has registered this record.
func (a *Agent) isMarked(n *slurm.Node) bool {
	a.mainLock.Lock()
	defer a.mainLock.Unlock()
	return a.process != nil && a.process == a.mark.process && n.Extra == a.mark.extra && n.Extra != ""
}
