package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// granted is a group whose job 7 runs on n1, n2 and so on, one for each task. Slurm answers what is asked, and hears no end.
type granted struct {
	*testing.T
	s       State
	now, at time.Time
	job     wire.QueuedJob
	actions []Action // since they were last taken
	// away: nobody carries orders out.
	away bool
	deep int
}

func grant(t *testing.T, spec Spec) *granted {
	g := &granted{T: t, now: time.Unix(1_800_000_000, 0)}
	g.job = wire.QueuedJob{ID: 7, User: "alice", State: "RUNNING", Start: g.now}
	for i := range spec.Size {
		g.job.Nodes = append(g.job.Nodes, fmt.Sprint("n", i+1))
	}
	spec.UID, spec.Name, spec.User = "g", "ns/g", "alice"
	g.step(SpecIs{spec})
	g.step(AllTold{[]uint32{7}})
	g.step(JobIs{Job: g.job, Holds: g.job.Nodes})
	g.now = g.now.Add(time.Second)
	g.take() // a gang without pods asks for its owner
	return g
}

func (g *granted) step(e Event) {
	g.Helper()
	g.deep++
	defer func() { g.deep-- }()
	require.Less(g, g.deep, 20, "one order follows another at once")
	var actions []Action
	g.s, actions, g.at = Step(g.s, e, g.now)
	g.actions = append(g.actions, actions...)
	for _, a := range actions {
		send, is := a.(Send)
		switch {
		case !is:
		case g.away:
			g.step(Result{wire.OrderResult{Order: send.Order.ID, Unknown: "slurmctld is silent"}, nil})
		case send.Order.Kind == wire.Look:
			g.step(Result{wire.OrderResult{Order: send.Order.ID, Job: 7}, &g.job})
		default:
			g.step(Result{wire.OrderResult{Order: send.Order.ID, Job: 7}, nil})
		}
	}
}

// pass has time go on.
func (g *granted) pass(by time.Duration) {
	g.Helper()
	end := g.now.Add(by)
	for range 10_000 {
		if g.at.IsZero() || g.at.After(end) {
			g.now = end
			return
		}
		g.now = g.at
		g.step(Tick{})
	}
	g.Fatal("the clock is asked too often")
}

// pod is one that has a task of the job, and change says what else is known of it.
func (g *granted) pod(uid string, rank int, change func(p *Pod)) {
	run := (&Job{QueuedJob: g.job}).run()
	p := Pod{UID: uid, Name: "ns/" + uid, Created: g.now.Add(-time.Minute), Slot: -1, Scheduled: true, Place: Place{Job: 7, Run: run, Node: g.job.Nodes[rank], Rank: rank}}
	if change != nil {
		change(&p)
	}
	g.step(PodIs{p})
}

// waits is a pod that waits for a task.
func (g *granted) waits(uid string) {
	g.step(PodIs{Pod{UID: uid, Name: "ns/" + uid, Created: g.now, Gated: true, Slot: -1}})
}

func ends(status int) func(p *Pod) { return func(p *Pod) { p.Over, p.Status = true, status } }

// take returns the actions so far but for looks, in words, and forgets them.
func (g *granted) take() (words []string) {
	for _, a := range g.actions {
		switch a := a.(type) {
		case Send:
			if a.Order.Kind == wire.Finish {
				words = append(words, fmt.Sprintf("finish %d", a.Order.Status))
			} else if a.Order.Kind != wire.Look {
				words = append(words, string(a.Order.Kind))
			}
		case Bind:
			words = append(words, "bind "+a.UID+" "+a.Node)
		case Delete:
			words = append(words, "delete "+a.UID)
		case Say:
			words = append(words, "say "+a.UID+" "+a.Reason)
		case Avoid:
			words = append(words, "avoid "+a.Node)
		case AskOwner:
			words = append(words, "ask")
		}
	}
	g.actions = nil
	return words
}

// TestRefusedByTheKubelet: a pod that its kubelet does not run is one that has failed, and the next jobs ask for other nodes.
func TestRefusedByTheKubelet(t *testing.T) {
	refused := func(p *Pod) {
		p.Over, p.Status, p.Refused = true, 1, "OutOfcpu: Node didn't have enough resource: cpu."
	}
	t.Run("a pod of its own", func(t *testing.T) {
		g := grant(t, Spec{Size: 1})
		g.pod("a", 0, nil)
		assert.Empty(t, g.take())
		g.pod("a", 0, refused)
		i := slices.IndexFunc(g.actions, func(a Action) bool { _, is := a.(Say); return is })
		require.GreaterOrEqual(t, i, 0)
		assert.Equal(t, "The kubelet of the node n1 does not run the pod: OutOfcpu: Node didn't have enough resource: cpu. "+
			"The next jobs of the pod's owner do not ask for that node for 10m0s.", g.actions[i].(Say).Note)
		assert.Equal(t, []string{"avoid n1", "say a NotRun", "finish 1"}, g.take())
		g.pod("a", 0, refused)
		assert.Empty(t, g.take(), "it is said once")
	})
	t.Run("one of a gang, and others run", func(t *testing.T) {
		g := grant(t, Spec{Size: 2, Gang: true})
		g.pod("a", 0, nil)
		g.pod("b", 1, nil)
		g.pod("b", 1, refused)
		g.pass(time.Hour)
		assert.Equal(t, []string{"avoid n2", "say b NotRun"}, g.take())
		g.waits("c")
		g.pass(time.Second)
		assert.Equal(t, []string{"bind c n2"}, g.take(), "as after any failed pod")
	})
	t.Run("one of a gang, and no other one runs", func(t *testing.T) {
		g := grant(t, Spec{Size: 2, Gang: true})
		g.pod("a", 0, nil)
		g.pod("b", 1, nil)
		g.pod("b", 1, refused)
		g.pod("a", 0, ends(0))
		assert.Equal(t, []string{"avoid n2", "say b NotRun", "finish 1"}, g.take(), "the next pods do not get the node again")
	})
	t.Run("another leader sees what is over", func(t *testing.T) {
		g := grant(t, Spec{Size: 1})
		g.pod("a", 0, refused)
		assert.Equal(t, []string{"finish 1"}, g.take())
	})
}

// TestGivenBack: a job whose pod kube-scheduler cannot bind gets no more pods, and is ended until Slurm has ended it.
func TestGivenBack(t *testing.T) {
	unbound := func(p *Pod) { p.Scheduled, p.Unscheduled = false, "no port" }
	t.Run("no pod comes to it", func(t *testing.T) {
		g := grant(t, Spec{Size: 2, Gang: true})
		g.pod("a", 0, unbound)
		g.pass(Binding + time.Second)
		assert.Equal(t, []string{"cancel", "avoid n1", "say a NotBound"}, g.take())
		g.waits("b")
		g.pass(10 * time.Second)
		assert.Empty(t, g.take(), "b has no task of a job that is given back")
		g.pass(anew)
		assert.Equal(t, []string{"cancel"}, g.take(), "the order is given again")
	})
	t.Run("it is given back while nobody carries orders out", func(t *testing.T) {
		g := grant(t, Spec{Size: 1})
		g.away = true
		g.pod("a", 0, unbound)
		g.pass(Binding + time.Second)
		assert.Equal(t, []string{"cancel", "avoid n1", "say a NotBound"}, g.take())
		g.pod("a", 0, nil) // kube-scheduler binds it at last
		g.pass(2*anew - 2*time.Second)
		assert.Equal(t, []string{"cancel"}, g.take(), "every 30 s, and nothing else is said")
		g.away = false
		g.pass(anew)
		assert.Equal(t, []string{"cancel"}, g.take())
		g.job.State = "CANCELLED"
		g.step(JobIs{Job: g.job})
		assert.Equal(t, []string{"delete a"}, g.take())
	})
	t.Run("a pod comes in the moment in which it is given back", func(t *testing.T) {
		g := grant(t, Spec{Size: 2, Gang: true})
		g.pod("a", 0, unbound)
		g.waits("b")
		g.take()
		g.step(PodGone{"b"})
		g.now = g.now.Add(Binding + time.Second)
		g.waits("c")
		assert.Equal(t, []string{"cancel", "avoid n1", "say a NotBound"}, g.take())
	})
	t.Run("silence", func(t *testing.T) {
		g := grant(t, Spec{Size: 1})
		g.pod("a", 0, func(p *Pod) { p.Scheduled = false })
		g.pass(time.Hour)
		assert.Empty(t, g.take())
	})
}

// TestLatePod: a pod of a gang that comes late waits for its node as long as others run, which would be lost with the job.
func TestLatePod(t *testing.T) {
	g := grant(t, Spec{Size: 2, Gang: true})
	g.pod("a", 0, nil)
	g.pod("b", 1, nil)
	g.pass(time.Hour)
	g.pod("b", 1, ends(1))
	unbound := func(p *Pod) { p.Created, p.Scheduled, p.Unscheduled = g.job.Start.Add(time.Hour), false, "no port" }
	g.pod("c", 1, unbound)
	g.pass(time.Hour)
	assert.Equal(t, []string{"say c NotBound"}, g.take(), "a is not lost")
	g.step(PodGone{"c"})
	g.waits("d")
	g.pass(time.Second)
	assert.Equal(t, []string{"bind d n2"}, g.take(), "the next one has its task")
	g.pod("d", 1, unbound)
	g.pass(Binding + time.Second)
	assert.Equal(t, []string{"say d NotBound"}, g.take())
	g.pod("a", 0, ends(0))
	assert.Equal(t, []string{"cancel", "avoid n2", "say d NotBound"}, g.take(), "nothing runs that would be lost")
}

// TestWaves: a gang whose owner has more completions than pods at once keeps its job until these have ended well.
func TestWaves(t *testing.T) {
	start := func(t *testing.T) *granted {
		g := grant(t, Spec{Size: 2, Whole: 4, Gang: true})
		g.pod("a", 0, nil)
		g.pod("b", 1, nil)
		g.pod("a", 0, ends(0))
		g.pod("b", 1, ends(0))
		assert.Equal(t, []string{"ask"}, g.take(), "two of four have ended")
		return g
	}
	t.Run("the next wave comes", func(t *testing.T) {
		g := start(t)
		g.pass(5 * time.Second)
		g.take()
		g.waits("c")
		g.waits("d")
		g.pass(time.Second)
		assert.Equal(t, []string{"bind c n1", "bind d n2"}, g.take())
		g.pod("c", 0, nil)
		g.pod("d", 1, nil)
		g.pod("d", 1, ends(0))
		assert.Empty(t, g.take())
		g.pod("c", 0, ends(0))
		assert.Equal(t, []string{"finish 0"}, g.take(), "all four have")
	})
	t.Run("the owner has ended", func(t *testing.T) {
		g := start(t)
		g.pass(time.Minute)
		assert.Equal(t, []string{"ask", "ask", "ask", "ask", "ask", "ask", "ask"}, g.take(), "after 1, 2, 4, 8, 16, 31 and 46 s")
		g.step(OwnerIs{OwnerEnd{Done: true}})
		assert.Equal(t, []string{"finish 0"}, g.take())
	})
	t.Run("nobody says so, and no pod comes", func(t *testing.T) {
		g := start(t)
		g.pass(Replacement - time.Second)
		assert.NotContains(t, g.take(), "finish 1")
		g.pass(2 * time.Second)
		assert.Equal(t, "finish 1", g.take()[0])
	})
}

// TestNobodyReplaces: pods without a controller have no next ones, so their job ends at once.
func TestNobodyReplaces(t *testing.T) {
	alone := func(change func(p *Pod)) func(p *Pod) {
		return func(p *Pod) {
			p.Alone = true
			change(p)
		}
	}
	runs := func(*Pod) {}
	t.Run("all have ended, and one has failed", func(t *testing.T) {
		g := grant(t, Spec{Size: 2, Whole: 2, Gang: true})
		g.pod("a", 0, alone(runs))
		g.pod("b", 1, alone(runs))
		g.pod("a", 0, alone(ends(3)))
		assert.Empty(t, g.take())
		g.pod("b", 1, alone(ends(0)))
		assert.Equal(t, []string{"finish 3"}, g.take())
	})
	t.Run("some have not come yet", func(t *testing.T) {
		g := grant(t, Spec{Size: 2, Whole: 2, Gang: true})
		g.pod("a", 0, alone(runs))
		g.pod("a", 0, alone(ends(0)))
		g.pass(leaving - time.Second)
		assert.Empty(t, g.take())
		g.pass(2 * time.Second)
		assert.Equal(t, []string{"finish 0"}, g.take())
	})
	t.Run("one is replaced", func(t *testing.T) {
		g := grant(t, Spec{Size: 2, Gang: true})
		g.pod("a", 0, alone(runs))
		g.pod("b", 1, nil)
		g.pod("a", 0, alone(ends(0)))
		g.pod("b", 1, ends(0))
		assert.Equal(t, []string{"ask"}, g.take())
		g.step(OwnerIs{OwnerEnd{Done: true}})
		assert.Equal(t, []string{"finish 0"}, g.take())
	})
	t.Run("all are gone", func(t *testing.T) {
		g := grant(t, Spec{Size: 1, Whole: 1, Gang: true})
		g.pod("a", 0, alone(runs))
		g.step(PodGone{"a"})
		assert.Equal(t, []string{"ask"}, g.take())
		g.step(OwnerIs{OwnerEnd{Done: true}})
		assert.Equal(t, []string{"cancel"}, g.take())
	})
}
