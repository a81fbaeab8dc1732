package planner

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// FuzzPlan: whatever is told, a record that a job or a reservation holds is not deleted, nobody's jobs are powered
// down, records of others are not touched, and none is made twice.
func FuzzPlan(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	f.Add([]byte{200, 100, 50, 25, 12, 6, 3, 1})
	states := []string{"IDLE", "ALLOCATED", "MIXED", "DOWN", "UNKNOWN"}
	flags := []string{"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "DRAIN", "RESERVED", "COMPLETING", "NOT_RESPONDING"}
	reasons := []string{"", reasons.SetResized, reasons.SetRemoved, reasons.SetNew, reasons.LostMachine, "slurmlet: ErrImagePull: x", "ResumeTimeout reached", "disk", "Not responding", reasons.DuplicateJob}
	comments := []string{markA, "", "slurmlet set a: CPUs=9 RealMemory=1", "slurmlet set x: CPUs=1 RealMemory=1", "slurmlet set bad: CPUs=1", "mine"}
	f.Fuzz(func(t *testing.T, moves []byte) {
		next := func() int {
			if len(moves) == 0 {
				return 0
			}
			m := int(moves[0])
			moves = moves[1:]
			return m
		}
		sets := setA(t, `,"min":1`)
		sets.Bad = []string{"bad"}
		k, now := NewKeeper(), noon
		for len(moves) > 0 {
			now = now.Add(time.Duration(next()) * time.Second)
			look := Look{At: now, Sets: sets, Suspended: map[string]bool{}, ResumeTimeout: time.Duration(next()) * time.Second}
			has := next()
			records := map[string]*slurm.Node{}
			for i, name := range []string{"a-0", "a-1", "a-3", "x-1", "bad-1", "static"} {
				if has>>i&1 == 1 {
					continue
				}
				n := node(name, states[next()%len(states)])
				for j, bits := 0, next(); j < len(flags); j++ {
					if bits>>j&1 == 1 {
						n.State = append(n.State, flags[j])
					}
				}
				n.Reason, n.Comment = reasons[next()%len(reasons)], comments[next()%len(comments)]
				n.ReasonAt = slurm.Time(now.Unix() - int64(next()))
				m := next()
				if look.Suspended[name] = m&3 == 3; m&12 == 12 {
					n.State = slices.DeleteFunc(n.State, func(f string) bool { return f == "CLOUD" })
				}
				look.Nodes = append(look.Nodes, n)
				records[name] = &n
			}
			switch m := next(); m % 3 {
			case 0:
				look.Pod = func(name string) bool { return m>>(len(name)%8)&1 == 1 }
			case 1:
				look.Failing = []wire.Failure{{Nodes: "a-[0-3],x-1", Reason: "Unschedulable"}, {Nodes: "a-1", Reason: "ErrImagePull"}}
			}
			p := k.Plan(look, now)
			done := map[string]Verb{}
			for i := range p.Steps {
				s := &p.Steps[i]
				for _, name := range s.Nodes {
					n := records[name]
					if s.Verb != Update {
						require.Empty(t, done[name], "%s: %s and %s", name, done[name], s.Verb)
						done[name] = s.Verb
					}
					require.Equal(t, s.Verb == Create, n == nil, "%s %s", s.Verb, name)
					if n == nil {
						require.True(t, sets.All[0].NodeNames.Contains(name))
						continue
					}
					require.True(t, isOurs(n), "%s %v", s.Verb, n)
					require.False(t, name == "bad-1" && n.Comment == comments[4] || !sets.All[0].NodeNames.Contains(name) && setOf(n.Comment) == "", "%s %v", s.Verb, n)
					jobs := look.Suspended[name] || n.State.HoldsJobs()
					admin := n.Is("DOWN") && (n.Reason == "disk")
					switch s.Verb {
					case Delete:
						require.False(t, jobs || n.State.Reserved() || !n.Off(), "%v", n)
					case PowerDown:
						require.False(t, jobs, "%v", n)
						require.False(t, n.State.Reserved() && !n.Is("DOWN"), "%v", n)
						require.True(t, n.Is("DRAIN") || n.Is("DOWN") || s.Text == reasonNeverRegistered && n.Is("IDLE") && n.Is("POWERED_DOWN"), "%v", n)
					case Activate:
						require.False(t, jobs || n.State.Reserved() || !n.Is("IDLE") || !n.Off(), "%v", n)
					case Resume:
						require.False(t, admin || n.Is("DRAIN") && !n.Is("DOWN") && !strings.HasPrefix(n.Reason, "slurmlet: "), "%v", n)
					case PowerUp:
						require.True(t, n.Is("POWERED_DOWN") && n.Is("IDLE") && !n.Is("DRAIN"), "%v", n)
					}
					k.Tried(s, name, nil, now)
				}
			}
			require.False(t, len(p.Steps) > 0 && p.Next.IsZero())
		}
	})
}

// BenchmarkPlan has 10,000 nodes at rest.
func BenchmarkPlan(b *testing.B) {
	sets, err := Sets{}.Take(map[string][]byte{"a": []byte(`{"nodes":"a-[0-9999]","cpuLimit":"2","memoryLimit":"1088Mi","features":["a"]}`)})
	require.NoError(b, err)
	look := Look{At: noon, Sets: sets, Pod: noPods}
	for i := range 10_000 {
		look.Nodes = append(look.Nodes, node(fmt.Sprintf("a-%d", i), "IDLE+POWERED_DOWN"))
	}
	k := NewKeeper()
	for b.Loop() {
		require.Empty(b, k.Plan(look, noon).Steps)
	}
}
