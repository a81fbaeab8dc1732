package merge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// TestApply: what slurmctld is asked for several nodes, and what each is told.
func TestApply(t *testing.T) {
	for _, c := range []struct {
		name, before string
		group        group
		change       func(*records)
		after        string
		results      map[string]word
		commands     []string
	}{
		{
			"all are deleted", "n1=drained n2=idle n3=down n4=idle",
			group{Delete, "", []string{"n1", "n2", "n3"}, nil},
			nil, "n4=idle",
			map[string]word{"n1": done, "n2": done, "n3": done},
			[]string{"claims", "delete n[1-3]"},
		}, {
			"one is busy", "n1=idle n2=busy n3=idle",
			group{Delete, "", []string{"n1", "n2", "n3"}, nil},
			nil, "n2=busy",
			map[string]word{"n1": done, "n2": busy, "n3": done},
			[]string{"claims", "delete n[1-3]", "delete n2", "jobs"},
		}, {
			"one is gone, one is busy", "n1=idle n3=busy",
			group{Delete, "", []string{"n1", "n2", "n3"}, nil},
			nil, "n3=busy",
			map[string]word{"n1": done, "n2": done, "n3": busy},
			[]string{"claims", "delete n[1-3]", "delete n2", "delete n3", "jobs"},
		}, {
			"a slurmctld that does not name them", "n1=idle n2=busy n3=idle",
			group{Delete, "", []string{"n1", "n2", "n3"}, nil},
			func(r *records) { r.mute = true }, "n2=busy",
			map[string]word{"n1": done, "n2": busy, "n3": done},
			[]string{"claims", "delete n[1-3]", "delete n1", "delete n[2-3]", "delete n2", "delete n3", "jobs"},
		}, {
			"drained with jobs", "n1=idle n2=busy",
			group{Drain, "r", []string{"n1", "n2"}, nil},
			nil, "n1=drained n2=drained",
			map[string]word{"n1": done, "n2": done},
			[]string{"drain:r n[1-2]"},
		}, {
			"an unknown one is not drained", "n1=idle n3=idle n4=idle",
			group{Drain, "r", []string{"n1", "n2", "n3", "n4"}, nil},
			nil, "n1=drained n3=drained n4=drained",
			map[string]word{"n1": done, "n2": refused, "n3": done, "n4": done},
			[]string{"drain:r n[1-4]", "drain:r n[1-2]", "drain:r n1", "drain:r n2", "drain:r n[3-4]"},
		}, {
			"set DOWN", "n1=drained n2=busy",
			group{Fail, "r", []string{"n2", "n1"}, nil},
			nil, "n1=down n2=down",
			map[string]word{"n1": done, "n2": done},
			[]string{"fail:r n[2,1]"},
		}, {
			"elastic ones go down together", "n1=idle n2=busy n3=drained",
			group{PowerDown, "r", []string{"n1", "n2", "n3"}, nil},
			nil, "n1=drained n2=drained n3=drained",
			map[string]word{"n1": done, "n2": done, "n3": done},
			[]string{"power-down:r n[1-3]"},
		}, {
			"an unknown one is not powered off", "n1=idle n3=busy",
			group{PowerOff, "r", []string{"n1", "n2", "n3"}, nil},
			nil, "n1=off n3=off",
			map[string]word{"n1": done, "n2": refused, "n3": done},
			[]string{"power-off:r n[1-3]", "power-off:r n1", "power-off:r n[2-3]", "power-off:r n2", "power-off:r n3"},
		}, {
			"resumed", "n1=drained n2=down",
			group{Resume, "", []string{"n1", "n2"}, nil},
			nil, "n1=idle n2=idle",
			map[string]word{"n1": done, "n2": done},
			[]string{"resume n[1-2]"},
		}, {
			"one cannot be resumed", "n1=drained n2=idle",
			group{Resume, "", []string{"n1", "n2"}, nil},
			nil, "n1=idle n2=idle",
			map[string]word{"n1": unasked, "n2": unasked},
			[]string{"resume n[1-2]"},
		}, {
			"one alone cannot be resumed", "n2=idle",
			group{Resume, "", []string{"n2"}, nil},
			nil, "n2=idle",
			map[string]word{"n2": refused},
			[]string{"resume n2"},
		}, {
			"nobody answers", "n1=idle n2=idle",
			group{Delete, "", []string{"n1", "n2"}, nil},
			func(r *records) { r.silent = true }, "n1=idle n2=idle",
			map[string]word{"n1": silent, "n2": silent},
			[]string{"claims"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRecords(c.before)
			if c.change != nil {
				c.change(r)
			}
			a := applier{slurm: r, late: func() bool { return false }, results: map[string]result{}}
			a.apply(t.Context(), c.group)
			require.Equal(t, c.after, r.String())
			require.Equal(t, c.commands, r.commands)
			require.Equal(t, len(c.commands), a.commands)
			said := map[string]word{}
			for name, result := range a.results {
				said[name] = result.word
			}
			require.Equal(t, c.results, said)
		})
	}
}

// TestLate: nobody waits for what is late.
func TestLate(t *testing.T) {
	r := newRecords("n1=idle n2=busy")
	begun := 0
	a := applier{slurm: r, results: map[string]result{}, late: func() bool { begun++; return begun > 2 }}
	a.apply(t.Context(), group{Delete, "", []string{"n1", "n2"}, nil})
	require.Equal(t, done, a.results["n1"].word)
	require.Equal(t, unasked, a.results["n2"].word)
	require.Len(t, r.commands, 2)
}

// TestRecountIsOne: whoever asks, there is one command.
func TestRecountIsOne(t *testing.T) {
	r, g := newRecords(""), group{verb: Recount}
	for i := range 10_000 {
		g.nodes = append(g.nodes, fmt.Sprintf("node-%x-of-a-pool", i*7919))
	}
	a := applier{slurm: r, late: func() bool { return false }, results: map[string]result{}}
	a.apply(t.Context(), g)
	require.Equal(t, []string{"show " + g.nodes[0]}, r.commands)
	require.Len(t, a.results, 10_000)
	require.Equal(t, done, a.results[g.nodes[7]].word)
	r.silent = true
	a.apply(t.Context(), g)
	require.Equal(t, silent, a.results[g.nodes[7]].word)
}

// TestConfirm: when many records are deleted, one question tells all agents that they are gone.
func TestConfirm(t *testing.T) {
	for _, c := range []struct {
		name           string
		nodes, agents  int
		back           []string // made anew by registrations that were on their way
		said, saidBack word
		commands       []string
	}{
		{"many", 30, 40, nil, gone, "", []string{"claims", "delete n[0-29]", "show n[0-29]"}},
		{"many, two are back", 30, 40, []string{"n3", "n29"}, gone, done, []string{"claims", "delete n[0-29]", "show n[0-29]"}},
		{"few", 15, 15, nil, done, "", []string{"claims", "delete n[0-14]"}},
		{"few of a large cluster", 30, 1000, nil, done, "", []string{"claims", "delete n[0-29]"}},
		{"slurmctld's own", 30, 0, nil, done, "", []string{"claims", "delete n[0-29]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, g := newRecords(""), group{verb: Delete}
			for i := range c.nodes {
				name := fmt.Sprintf("n%d", i)
				r.put(name, "idle")
				g.nodes = append(g.nodes, name)
			}
			r.back = c.back
			a := applier{slurm: r, late: func() bool { return false }, results: map[string]result{}, agents: c.agents}
			a.apply(t.Context(), g)
			require.Equal(t, c.commands, r.commands)
			for _, name := range g.nodes {
				want := c.said
				if slices.Contains(c.back, name) {
					want = c.saidBack
				}
				require.Equal(t, want, a.results[name].word, name)
			}
		})
	}
}

// TestManyNames: no argument is too long for the kernel, and no name is lost.
func TestManyNames(t *testing.T) {
	r, g := newRecords(""), group{verb: Delete}
	for i := range 10_000 {
		name := fmt.Sprintf("node-%x-of-a-pool", i*7919)
		r.put(name, "idle")
		g.nodes = append(g.nodes, name)
	}
	a := applier{slurm: r, late: func() bool { return false }, results: map[string]result{}}
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
	r, g := newRecords("n0=idle"), group{Delete, "", []string{"n0"}, nil}
	for i := range 400 {
		name := fmt.Sprintf("x%da", i)
		r.put(name, "busy")
		g.nodes = append(g.nodes, name)
	}
	a := applier{slurm: r, late: func() bool { return false }, results: map[string]result{}}
	a.apply(t.Context(), g)
	require.Equal(t, done, a.results["n0"].word)
	for _, name := range g.nodes[1:] {
		require.Equal(t, busy, a.results[name].word)
	}
}

func TestGroupsOf(t *testing.T) {
	require.Equal(t, []*group{
		{Drain, "a", []string{"n1", "n3"}, nil}, {Drain, "b", []string{"n2", "n1"}, nil},
	}, groupsOf([]Change{{Drain, "n1", "a", ""}, {Drain, "n2", "b", ""}, {Drain, "n3", "a", ""}, {Drain, "n1", "a", ""}, {Drain, "n1", "b", ""}}))
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
		r, g := newRecords(""), group{verb: []Verb{Delete, Drain, Fail, Resume}[verb%4], reason: "r"}
		r.mute = mute
		for i, letter := range letters {
			name := fmt.Sprintf("n%d", i)
			g.nodes = append(g.nodes, name)
			if state := map[rune]string{'i': "idle", 'b': "busy", 'd': "drained"}[letter]; state != "" {
				r.put(name, state)
			}
		}
		a := applier{slurm: r, late: func() bool { return false }, results: map[string]result{}}
		a.apply(t.Context(), g)
		require.Len(t, a.results, len(g.nodes))
		for name, said := range a.results {
			state, is := r.states[name]
			wanted := map[Verb]bool{Delete: !is, Drain: state == "drained", Fail: state == "down", Resume: state == "idle"}[g.verb]
			require.True(t, wanted || said.word != done, "%s is %q and told %s; %s", name, state, said, strings.Join(r.commands, "; "))
			require.True(t, !wanted || said.word == done || g.verb == Resume, "%s is %q and told %s", name, state, said)
		}
	})
}

// TestMake: slurmctld's own agent makes its changes as it makes those of others.
func TestMake(t *testing.T) {
	r := newRecords("n1=idle n2=busy n3=busy n4=idle")
	said := Make(t.Context(), r, []Change{
		{Drain, "n2", "lost", ""}, {Drain, "n3", "lost", ""}, {Fail, "n2", "lost", ""}, {Fail, "n3", "lost", ""}, {Delete, "n1", "", ""}, {Delete, "n4", "", ""}, {Delete, "n5", "", ""}, {Delete, "n[1-9]", "", ""},
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
	require.ErrorIs(t, Make(t.Context(), r, []Change{{Delete, "n1", "", ""}})[Change{Delete, "n1", "", ""}], slurm.ErrBusy)
	r.fallSilent()
	require.ErrorIs(t, Make(t.Context(), r, []Change{{Fail, "n1", "x", ""}})[Change{Fail, "n1", "x", ""}], slurm.ErrUnreachable)
	over, end := context.WithCancel(t.Context())
	end()
	require.Error(t, Make(over, newRecords("n1=idle"), []Change{{Delete, "n1", "", ""}})[Change{Delete, "n1", "", ""}])
	require.Empty(t, Make(t.Context(), r, nil))
}
