package slurm

import "context"

// Turns let a node's agent have one question to slurmctld in flight. A slurmctld that is slow
// has no more of them to answer than it has nodes. On the way down no question waits for
// another, because the deadlines do not wait either. Nil turns let all questions through.
type Turns struct {
	taken chan struct{}
	over  chan struct{}
}

// NewTurns makes turns that nobody has taken.
func NewTurns() *Turns {
	return &Turns{taken: make(chan struct{}, 1), over: make(chan struct{})}
}

// Take waits for a turn, which done gives back.
func (t *Turns) Take(ctx context.Context) (done func(), err error) {
	if t == nil {
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

// Open lets all questions through from now on.
func (t *Turns) Open() { close(t.over) }

// With waits for another turn too, and gives its own back where it gets none. A nil other one is no turn.
func (t *Turns) With(other func(context.Context) (done func(), err error)) func(context.Context) (done func(), err error) {
	return func(ctx context.Context) (done func(), err error) {
		own, err := t.Take(ctx)
		if err != nil || other == nil {
			return own, err
		}
		shared, err := other(ctx)
		if err != nil {
			own()
			return nil, err
		}
		return func() {
			shared()
			own()
		}, nil
	}
}
