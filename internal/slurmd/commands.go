package slurmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmd/drains"
)

// untilFree waits until no job holds the node. The end of a step wakes it up.
func (n *Node) untilFree(ctx context.Context) error {
	for tries := 0; ; tries++ {
		ended := n.stepEnds.Next()
		question, cancel := context.WithTimeout(ctx, n.Slurm.Limit())
		record, err := n.record.Ask(question, node.Need{Absence: true, Jobs: true})
		cancel()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && (record == nil || !record.Busy()):
			return nil
		}
		steps, pause := 0, backoff.Grow(backoff.FirstTry, tries, node.WatchedPause)
		if err == nil {
			steps = len(n.spool.Steps())
		}
		if steps > 0 {
			tries, pause = 0, node.CountEvery
		}
		if err := n.untilFewer(ctx, ended, steps, pause); err != nil {
			return err
		}
	}
}

// untilFewer waits for a step's end, which slurmctld is not asked for, or
// without steps for a while.
func (n *Node) untilFewer(ctx context.Context, ended <-chan struct{}, steps int, pause time.Duration) error {
	for {
		select {
		case <-ended:
			return nil
		case <-time.After(pause):
			if steps == 0 || len(n.spool.Steps()) < steps {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-n.Done:
			return errors.New("the agent ends")
		}
	}
}

// Drain answers "slurmlet drain", which keeps new jobs from the node. One that is drained so already gets the new reason.
func (n *Node) Drain(ctx context.Context, r *http.Request) error {
	if _, err := n.drains.Set(ctx, reasons.Command, reasons.ByCommand+r.FormValue("reason")); err != nil {
		return err
	}
	if r.FormValue("wait") == "" {
		return nil
	}
	return n.untilFree(ctx)
}

// Resume answers "slurmlet resume", which lifts a drain of "slurmlet drain", and no other.
func (n *Node) Resume(ctx context.Context, _ *http.Request) error {
	if state, _ := n.State(); state == supervisor.Stopping {
		return errors.New("the pod is terminating: its node takes no jobs any more")
	}
	_, err := n.drains.Lift(ctx, reasons.Command)
	if foreign, is := errors.AsType[*drains.ForeignError](err); is {
		return fmt.Errorf("somebody else has drained the node, and not by \"slurmlet drain\": %s", foreign.Reason)
	}
	return err
}

// SetDeadline answers "slurmlet deadline", the word of whoever knows when the pod is killed, and comes
// in by exec: the kubelet does not bring the annotations of a pod up to date that
// is on its way down.
func (n *Node) SetDeadline(_ context.Context, r *http.Request) error {
	now := time.Now()
	at, err := nodesize.ParseDeadline(r.FormValue("at"))
	switch {
	case err != nil:
		return fmt.Errorf("cannot use the deadline %q: %w", r.FormValue("at"), err)
	case !at.After(now):
		return fmt.Errorf("the deadline %s is over", at.Format(time.RFC3339))
	}
	n.Post(deadlines.DeadlineSet{At: now, Deadline: at, Source: "slurmlet deadline"})
	return nil
}
