package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// TestFinishWaitsForSlurmctld: a job whose pods have ended keeps their exit status, however long slurmctld is away. One that
// does not end by its script is cancelled.
func TestFinishWaitsForSlurmctld(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var actions []Action
	var s State
	step := func(e Event) {
		s, actions, _ = Step(s, e, now)
	}
	run := Run{Start: now.Unix()}
	step(SpecIs{Spec{UID: "g", Name: "ns/g", User: "alice", Size: 1}})
	step(AllTold{[]uint32{7}})
	step(JobIs{Job: wire.QueuedJob{ID: 7, User: "alice", State: "RUNNING", Nodes: []string{"n1"}, Start: now}})
	step(PodIs{Pod{UID: "p", Scheduled: true, Over: true, Slot: -1, Place: Place{Job: 7, Run: run, Node: "n1"}}})
	sent := func() wire.Order {
		for _, a := range actions {
			if send, is := a.(Send); is {
				return send.Order
			}
		}
		return wire.Order{}
	}
	for range 10 {
		o := sent()
		assert.Equal(t, wire.Finish, o.Kind)
		step(Result{wire.OrderResult{Order: o.ID, Unknown: "slurmctld is silent"}, nil})
		now = now.Add(anew)
		step(Tick{})
	}
	for range 2 {
		o := sent()
		assert.Equal(t, wire.Finish, o.Kind)
		step(Result{wire.OrderResult{Order: o.ID, Job: 7}, nil})
		now = now.Add(anew)
		step(Tick{})
	}
	assert.Equal(t, wire.Cancel, sent().Kind)
}
