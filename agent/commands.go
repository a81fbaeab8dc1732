package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// errForeignDrain says that somebody else has drained the node.
var errForeignDrain = errors.New("somebody else has drained the node")

// errNoRecord says that there is nothing to drain or resume.
var errNoRecord = errors.New("slurmctld has no record of this node")

// drain keeps new jobs from the node. One that is drained so already gets the new reason.
func (a *Agent) drain(ctx context.Context, reason string) error {
	node, err := a.client.Node(ctx, a.Config.NodeName)
	switch {
	case err != nil:
		return err
	case node == nil:
		return errNoRecord
	case node.Drained() && !strings.HasPrefix(node.Reason, reasons.ByCommand):
		return fmt.Errorf("%w, and that stays: %s", errForeignDrain, node.Reason)
	}
	return a.client.DrainNode(ctx, a.Config.NodeName, reasons.ByCommand+reason)
}

// undrain lifts a drain of "slurmlet drain", and no other.
func (a *Agent) undrain(ctx context.Context) error {
	node, err := a.client.Node(ctx, a.Config.NodeName)
	switch {
	case err != nil:
		return err
	case node == nil:
		return errNoRecord
	case !node.Drained():
		return nil
	case !strings.HasPrefix(node.Reason, reasons.ByCommand):
		return fmt.Errorf("%w, and not by \"slurmlet drain\": %s", errForeignDrain, node.Reason)
	}
	return a.client.ReinstateNode(ctx, a.Config.NodeName)
}

// untilFree waits until no job holds the node. The end of a step wakes it up.
func (a *Agent) untilFree(ctx context.Context) error {
	for tries := 0; ; tries++ {
		ended := a.stepEnds.Next()
		question, cancel := context.WithTimeout(ctx, a.questionLimit())
		node, err := a.askRecord(question, lifecycle.Need{Absence: true, Jobs: true})
		cancel()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && (node == nil || !node.Busy()):
			return nil
		}
		steps, pause := 0, backoff.Grow(backoff.FirstTry, tries, lifecycle.WatchedPause)
		if err == nil {
			steps = len(a.stepSockets())
		}
		if steps > 0 {
			tries, pause = 0, lifecycle.CountEvery
		}
		if err := a.untilFewer(ctx, ended, steps, pause); err != nil {
			return err
		}
	}
}

// untilFewer waits for a step's end, which slurmctld is not asked for, or
// without steps for a while.
func (a *Agent) untilFewer(ctx context.Context, ended <-chan struct{}, steps int, pause time.Duration) error {
	for {
		select {
		case <-ended:
			return nil
		case <-time.After(pause):
			if steps == 0 || len(a.stepSockets()) < steps {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-a.over:
			return errors.New("the agent ends")
		}
	}
}

// Answer is what the agent says to a command.
type Answer struct {
	Error string `json:"error,omitempty"`
}

// handleCommand answers a request with what do has led to. It may take its time.
func (a *Agent) handleCommand(do func(ctx context.Context, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		patient := http.NewResponseController(w) // a read that is overdue would cancel the request
		_, _ = patient.SetReadDeadline(time.Time{}), patient.SetWriteDeadline(time.Time{})
		var answer Answer
		if err := do(r.Context(), r); err != nil {
			answer.Error = err.Error()
			w.WriteHeader(http.StatusConflict)
		}
		_ = json.NewEncoder(w).Encode(answer) // the reader has gone
	}
}

func (a *Agent) drainCommand(ctx context.Context, r *http.Request) error {
	question, cancel := context.WithTimeout(ctx, a.questionLimit())
	defer cancel()
	if err := a.drain(question, r.FormValue("reason")); err != nil {
		return err
	}
	if r.FormValue("wait") == "" {
		return nil
	}
	return a.untilFree(ctx)
}

func (a *Agent) resumeCommand(ctx context.Context, _ *http.Request) error {
	if a.Status().State == lifecycle.Stopping {
		return errors.New("the pod is terminating: its node takes no jobs any more")
	}
	question, cancel := context.WithTimeout(ctx, a.questionLimit())
	defer cancel()
	return a.undrain(question)
}

// deadlineCommand is the word of whoever knows when the pod is killed, and comes
// in by exec: the kubelet does not bring the annotations of a pod up to date that
// is on its way down.
func (a *Agent) deadlineCommand(_ context.Context, r *http.Request) error {
	now := time.Now()
	at, err := nodesize.ParseDeadline(r.FormValue("at"))
	switch {
	case err != nil:
		return fmt.Errorf("cannot use the deadline %q: %w", r.FormValue("at"), err)
	case !at.After(now):
		return fmt.Errorf("the deadline %s is over", at.Format(time.RFC3339))
	}
	a.post(lifecycle.DeadlineSet{At: now, Deadline: at, Source: "slurmlet deadline"})
	return nil
}
