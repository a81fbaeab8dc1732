package planner

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// TestFailing: patience, DOWN, power down, the pause, which doubles, and a start that ends it.
func TestFailing(t *testing.T) {
	k, now := NewKeeper(), noon
	look := Look{Sets: setA(t, ""), Pod: noPods, ResumeTimeout: 10 * time.Minute}
	plan := func(n slurm.Node) Plan {
		look.At, look.Nodes = now, rest(n)
		return k.Plan(look, now)
	}
	starting := node("a-1", "ALLOCATED+POWERING_UP")
	for _, pause := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
		look.Failing = []wire.Failure{{Nodes: "a-[1-2]", Reason: "ErrImagePull", Note: "not \"found\""}}
		p := plan(starting)
		require.Empty(t, words(p))
		require.Equal(t, "a-[1-2]", p.Standings[0].Failing[0].Nodes)
		now = now.Add(31 * time.Second)
		require.Equal(t, []string{"fail a-1 slurmlet: ErrImagePull: not found"}, words(plan(starting)))
		down := because(node("a-1", "DOWN+POWERING_UP"), "slurmlet: ErrImagePull: not found", now)
		require.Equal(t, []string{"power_down a-1"}, words(plan(down)))
		down = because(node("a-1", "DOWN+POWERING_DOWN"), down.Reason, now)
		look.Failing = nil
		p = plan(down)
		require.Empty(t, words(p))
		require.WithinDuration(t, now.Add(pause), p.Standings[0].Retry, 0)
		require.Equal(t, []string{"a-1"}, p.Standings[0].Failed)
		now = now.Add(pause)
		require.Equal(t, []string{"resume a-1"}, words(plan(down)))
		now = now.Add(time.Second)
	}
	plan(starting)
	now = now.Add(3 * time.Second)
	p := plan(node("a-1", "ALLOCATED"))
	require.Equal(t, []Started{{"a", "a-1", 3 * time.Second}}, p.Started)
	require.Empty(t, k.pauses)
}

// TestFailsSince: Kubernetes' word for what keeps a pod from running changes, and is none in between. The controller's
// clock is not believed where it is impossible.
func TestFailsSince(t *testing.T) {
	for name, tt := range map[string]struct {
		told time.Duration // after the node began to start; 0: the controller does not tell
		want time.Duration
	}{
		"as the controller tells":              {10 * time.Second, 40 * time.Second},
		"the controller's clock is behind":     {-time.Hour, 30 * time.Second},
		"the controller's clock is ahead":      {time.Hour, 54 * time.Second}, // 30 s of one word
		"a controller that does not tell when": {0, 54 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			k := NewKeeper()
			look := Look{Sets: setA(t, ""), Pod: noPods, Nodes: rest(node("a-1", "ALLOCATED+POWERING_UP"))}
			for after := time.Duration(0); after < time.Minute; after += 2 * time.Second {
				look.At = noon.Add(after)
				f := wire.Failure{Nodes: "a-1", Reason: "ErrImagePull", Note: "no"}
				if tt.told != 0 {
					f.Since = noon.Add(tt.told)
				}
				switch {
				case after >= 24*time.Second:
					f.Reason = "ImagePullBackOff"
				case after < 10*time.Second || after >= 18*time.Second:
					f.Nodes = "a-9" // nothing is known of a-1
				}
				look.Failing = []wire.Failure{f}
				if said := words(k.Plan(look, look.At)); len(said) > 0 {
					require.Equal(t, []string{"fail a-1 slurmlet: ImagePullBackOff: no"}, said)
					require.Equal(t, tt.want, after)
					return
				}
			}
			t.Fatal("the node is not given up")
		})
	}
}

// TestUnschedulable: an autoscaler has nearly all of ResumeTimeout.
func TestUnschedulable(t *testing.T) {
	k := NewKeeper()
	look := Look{Sets: setA(t, ""), Pod: noPods, Nodes: rest(node("a-1", "ALLOCATED+POWERING_UP")), Failing: []wire.Failure{{Nodes: "a-1", Reason: "Unschedulable", Note: "0/3 nodes"}}}
	at := func(d time.Duration) []string {
		look.At = noon.Add(d)
		return words(k.Plan(look, look.At))
	}
	require.Empty(t, at(0))
	require.Empty(t, at(time.Hour), "slurmctld has not told ResumeTimeout")
	look.ResumeTimeout = 10 * time.Minute
	k = NewKeeper()
	require.Empty(t, at(0))
	require.Empty(t, at(9*time.Minute))
	require.Equal(t, []string{"fail a-1 slurmlet: Unschedulable: 0/3 nodes"}, at(9*time.Minute+31*time.Second))
}

// TestRefused: what slurmctld refuses is not asked for at once again, and the status tells it.
func TestRefused(t *testing.T) {
	k, look := NewKeeper(), Look{Sets: setA(t, ""), At: noon}
	p := k.Plan(look, noon)
	require.Len(t, p.Steps, 1)
	for _, name := range p.Steps[0].Nodes {
		k.Tried(&p.Steps[0], name, errors.New("MaxNodeCount"), noon)
	}
	p = k.Plan(look, noon.Add(time.Second))
	require.Empty(t, p.Steps)
	require.Equal(t, "MaxNodeCount", p.Standings[0].Refused["a-2"])
	require.Equal(t, noon.Add(firstRefusal), p.Next)
	require.Len(t, k.Plan(look, noon.Add(firstRefusal)).Steps, 1)
}

// TestUnanswered: slurmctld may make records after nobody waits for its answer any more.
func TestUnanswered(t *testing.T) {
	k, look := NewKeeper(), Look{Sets: setA(t, ""), At: noon}
	step := k.Plan(look, noon).Steps[0]
	for _, name := range step.Nodes {
		k.Tried(&step, name, fmt.Errorf("create: %w", slurm.ErrUnreachable), noon)
	}
	require.Empty(t, k.Plan(look, noon.Add(unanswered-time.Second)).Steps)
	edited := look
	edited.Sets = setA(t, `,"weight":"5"`)
	require.Empty(t, k.Plan(edited, noon.Add(unanswered-time.Second)).Steps, "nor with other words")
	require.Len(t, k.Plan(look, noon.Add(unanswered)).Steps, 1)
}

// play has a Keeper look at a-1 every second. It returns what was done, and when.
func play(t *testing.T, k *Keeper, look Look, seconds int, state func(second int) slurm.Node) (done []string) {
	for second := range seconds {
		now := noon.Add(time.Duration(second) * time.Second)
		look.At, look.Nodes, look.Sets = now, rest(state(second)), setA(t, "")
		p := k.Plan(look, now)
		for i := range p.Steps {
			done = append(done, fmt.Sprintf("%d %s", second, p.Steps[i].Verb))
			for _, name := range p.Steps[i].Nodes {
				k.Tried(&p.Steps[i], name, nil, now)
			}
		}
	}
	return done
}

// TestOften: a node that is used and suspended all the time comes back at once each time.
func TestOften(t *testing.T) {
	done := play(t, NewKeeper(), Look{Pod: noPods}, 600, func(second int) slurm.Node {
		return node("a-1", map[bool]string{true: "IDLE+POWERING_DOWN", false: "ALLOCATED"}[second%20 == 19])
	})
	require.Len(t, done, 30)
}

// TestInVain: two changes that undo each other are made less and less often.
func TestInVain(t *testing.T) {
	k, done, state := NewKeeper(), []Verb{}, "IDLE+POWERED_DOWN+NOT_RESPONDING"
	for second := range 600 {
		now := noon.Add(time.Duration(second) * time.Second)
		p := k.Plan(Look{At: now, Nodes: rest(node("a-1", state)), Sets: setA(t, ""), Pod: noPods}, now)
		for i := range p.Steps {
			done = append(done, p.Steps[i].Verb)
			k.Tried(&p.Steps[i], "a-1", nil, now)
			state = map[Verb]string{PowerDown: "IDLE+POWERING_DOWN+NOT_RESPONDING", Resume: "IDLE+POWERED_DOWN+NOT_RESPONDING"}[p.Steps[i].Verb]
		}
	}
	require.Less(t, len(done), 25)
	require.Greater(t, len(done), 10)
}

// TestFailingOfAnotherSize: the job that waits for a pod which does not start is requeued.
func TestFailingOfAnotherSize(t *testing.T) {
	look := Look{Pod: noPods, Failing: []wire.Failure{{Nodes: "a-1", Reason: "ErrImagePull"}}}
	require.Equal(t, []string{"30 fail"}, play(t, NewKeeper(), look, 31, func(int) slurm.Node {
		n := node("a-1", "ALLOCATED+POWERING_UP")
		n.Comment = "slurmlet set a: CPUs=1 RealMemory=1024"
		return n
	}))
}
