package peerserver

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

func TestReporter(t *testing.T) {
	var leads atomic.Bool
	var refused atomic.Int32
	leads.Store(true)
	c := newController(t, ServerOptions{Leads: func() bool {
		if !leads.Load() {
			refused.Add(1)
		}
		return leads.Load()
	}})
	c.put(pod("ctl", "u0", "10.0.0.1", 0))
	c.Sync()
	agent := c.client("one/u0/slurmctld", peers.ClientOptions{})
	agent.wait(t, "ctl")
	r := peers.NewReporter()
	r.Follow(agent.Client)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { r.Run(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	next := func() wire.Report {
		t.Helper()
		select {
		case one := <-c.reports:
			return one
		case <-time.After(limit):
			t.Fatal("no report")
		}
		return wire.Report{}
	}
	r.Set([]wire.NodeReport{{Name: "b", State: wire.Idle}, {Name: "a", State: wire.Idle}}, time.Now())
	assert.Equal(t, wire.Report{Whole: true, Nodes: []wire.NodeReport{{Name: "a", State: wire.Idle}, {Name: "b", State: wire.Idle}}}, next())
	r.Set([]wire.NodeReport{{Name: "a", State: wire.Busy}}, time.Now())
	assert.Equal(t, wire.Report{Nodes: []wire.NodeReport{{Name: "a", State: wire.Busy}, {Name: "b", State: wire.Absent}}}, next())
	c.restart(pod("ctl", "u0", "10.0.0.1", 0))
	assert.Equal(t, wire.Report{Whole: true, Nodes: []wire.NodeReport{{Name: "a", State: wire.Busy}}}, next())

	// Another replica has not taken the report before.
	c.mu.Lock()
	c.clusters["one"].reported = "another"
	c.mu.Unlock()
	r.Set([]wire.NodeReport{{Name: "a", State: wire.Idle}}, time.Now())
	assert.Equal(t, wire.Report{Whole: true, Nodes: []wire.NodeReport{{Name: "a", State: wire.Idle}}}, next())

	// A replica that does not write takes nothing, and the one that writes gets what has changed.
	leads.Store(false)
	r.Set([]wire.NodeReport{{Name: "a", State: wire.Busy}}, time.Now())
	require.Eventually(t, func() bool { return refused.Load() >= 3 }, limit, 10*time.Millisecond)
	assert.Empty(t, c.reports)
	leads.Store(true)
	assert.Equal(t, wire.Report{Nodes: []wire.NodeReport{{Name: "a", State: wire.Busy}}}, next())
}

// TestAnswer: what keeps pods from starting comes with the answer to a report, and a replica that has forgotten
// the cluster has it told anew.
func TestAnswer(t *testing.T) {
	var mu sync.Mutex
	answer, known := (*wire.Answer)(nil), true
	var follows atomic.Bool
	refused := make(chan time.Time, 100)
	c := newController(t, ServerOptions{
		Answer: func(Identity) (*wire.Answer, bool) {
			mu.Lock()
			defer mu.Unlock()
			return answer, known
		},
		Leads: func() bool {
			if follows.Load() {
				refused <- time.Now()
			}
			return !follows.Load()
		},
	})
	say := func(a *wire.Answer, is bool) {
		mu.Lock()
		defer mu.Unlock()
		answer, known = a, is
	}
	c.put(pod("ctl", "u0", "10.0.0.1", 0))
	c.Sync()
	agent := c.client("one/u0/slurmctld", peers.ClientOptions{})
	agent.wait(t, "ctl")
	told := make(chan wire.Failing, 16)
	r := peers.NewReporter()
	r.Follow(agent.Client)
	r.Failing = func(f wire.Failing) { told <- f }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { r.Run(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	next := func() wire.Report {
		t.Helper()
		select {
		case one := <-c.reports:
			return one
		case <-time.After(limit):
			t.Fatal("no report")
		}
		return wire.Report{}
	}
	says := func() wire.Failing {
		t.Helper()
		select {
		case one := <-told:
			return one
		case <-time.After(limit):
			t.Fatal("no answer")
		}
		return wire.Failing{}
	}
	r.Set([]wire.NodeReport{{Name: "a", State: wire.Absent, Elastic: "cpu", Wanted: true}}, time.Now())
	assert.True(t, next().Whole)
	assert.Empty(t, told, "a controller that makes no pods says nothing")

	long := wire.Failing{Pods: []wire.Failure{{Nodes: "a", Reason: "Unschedulable", Note: strings.Repeat("no room ", 10_000)}}}
	say(&wire.Answer{Failing: long, Soon: true}, true)
	r.Set([]wire.NodeReport{{Name: "a", Elastic: "cpu", Wanted: true, State: wire.Busy}}, time.Now())
	assert.False(t, next().Whole)
	assert.Equal(t, long, says())
	// The Service leads to a replica that does not write, and the confirmation looks for another one.
	follows.Store(true)
	first, second := <-refused, <-refused
	assert.Less(t, second.Sub(first), (5*time.Second)/2, "a Reporter confirms each 5 s while pods start")
	say(&wire.Answer{}, true)
	follows.Store(false)
	assert.Equal(t, wire.Report{}, next(), "the reporter asks again soon")
	for f := says(); !reflect.DeepEqual(f, wire.Failing{}); f = says() { // on a busy machine, it has asked before, too
		assert.Equal(t, long, f)
	}

	say(nil, false)
	r.Set([]wire.NodeReport{{Name: "a", State: wire.Absent, Elastic: "cpu"}}, time.Now())
	assert.False(t, news(next).Whole)
	assert.True(t, news(next).Whole, "the controller has forgotten the cluster")
	say(nil, true)
	r.Set([]wire.NodeReport{{Name: "a", State: wire.Absent, Elastic: "cpu", Wanted: true}}, time.Now())
	for !news(next).Nodes[0].Wanted { // a report that was refused comes again
		continue
	}
	for len(told) > 0 {
		assert.Equal(t, wire.Failing{}, <-told)
	}
}

// news is the next report that is no confirmation.
func news(next func() wire.Report) (one wire.Report) {
	for !one.Whole && len(one.Nodes) == 0 {
		one = next()
	}
	return one
}
