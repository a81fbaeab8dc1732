package merge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/ask"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// TestApply: what slurmctld is asked for several nodes, and what each is told.
func TestApply(t *testing.T) {
	for _, c := range []struct {
		name, before string
		group        group
		change       func(*records)
		after        string
		results      map[string]ask.Word
		commands     []string
	}{
		{
			"all are deleted", "n1=drained n2=idle n3=down n4=idle",
			group{ask.Delete, "", []string{"n1", "n2", "n3"}, nil},
			nil, "n4=idle",
			map[string]ask.Word{"n1": ask.Done, "n2": ask.Done, "n3": ask.Done},
			[]string{"claims", "delete n[1-3]"},
		}, {
			"one is busy", "n1=idle n2=busy n3=idle",
			group{ask.Delete, "", []string{"n1", "n2", "n3"}, nil},
			nil, "n2=busy",
			map[string]ask.Word{"n1": ask.Done, "n2": ask.Busy, "n3": ask.Done},
			[]string{"claims", "delete n[1-3]", "delete n2", "jobs"},
		}, {
			"one is gone, one is busy", "n1=idle n3=busy",
			group{ask.Delete, "", []string{"n1", "n2", "n3"}, nil},
			nil, "n3=busy",
			map[string]ask.Word{"n1": ask.Done, "n2": ask.Done, "n3": ask.Busy},
			[]string{"claims", "delete n[1-3]", "delete n2", "delete n3", "jobs"},
		}, {
			"many are gone, one is busy", "n1=idle n9=busy",
			group{ask.Delete, "", strings.Fields("n1 n2 n3 n4 n5 n6 n7 n8 n9"), nil},
			nil, "n9=busy",
			map[string]ask.Word{"n1": ask.Done, "n2": ask.Done, "n3": ask.Done, "n4": ask.Done, "n5": ask.Done, "n6": ask.Done, "n7": ask.Done, "n8": ask.Done, "n9": ask.Busy},
			[]string{"claims", "delete n[1-9]", "show n[1-9]", "delete n9", "jobs"},
		}, {
			"a slurmctld that does not name them", "n1=idle n2=busy n3=idle",
			group{ask.Delete, "", []string{"n1", "n2", "n3"}, nil},
			func(r *records) { r.mute = true }, "n2=busy",
			map[string]ask.Word{"n1": ask.Done, "n2": ask.Busy, "n3": ask.Done},
			[]string{"claims", "delete n[1-3]", "delete n1", "delete n[2-3]", "delete n2", "delete n3", "jobs"},
		}, {
			"drained with jobs", "n1=idle n2=busy",
			group{ask.Drain, "r", []string{"n1", "n2"}, nil},
			nil, "n1=drained n2=drained",
			map[string]ask.Word{"n1": ask.Done, "n2": ask.Done},
			[]string{"drain:r n[1-2]"},
		}, {
			"an unknown one is not drained", "n1=idle n3=idle n4=idle",
			group{ask.Drain, "r", []string{"n1", "n2", "n3", "n4"}, nil},
			nil, "n1=drained n3=drained n4=drained",
			map[string]ask.Word{"n1": ask.Done, "n2": ask.Refused, "n3": ask.Done, "n4": ask.Done},
			[]string{"drain:r n[1-4]", "drain:r n[1-2]", "drain:r n1", "drain:r n2", "drain:r n[3-4]"},
		}, {
			"set DOWN", "n1=drained n2=busy",
			group{ask.Fail, "r", []string{"n2", "n1"}, nil},
			nil, "n1=down n2=down",
			map[string]ask.Word{"n1": ask.Done, "n2": ask.Done},
			[]string{"fail:r n[2,1]"},
		}, {
			"elastic ones go down together", "n1=idle n2=busy n3=drained",
			group{ask.PowerDown, "r", []string{"n1", "n2", "n3"}, nil},
			nil, "n1=drained n2=drained n3=drained",
			map[string]ask.Word{"n1": ask.Done, "n2": ask.Done, "n3": ask.Done},
			[]string{"power-down:r n[1-3]"},
		}, {
			"an unknown one is not powered off", "n1=idle n3=busy",
			group{ask.PowerOff, "r", []string{"n1", "n2", "n3"}, nil},
			nil, "n1=off n3=off",
			map[string]ask.Word{"n1": ask.Done, "n2": ask.Refused, "n3": ask.Done},
			[]string{"power-off:r n[1-3]", "power-off:r n1", "power-off:r n[2-3]", "power-off:r n2", "power-off:r n3"},
		}, {
			"resumed", "n1=drained n2=down",
			group{ask.Resume, "", []string{"n1", "n2"}, nil},
			nil, "n1=idle n2=idle",
			map[string]ask.Word{"n1": ask.Done, "n2": ask.Done},
			[]string{"resume n[1-2]"},
		}, {
			"one cannot be resumed", "n1=drained n2=idle",
			group{ask.Resume, "", []string{"n1", "n2"}, nil},
			nil, "n1=idle n2=idle",
			map[string]ask.Word{"n1": ask.Unasked, "n2": ask.Unasked},
			[]string{"resume n[1-2]"},
		}, {
			"one alone cannot be resumed", "n2=idle",
			group{ask.Resume, "", []string{"n2"}, nil},
			nil, "n2=idle",
			map[string]ask.Word{"n2": ask.Refused},
			[]string{"resume n2"},
		}, {
			"nobody answers", "n1=idle n2=idle",
			group{ask.Delete, "", []string{"n1", "n2"}, nil},
			func(r *records) { r.silent = true }, "n1=idle n2=idle",
			map[string]ask.Word{"n1": ask.Silent, "n2": ask.Silent},
			[]string{"claims"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRecords(c.before)
			if c.change != nil {
				c.change(r)
			}
			a := applier{slurm: r, late: func() bool { return false }, results: map[string]ask.Result{}}
			a.apply(t.Context(), c.group)
			require.Equal(t, c.after, r.String())
			require.Equal(t, c.commands, r.commands)
			require.Equal(t, len(c.commands), a.commands)
			said := map[string]ask.Word{}
			for name, result := range a.results {
				said[name] = result.Word
			}
			require.Equal(t, c.results, said)
		})
	}
}

// TestLate: nobody waits for what is late.
func TestLate(t *testing.T) {
	r := newRecords("n1=idle n2=busy")
	begun := 0
	a := applier{slurm: r, results: map[string]ask.Result{}, late: func() bool { begun++; return begun > 2 }}
	a.apply(t.Context(), group{ask.Delete, "", []string{"n1", "n2"}, nil})
	require.Equal(t, ask.Done, a.results["n1"].Word)
	require.Equal(t, ask.Unasked, a.results["n2"].Word)
	require.Len(t, r.commands, 2)
}

// TestRecountIsOne: whoever asks, there is one command.
func TestRecountIsOne(t *testing.T) {
	r, g := newRecords(""), group{verb: ask.Recount}
	for i := range 10_000 {
		g.nodes = append(g.nodes, fmt.Sprintf("node-%x-of-a-pool", i*7919))
	}
	a := applier{slurm: r, late: func() bool { return false }, results: map[string]ask.Result{}}
	a.apply(t.Context(), g)
	require.Equal(t, []string{"show " + g.nodes[0]}, r.commands)
	require.Len(t, a.results, 10_000)
	require.Equal(t, ask.Done, a.results[g.nodes[7]].Word)
	r.silent = true
	a.apply(t.Context(), g)
	require.Equal(t, ask.Silent, a.results[g.nodes[7]].Word)
}

// TestConfirm: when many records are deleted, one question tells all agents that they are gone.
func TestConfirm(t *testing.T) {
	for _, c := range []struct {
		name           string
		nodes, agents  int
		back           []string // made anew by registrations that were on their way
		said, saidBack ask.Word
		commands       []string
	}{
		{"many", 30, 40, nil, ask.Gone, "", []string{"claims", "delete n[0-29]", "show n[0-29]"}},
		{"many, two are back", 30, 40, []string{"n3", "n29"}, ask.Gone, ask.Done, []string{"claims", "delete n[0-29]", "show n[0-29]"}},
		{"few", 15, 15, nil, ask.Done, "", []string{"claims", "delete n[0-14]"}},
		{"few of a large cluster", 30, 1000, nil, ask.Done, "", []string{"claims", "delete n[0-29]"}},
		{"slurmctld's own", 30, 0, nil, ask.Done, "", []string{"claims", "delete n[0-29]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, g := newRecords(""), group{verb: ask.Delete}
			for i := range c.nodes {
				name := fmt.Sprintf("n%d", i)
				r.put(name, "idle")
				g.nodes = append(g.nodes, name)
			}
			r.back = c.back
			a := applier{slurm: r, late: func() bool { return false }, results: map[string]ask.Result{}, agents: c.agents}
			a.apply(t.Context(), g)
			require.Equal(t, c.commands, r.commands)
			for _, name := range g.nodes {
				want := c.said
				if slices.Contains(c.back, name) {
					want = c.saidBack
				}
				require.Equal(t, want, a.results[name].Word, name)
			}
		})
	}
}

// TestManyDeleteAgain: agents that delete once more what is gone are told that it is, and one whose record a registration
// has made anew is not.
func TestManyDeleteAgain(t *testing.T) {
	r := newRecords("n0=idle n1=idle")
	r.back = []string{"n1"}
	g := group{verb: ask.Delete}
	for i := range 30 {
		g.nodes = append(g.nodes, fmt.Sprintf("n%d", i))
	}
	a := applier{slurm: r, late: func() bool { return false }, results: map[string]ask.Result{}, agents: 40}
	a.apply(t.Context(), g)
	require.Equal(t, []string{"claims", "delete n[0-29]", "show n[0-29]"}, r.commands)
	for _, name := range g.nodes {
		require.Equal(t, map[bool]ask.Word{true: ask.Done, false: ask.Gone}[name == "n1"], a.results[name].Word, name)
	}
}

// TestManyNames: no argument is too long for the kernel, and no name is lost.
func TestManyNames(t *testing.T) {
	r, g := newRecords(""), group{verb: ask.Delete}
	for i := range 10_000 {
		name := fmt.Sprintf("node-%x-of-a-pool", i*7919)
		r.put(name, "idle")
		g.nodes = append(g.nodes, name)
	}
	a := applier{slurm: r, late: func() bool { return false }, results: map[string]ask.Result{}}
	a.apply(t.Context(), g)
	require.Empty(t, r.states)
	require.Len(t, a.results, 10_000)
	require.Less(t, a.commands, 5)
	for _, command := range r.commands {
		require.LessOrEqual(t, len(command), mostArgument+len("delete "))
	}
}

// TestManyAreKept: a list that a log may have cut is not taken for whole.
func TestManyAreKept(t *testing.T) {
	r, g := newRecords("n0=idle"), group{ask.Delete, "", []string{"n0"}, nil}
	for i := range 400 {
		name := fmt.Sprintf("x%da", i)
		r.put(name, "busy")
		g.nodes = append(g.nodes, name)
	}
	a := applier{slurm: r, late: func() bool { return false }, results: map[string]ask.Result{}}
	a.apply(t.Context(), g)
	require.Equal(t, ask.Done, a.results["n0"].Word)
	for _, name := range g.nodes[1:] {
		require.Equal(t, ask.Busy, a.results[name].Word)
	}
}

func TestGroupsOf(t *testing.T) {
	require.Equal(t, []*group{
		{ask.Drain, "a", []string{"n1", "n3"}, nil}, {ask.Drain, "b", []string{"n2", "n1"}, nil},
	}, groupsOf([]ask.Change{{Verb: ask.Drain, Node: "n1", Reason: "a"}, {Verb: ask.Drain, Node: "n2", Reason: "b"}, {Verb: ask.Drain, Node: "n3", Reason: "a"}, {Verb: ask.Drain, Node: "n1", Reason: "a"}, {Verb: ask.Drain, Node: "n1", Reason: "b"}}))
	require.Empty(t, groupsOf(nil))
}

// FuzzApply: whatever slurmctld has, each node is told what is true of it.
func FuzzApply(f *testing.F) {
	f.Add("ibdg", uint8(0), false)
	f.Add("iiiiibiiiii", uint8(0), true)
	f.Add("ddidd", uint8(3), false)
	f.Add("iggi", uint8(1), false)
	f.Fuzz(func(t *testing.T, letters string, verb uint8, mute bool) {
		letters = letters[:min(len(letters), 64)]
		r, g := newRecords(""), group{verb: []ask.Verb{ask.Delete, ask.Drain, ask.Fail, ask.Resume}[verb%4], reason: "r"}
		r.mute = mute
		for i, letter := range letters {
			name := fmt.Sprintf("n%d", i)
			g.nodes = append(g.nodes, name)
			if state := map[rune]string{'i': "idle", 'b': "busy", 'd': "drained"}[letter]; state != "" {
				r.put(name, state)
			}
		}
		a := applier{slurm: r, late: func() bool { return false }, results: map[string]ask.Result{}}
		a.apply(t.Context(), g)
		require.Len(t, a.results, len(g.nodes))
		for name, said := range a.results {
			state, is := r.states[name]
			wanted := map[ask.Verb]bool{ask.Delete: !is, ask.Drain: state == "drained", ask.Fail: state == "down", ask.Resume: state == "idle"}[g.verb]
			require.True(t, wanted || said.Word != ask.Done, "%s is %q and told %s; %s", name, state, said, strings.Join(r.commands, "; "))
			require.True(t, !wanted || said.Word == ask.Done || g.verb == ask.Resume, "%s is %q and told %s", name, state, said)
		}
	})
}

// TestMake: slurmctld's own agent makes its changes as it makes those of others.
func TestMake(t *testing.T) {
	r := newRecords("n1=idle n2=busy n3=busy n4=idle")
	said := Make(t.Context(), r, []ask.Change{
		{Verb: ask.Drain, Node: "n2", Reason: "lost"}, {Verb: ask.Drain, Node: "n3", Reason: "lost"}, {Verb: ask.Fail, Node: "n2", Reason: "lost"}, {Verb: ask.Fail, Node: "n3", Reason: "lost"}, {Verb: ask.Delete, Node: "n1"}, {Verb: ask.Delete, Node: "n4"}, {Verb: ask.Delete, Node: "n5"}, {Verb: ask.Delete, Node: "n[1-9]"},
	})
	require.Equal(t, []string{"drain:lost n[2-3]", "fail:lost n[2-3]", "claims", "delete n[1,4-5]"}, r.ran()[:4])
	require.Equal(t, "n2=down n3=down", r.String())
	require.Len(t, said, 8)
	for c, err := range said {
		if c.Node == "n[1-9]" {
			require.ErrorContains(t, err, "not the name of a node")
		} else {
			require.NoError(t, err, c)
		}
	}

	r = newRecords("n1=busy")
	require.ErrorIs(t, Make(t.Context(), r, []ask.Change{{Verb: ask.Delete, Node: "n1"}})[ask.Change{Verb: ask.Delete, Node: "n1"}], slurm.ErrBusy)
	r.fallSilent()
	require.ErrorIs(t, Make(t.Context(), r, []ask.Change{{Verb: ask.Fail, Node: "n1", Reason: "x"}})[ask.Change{Verb: ask.Fail, Node: "n1", Reason: "x"}], slurm.ErrUnreachable)
	over, end := context.WithCancel(t.Context())
	end()
	require.Error(t, Make(over, newRecords("n1=idle"), []ask.Change{{Verb: ask.Delete, Node: "n1"}})[ask.Change{Verb: ask.Delete, Node: "n1"}])
	require.Empty(t, Make(t.Context(), r, nil))
}
