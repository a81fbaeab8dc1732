package slurmd

import (
	"context"
	"fmt"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// Perform does an action that is a node's, and says whether it is one. What comes of it is posted later.
func (n *Node) Perform(act lifecycle.Action) bool {
	switch act := act.(type) {
	case lifecycle.AskNode:
		n.Inquire(func(ctx context.Context) lifecycle.Event { return n.record.AskNode(ctx, act) })
	case lifecycle.AskJobs:
		n.Inquire(func(ctx context.Context) lifecycle.Event {
			n.relaunches.ReleaseLast(ctx)
			return n.record.AskJobs(ctx, act)
		})
	case lifecycle.Change:
		conf := n.current.Load().Conf // of the state that has led to this action
		n.Inquire(func(ctx context.Context) lifecycle.Event {
			return lifecycle.Done{Number: act.Number, Err: n.change(ctx, act, conf)}
		})
	case lifecycle.CompareCluster:
		n.mismatches.check(n.current.Load(), n.fits)
	case lifecycle.FindLostJobs:
		n.Inquire(func(ctx context.Context) lifecycle.Event { return n.stale.Find(ctx, act.Number) })
	case lifecycle.CountSteps:
		go func() { n.Post(lifecycle.StepsCounted{Number: act.Number, Steps: len(n.spool.Steps())}) }()
	case lifecycle.SignalJobs:
		go n.requeuer.SignalAll()
	case lifecycle.KillRequeued:
		go n.requeuer.KillRequeued()
	case lifecycle.EndSteps:
		go n.cgroups.EndSteps(act.Kill)
	case lifecycle.HoldSteps:
		n.cgroups.HoldSteps()
	case lifecycle.KillSteps:
		n.KillSteps()
	default:
		return false
	}
	return true
}

// change changes the node record or its jobs. conf is what slurmd registers.
func (n *Node) change(ctx context.Context, c lifecycle.Change, conf string) error {
	if c.Verb != lifecycle.MendLaunch {
		n.relaunches.ReleaseLast(ctx)
	}
	switch c.Verb {
	case lifecycle.DeleteAgain:
		return n.deleteAgain(ctx, conf)
	case lifecycle.DeleteNode, lifecycle.RenewNode, lifecycle.DrainNode, lifecycle.ResumeNode, lifecycle.FailNode, lifecycle.PowerDownNode, lifecycle.PowerOffNode:
		return n.Changes.Make(ctx, c.Verb, c.Reason, conf)
	case lifecycle.UpdateNode:
		return n.Slurm.UpdateNode(ctx, n.Name, c.Fields)
	case lifecycle.RequeueJobs:
		return n.requeuer.Requeue(ctx, c.Last)
	case lifecycle.EndStaleJobs:
		return n.stale.End(ctx)
	case lifecycle.MendLaunch:
		return n.relaunches.Mend(ctx)
	case lifecycle.StartSackd:
		return n.StartSackd(ctx)
	}
	panic(fmt.Sprintf("change: no such verb: %d", c.Verb))
}

// deleteAgain deletes a record that a registration has made anew, if it is there.
func (n *Node) deleteAgain(ctx context.Context, conf string) error {
	node, err := n.Slurm.Glance(ctx, n.Name)
	switch {
	case err != nil:
		return err
	case node == nil:
		return fmt.Errorf("nothing has made the record of node %s anew: %w", n.Name, slurm.ErrNoNode)
	}
	return n.Changes.Make(ctx, lifecycle.DeleteNode, "", conf)
}

// resumeRecord lifts the node's drain.
func (n *Node) resumeRecord(ctx context.Context) error {
	return n.Changes.Make(ctx, lifecycle.ResumeNode, "", "")
}

// powerDown drains an elastic node, which slurmctld suspends after its jobs.
func (n *Node) powerDown(ctx context.Context, reason string) error {
	return n.Changes.Make(ctx, lifecycle.PowerDownNode, reason, "")
}

// KillSteps leaves no slurmstepd behind. It takes a nil Node.
func (n *Node) KillSteps() {
	if n != nil {
		n.cgroups.KillSteps()
	}
}

// Steps counts the steps that run here. It takes a nil Node.
func (n *Node) Steps() int {
	if n == nil {
		return 0
	}
	return len(n.spool.Steps())
}

// IsIdle says whether no step runs here and none has ended lately. It takes a nil Node.
func (n *Node) IsIdle() bool { return n == nil || n.Steps() == 0 && n.requeuer.IsForgotten() }

// BeforeStart puts everything right for the next slurmd. It takes a nil Node.
func (n *Node) BeforeStart() error {
	if n == nil {
		return nil
	}
	if err := n.gres.Check(n.Root); err != nil {
		return err
	}
	n.cgroups.Reclaim()
	return nil
}

// NewArgs are slurmd's arguments for a node with this configuration. Each slurmd has a new mark.
func (n *Node) NewArgs(conf, controller string) []string {
	return append([]string{"-Z", "-N", n.Name, "-b", "--conf-server", controller, "--conf", conf}, n.record.NewMark()...)
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
	select {
	case n.spoolMade <- struct{}{}:
	default: // somebody has the word yet
	}
}

// Heard takes a line of slurmd's. It takes a nil Node.
func (n *Node) Heard(line process.Line) {
	if n != nil && n.relaunches.Heard(line) {
		n.Post(lifecycle.LaunchRefused{})
	}
}
