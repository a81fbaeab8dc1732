package slurmd

import (
	"context"
	"fmt"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// Perform does an action that is a node's, and says whether it is one. What comes of it is posted later.
func (n *Node) Perform(act lifecycle.Action) bool {
	switch act := act.(type) {
	case node.AskNode:
		n.Inquire(func(ctx context.Context) lifecycle.Event { return n.record.AskNode(ctx, act) })
	case node.AskJobs:
		n.Inquire(func(ctx context.Context) lifecycle.Event {
			n.relaunches.ReleaseLast(ctx)
			return n.record.AskJobs(ctx, act)
		})
	case node.Change:
		conf := n.current.Load().Conf // of the state that has led to this action
		n.Inquire(func(ctx context.Context) lifecycle.Event {
			return node.Done{Number: act.Number, Err: n.change(ctx, act, conf)}
		})
	case node.CompareCluster:
		n.mismatchCheck.check(n.current.Load(), n.fits)
	case node.FindLostJobs:
		n.Inquire(func(ctx context.Context) lifecycle.Event { return n.stale.Find(ctx, act.Number) })
	case node.CountSteps:
		go func() { n.Post(node.StepsCounted{Number: act.Number, Steps: len(n.spool.Steps())}) }()
	case node.SignalJobs:
		go n.requeuer.SignalAll()
	case node.KillRequeued:
		go n.requeuer.KillRequeued()
	case node.EndSteps:
		go n.subtree.EndSteps(act.Kill)
	case node.HoldSteps:
		n.subtree.HoldSteps()
	case node.KillSteps:
		n.KillSteps()
	default:
		return false
	}
	return true
}

// change changes the node record or its jobs. conf is what slurmd registers.
func (n *Node) change(ctx context.Context, c node.Change, conf string) error {
	if c.Verb != node.MendLaunch {
		n.relaunches.ReleaseLast(ctx)
	}
	switch c.Verb {
	case node.DeleteAgain:
		return n.deleteAgain(ctx, conf)
	case node.DeleteNode, node.RenewNode, node.DrainNode, node.ResumeNode, node.FailNode, node.PowerDownNode, node.PowerOffNode:
		return n.Changes.Make(ctx, c.Verb, c.Reason, conf)
	case node.UpdateNode:
		return n.Slurm.UpdateNode(ctx, n.Name, c.Fields)
	case node.RequeueJobs:
		return n.requeuer.Requeue(ctx, c.Last)
	case node.EndStaleJobs:
		return n.stale.End(ctx)
	case node.MendLaunch:
		return n.relaunches.Mend(ctx)
	case node.StartSackd:
		return n.StartSackd(ctx)
	}
	panic(fmt.Sprintf("change: no such verb: %d", c.Verb))
}

// deleteAgain deletes a record that a registration has made anew, if it is there.
func (n *Node) deleteAgain(ctx context.Context, conf string) error {
	record, err := n.Slurm.Glance(ctx, n.Name)
	switch {
	case err != nil:
		return err
	case record == nil:
		return fmt.Errorf("nothing has made the record of node %s anew: %w", n.Name, slurm.ErrNoNode)
	}
	return n.Changes.Make(ctx, node.DeleteNode, "", conf)
}

// resumeRecord lifts the node's drain.
func (n *Node) resumeRecord(ctx context.Context) error {
	return n.Changes.Make(ctx, node.ResumeNode, "", "")
}

// KillSteps leaves no slurmstepd behind. It takes a nil Node.
func (n *Node) KillSteps() {
	if n != nil {
		n.subtree.KillSteps()
	}
}

// CountSteps counts the steps that run here. It takes a nil Node.
func (n *Node) CountSteps() int {
	if n == nil {
		return 0
	}
	return len(n.spool.Steps())
}

// IsIdle says whether no step runs here and none has ended lately. It takes a nil Node.
func (n *Node) IsIdle() bool { return n == nil || n.CountSteps() == 0 && n.requeuer.IsForgotten() }

// BeforeStart puts everything right for the next slurmd. It takes a nil Node.
func (n *Node) BeforeStart() error {
	if n == nil {
		return nil
	}
	if err := n.gres.Check(n.Root); err != nil {
		return err
	}
	n.subtree.Reclaim()
	n.holds.BeforeSlurmd()
	return nil
}

// NewArgs are slurmd's arguments for a node with this configuration. Each slurmd has a new mark.
func (n *Node) NewArgs(conf, slurmctld string) []string {
	return append([]string{"-Z", "-N", n.Name, "-b", "--conf-server", slurmctld, "--conf", conf + n.holds.State()}, n.record.NewMark()...)
}

// Started takes the slurmd that was started with the last arguments. It takes a nil Node.
func (n *Node) Started(p *process.Process) {
	if n != nil {
		n.record.Started(p)
	}
}

// IsReady takes slurmd's READY: its directories are there. It takes a nil Node.
func (n *Node) IsReady() {
	if n == nil {
		return
	}
	n.holds.SlurmdReady()
	select {
	case n.spoolMade <- struct{}{}:
	default: // somebody has the word yet
	}
}

// Heard takes a line of slurmd's. It takes a nil Node.
func (n *Node) Heard(line process.Line) {
	if n != nil && n.relaunches.Heard(line) {
		n.Post(node.LaunchRefused{})
	}
}
