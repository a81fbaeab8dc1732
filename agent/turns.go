package agent

import (
	"context"
	"time"
)

// turns let a node's agent have one question to slurmctld in flight. A slurmctld that is slow
// has no more of them to answer than it has nodes. On the way down no question waits for
// another, because the deadlines do not wait either. Nil turns let all questions through.
type turns struct {
	taken chan struct{}
	over  chan struct{}
}

func newTurns(registers bool) turns {
	if !registers {
		return turns{}
	}
	return turns{taken: make(chan struct{}, 1), over: make(chan struct{})}
}

func (t turns) take(ctx context.Context) (done func(), err error) {
	if t.taken == nil {
		return func() {}, nil
	}
	select {
	case <-t.over:
		return func() {}, nil
	default:
	}
	select {
	case t.taken <- struct{}{}:
		return func() { <-t.taken }, nil
	case <-t.over:
		return func() {}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// end lets all questions through from now on.
func (t turns) end() { close(t.over) }

// turn waits until this agent may run a command, and until the program may.
func (a *Agent) turn(ctx context.Context) (done func(), err error) {
	own, err := a.turns.take(ctx)
	if err != nil || a.Turn == nil {
		return own, err
	}
	shared, err := a.Turn(ctx)
	if err != nil {
		own()
		return nil, err
	}
	return func() {
		shared()
		own()
	}, nil
}

// questionLimit bounds one question.
func (a *Agent) questionLimit() time.Duration { return a.client.Limit() }
