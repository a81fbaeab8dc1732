package peers

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
	agent := c.client("one/u0/slurmctld", ClientOptions{})
	agent.wait(t, "ctl")
	r := NewReporter(agent.Client)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { r.Run(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	next := func() Report {
		t.Helper()
		select {
		case one := <-c.reports:
			return one
		case <-time.After(limit):
			t.Fatal("no report")
		}
		return Report{}
	}
	r.Set([]NodeReport{{Name: "b", State: Idle}, {Name: "a", State: Idle}})
	assert.Equal(t, Report{Whole: true, Nodes: []NodeReport{{Name: "a", State: Idle}, {Name: "b", State: Idle}}}, next())
	r.Set([]NodeReport{{Name: "a", State: Busy}})
	assert.Equal(t, Report{Nodes: []NodeReport{{Name: "a", State: Busy}, {Name: "b", State: Absent}}}, next())
	c.restart(pod("ctl", "u0", "10.0.0.1", 0))
	assert.Equal(t, Report{Whole: true, Nodes: []NodeReport{{Name: "a", State: Busy}}}, next())

	// Another replica has not taken the report before.
	c.mu.Lock()
	c.clusters["one"].reported = "another"
	c.mu.Unlock()
	r.Set([]NodeReport{{Name: "a", State: Idle}})
	assert.Equal(t, Report{Whole: true, Nodes: []NodeReport{{Name: "a", State: Idle}}}, next())

	// A replica that does not write takes nothing, and the one that writes gets what has changed.
	leads.Store(false)
	r.Set([]NodeReport{{Name: "a", State: Busy}})
	require.Eventually(t, func() bool { return refused.Load() >= 3 }, limit, 10*time.Millisecond)
	assert.Empty(t, c.reports)
	leads.Store(true)
	assert.Equal(t, Report{Nodes: []NodeReport{{Name: "a", State: Busy}}}, next())
}

// TestOldStates: states that nobody has looked at for minutes are told to no controller, and the first look after that is.
func TestOldStates(t *testing.T) {
	r := NewReporter(&Client{})
	r.Set([]NodeReport{{Name: "a", State: Idle}})
	<-r.news
	report, told := r.difference(nil)
	require.Equal(t, &Report{Whole: true, Nodes: []NodeReport{{Name: "a", State: Idle}}}, report)

	r.set = time.Now().Add(-present)
	for name, before := range map[string]map[string]NodeReport{"a replica that knows nothing": nil, "one that knows older states": {}} {
		report, now := r.difference(before)
		require.Nil(t, report, name)
		require.Equal(t, before, now, name)
	}
	require.False(t, r.isPresent())

	r.Set([]NodeReport{{Name: "a", State: Idle}})
	require.Len(t, r.news, 1, "the same states count as new")
	report, _ = r.difference(nil)
	require.True(t, report.Whole)
	report, _ = r.difference(told)
	require.Nil(t, report)
}

// TestAnswer: what keeps pods from starting comes with the answer to a report, and a replica that has forgotten
// the cluster has it told anew.
func TestAnswer(t *testing.T) {
	var mu sync.Mutex
	answer, known := (*Answer)(nil), true
	var follows atomic.Bool
	refused := make(chan time.Time, 100)
	c := newController(t, ServerOptions{
		Answer: func(Identity) (*Answer, bool) {
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
	say := func(a *Answer, is bool) {
		mu.Lock()
		defer mu.Unlock()
		answer, known = a, is
	}
	c.put(pod("ctl", "u0", "10.0.0.1", 0))
	c.Sync()
	agent := c.client("one/u0/slurmctld", ClientOptions{})
	agent.wait(t, "ctl")
	told := make(chan Failing, 16)
	r := NewReporter(agent.Client)
	r.Failing = func(f Failing) { told <- f }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { r.Run(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	next := func() Report {
		t.Helper()
		select {
		case one := <-c.reports:
			return one
		case <-time.After(limit):
			t.Fatal("no report")
		}
		return Report{}
	}
	says := func() Failing {
		t.Helper()
		select {
		case one := <-told:
			return one
		case <-time.After(limit):
			t.Fatal("no answer")
		}
		return Failing{}
	}
	r.Set([]NodeReport{{Name: "a", State: Absent, Elastic: "cpu", Wanted: true}})
	assert.True(t, next().Whole)
	assert.Empty(t, told, "a controller that makes no pods says nothing")

	long := Failing{Pods: []Failure{{Nodes: "a", Reason: "Unschedulable", Note: strings.Repeat("no room ", 10_000)}}}
	say(&Answer{Failing: long, Soon: true}, true)
	r.Set([]NodeReport{{Name: "a", Elastic: "cpu", Wanted: true, State: Busy}})
	assert.False(t, next().Whole)
	assert.Equal(t, long, says())
	// The Service leads to a replica that does not write, and the confirmation looks for another one.
	follows.Store(true)
	first, second := <-refused, <-refused
	assert.Less(t, second.Sub(first), soonConfirmation/2)
	say(&Answer{}, true)
	follows.Store(false)
	assert.Equal(t, Report{}, next(), "the reporter asks again soon")
	for f := says(); !reflect.DeepEqual(f, Failing{}); f = says() { // on a busy machine, it has asked before, too
		assert.Equal(t, long, f)
	}

	say(nil, false)
	r.Set([]NodeReport{{Name: "a", State: Absent, Elastic: "cpu"}})
	assert.False(t, news(next).Whole)
	assert.True(t, news(next).Whole, "the controller has forgotten the cluster")
	say(nil, true)
	r.Set([]NodeReport{{Name: "a", State: Absent, Elastic: "cpu", Wanted: true}})
	for !news(next).Nodes[0].Wanted { // a report that was refused comes again
		continue
	}
	for len(told) > 0 {
		assert.Equal(t, Failing{}, <-told)
	}
}

// news is the next report that is no confirmation.
func news(next func() Report) (one Report) {
	for !one.Whole && len(one.Nodes) == 0 {
		one = next()
	}
	return one
}
