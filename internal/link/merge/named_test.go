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
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// TestNamed: what becomes of records that jobs and reservations name.
func TestNamed(t *testing.T) {
	names := func(job, nodes string) slurm.Claim { return slurm.Claim{Job: job, ID: job, Nodes: nodes} }
	for _, c := range []struct {
		name, before string
		verb         ask.Verb
		nodes        string
		claims       []slurm.Claim
		change       func(*records)
		returns      string // the nodes whose pods StatefulSet n makes again
		after        string
		results      map[string]ask.Word
		commands     []string
		right        []string
	}{
		{
			name: "a job names one of two", before: "n1=drained n2=drained", verb: ask.Delete, nodes: "n1 n2", claims: []slurm.Claim{names("7", "n1,x")},
			after: "n1=down", results: map[string]ask.Word{"n1": ask.Kept, "n2": ask.Done},
			commands: []string{
				"claims", "drain:slurmlet: the pod is gone, and job 7 names the node n1", "jobs",
				"fail:slurmlet: the pod is gone, and job 7 names the node n1", "delete n2", "claims",
			},
		},
		{
			name: "its workload makes the pod again", before: "n1=drained n2=drained n3=drained", verb: ask.Delete, nodes: "n1 n2 n3", claims: []slurm.Claim{names("7", "n2")},
			returns: "n1 n2", after: "n1=down n2=down", results: map[string]ask.Word{"n1": ask.Kept, "n2": ask.Kept, "n3": ask.Done},
			commands: []string{
				"claims", "drain:slurmlet: the pod is gone, and StatefulSet n makes it again n1", "drain:slurmlet: the pod is gone, and job 7 names the node n2", "jobs",
				"fail:slurmlet: the pod is gone, and StatefulSet n makes it again n1", "fail:slurmlet: the pod is gone, and job 7 names the node n2", "delete n3", "claims",
			},
		},
		{
			name: "its workload makes the pod again, and a job holds it", before: "n1=busy", verb: ask.Delete, nodes: "n1", claims: []slurm.Claim{{Job: "7", Holds: "n1"}},
			returns: "n1", after: "n1=busy", results: map[string]ask.Word{"n1": ask.Busy},
		},
		{
			name: "another size of a pod that its workload would make again", before: "n1=drained", verb: ask.Renew, nodes: "n1",
			returns: "n1", after: "", results: map[string]ask.Word{"n1": ask.Done}, commands: []string{"claims", "delete n1", "claims"},
		},
		{
			name: "a job excludes it", before: "n1=drained", verb: ask.Delete, nodes: "n1", claims: []slurm.Claim{{Job: "7", Excluded: "n[1-9]"}},
			after: "n1=down", results: map[string]ask.Word{"n1": ask.Kept},
		},
		{
			name: "a reservation has it", before: "n1=idle", verb: ask.Delete, nodes: "n1", claims: []slurm.Claim{{Reservation: "r", Nodes: "n[1-2]"}},
			after: "n1=down", results: map[string]ask.Word{"n1": ask.Kept},
		},
		{
			name: "a reservation of all nodes names none", before: "n1=idle", verb: ask.Delete, nodes: "n1", claims: []slurm.Claim{{Reservation: "r", Nodes: "n1", All: true}},
			after: "", results: map[string]ask.Word{"n1": ask.Done},
		},
		{
			name: "a reservation of all nodes has begun", before: "n1=reserved n2=busy", verb: ask.Delete, nodes: "n1 n2",
			claims: []slurm.Claim{{Reservation: "r", Nodes: "n[1-2]", All: true}},
			after:  "n1=down n2=busy", results: map[string]ask.Word{"n1": ask.Kept, "n2": ask.Busy},
		},
		{
			name: "a job holds it", before: "n1=busy", verb: ask.Delete, nodes: "n1", claims: []slurm.Claim{names("7", "n1")},
			after: "n1=busy", results: map[string]ask.Word{"n1": ask.Busy},
		},
		{
			name: "a job names what has no record", before: "n2=idle", verb: ask.Delete, nodes: "n1", claims: []slurm.Claim{names("7", "n1")},
			after: "n1=down n2=idle", results: map[string]ask.Word{"n1": ask.Kept}, right: []string{"7"},
		},
		{
			name: "many reasons are one", before: "n1=idle n2=idle n3=idle n4=idle n5=idle", verb: ask.Delete, nodes: "n1 n2 n3 n4 n5",
			claims: []slurm.Claim{names("1", "n1"), names("2", "n2"), names("3", "n3"), names("4", "n4"), names("5", "n5")},
			after:  "n1=down n2=down n3=down n4=down n5=down", results: map[string]ask.Word{"n1": ask.Kept, "n2": ask.Kept, "n3": ask.Kept, "n4": ask.Kept, "n5": ask.Kept},
			commands: []string{
				"claims", "drain:slurmlet: the pod is gone, and jobs or reservations name the node n[1-5]", "jobs",
				"fail:slurmlet: the pod is gone, and jobs or reservations name the node n[1-5]",
			},
		},
		{
			name: "nobody tells who is named", before: "n1=idle", verb: ask.Delete, nodes: "n1", change: func(r *records) { r.unclear = true },
			after: "n1=idle", results: map[string]ask.Word{"n1": ask.Refused}, commands: []string{"claims"},
		},
		{
			name: "a job comes to name it", before: "n1=idle n2=idle", verb: ask.Delete, nodes: "n1", change: func(r *records) { r.comes = []slurm.Claim{names("7", "n1,n2")} },
			after: "n1=down n2=idle", results: map[string]ask.Word{"n1": ask.Kept}, right: []string{"7"},
			commands: []string{
				"claims", "delete n1", "claims", "show n1", "renew:CPUs=2 RealMemory=5:slurmlet: the pod is gone, and job 7 names the node n1",
				"claims", "show n1,n2", "rename 7 n1,n2",
			},
		},
		{
			name: "a job comes to name it, and a registration", before: "n1=idle n2=idle", verb: ask.Delete, nodes: "n1",
			change: func(r *records) { r.comes, r.back = []slurm.Claim{names("7", "n1")}, []string{"n1"} },
			after:  "n1=idle n2=idle", results: map[string]ask.Word{"n1": ask.Done}, right: []string{"7"},
		},
		{
			name: "another size, and nobody names it", before: "n1=drained", verb: ask.Renew, nodes: "n1",
			after: "", results: map[string]ask.Word{"n1": ask.Done}, commands: []string{"claims", "delete n1", "claims"},
		},
		{
			name: "another size", before: "n1=drained n2=drained n3=idle", verb: ask.Renew, nodes: "n1 n2",
			claims: []slurm.Claim{names("7", "n1,n3"), names("8", "n1,y"), {Job: "9", ID: "9", Nodes: "n1", Holds: "n3"}, {Reservation: "r", Nodes: "n1"}},
			after:  "n1=down n3=idle", results: map[string]ask.Word{"n1": ask.Kept, "n2": ask.Done}, right: []string{"7", "r"},
			commands: []string{
				"claims", "delete n1", "renew:CPUs=2 RealMemory=5:" + reasons.Renewed + " n1", "rename r n1", "claims",
				"show n1,n3", "rename 7 n1,n3", "show n1,y", "delete n2", "claims",
			},
		},
		{
			name: "another size, and jobs hold it", before: "n1=busy", verb: ask.Renew, nodes: "n1", claims: []slurm.Claim{names("7", "n1")},
			after: "n1=busy", results: map[string]ask.Word{"n1": ask.Busy},
		},
		{
			name: "another size, and a registration on its way", before: "n1=drained", verb: ask.Renew, nodes: "n1", claims: []slurm.Claim{names("7", "n1")},
			change: func(r *records) { r.back = []string{"n1"} },
			after:  "n1=down", results: map[string]ask.Word{"n1": ask.Kept}, right: []string{"7"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRecords(c.before)
			r.claims = c.claims
			if c.change != nil {
				c.change(r)
			}
			g := group{verb: c.verb, nodes: strings.Fields(c.nodes), conf: map[string]string{}}
			for _, name := range g.nodes {
				g.conf[name] = "CPUs=2 RealMemory=5"
			}
			a := applier{slurm: r, late: func() bool { return false }, results: map[string]ask.Result{}}
			a.returns = func(node string) string {
				if slices.Contains(strings.Fields(c.returns), node) {
					return "StatefulSet n"
				}
				return ""
			}
			a.apply(t.Context(), g)
			a.lookAgain(t.Context(), g)
			require.Equal(t, c.after, r.String())
			said := map[string]ask.Word{}
			for name, result := range a.results {
				said[name] = result.Word
			}
			require.Equal(t, c.results, said)
			require.Empty(t, r.killed)
			if c.commands != nil {
				require.Equal(t, c.commands, r.commands)
			}
			var right []string
			for who := range r.right {
				right = append(right, who)
			}
			slices.Sort(right)
			require.Equal(t, c.right, right)
		})
	}
}

// FuzzNamed: no record goes that somebody names, no job is ended, and each node is told what is true of it.
func FuzzNamed(f *testing.F) {
	f.Add("Ibdg", false, uint8(0))
	f.Add("iIDBdg", true, uint8(1))
	f.Add("IIIIIIII", false, uint8(2))
	f.Fuzz(func(t *testing.T, letters string, renew bool, comes uint8) {
		letters = letters[:min(len(letters), 64)]
		r, g := newRecords(""), group{verb: ask.Delete, conf: map[string]string{}}
		if renew {
			g.verb = ask.Renew
		}
		named := map[string]bool{}
		for i, letter := range letters {
			name := fmt.Sprintf("n%d", i)
			g.nodes, g.conf[name] = append(g.nodes, name), "CPUs=1 RealMemory=1"
			lower := []rune(strings.ToLower(string(letter)))[0]
			if state := map[rune]string{'i': "idle", 'b': "busy", 'd': "drained"}[lower]; state != "" {
				r.put(name, state)
				if named[name] = lower != letter; named[name] {
					r.claims = append(r.claims, slurm.Claim{Job: fmt.Sprint(i), Nodes: name})
				}
				if comes > 0 && i%int(comes) == 0 && !named[name] {
					r.comes = append(r.comes, slurm.Claim{Job: fmt.Sprint(i), Nodes: name})
					named[name] = true
				}
			}
		}
		a := applier{slurm: r, late: func() bool { return false }, results: map[string]ask.Result{}}
		a.apply(t.Context(), g)
		a.lookAgain(t.Context(), g)
		require.Empty(t, r.killed)
		require.Len(t, a.results, len(g.nodes))
		for _, name := range g.nodes {
			_, is := r.states[name]
			said := a.results[name].Word
			require.True(t, is || !named[name] || slices.ContainsFunc(r.comes, func(c slurm.Claim) bool { return c.Nodes == name }),
				"the record of %s is gone, and named: %v", name, r.commands)
			require.Equal(t, !is, said == ask.Done, "%s is told %s", name, said)
			require.True(t, said != ask.Kept || r.states[name] == "down", name)
		}
	})
}

// TestNamedDirectly: an agent that asks slurmctld itself keeps named records, too.
func TestNamedDirectly(t *testing.T) {
	r := newRecords("n1=drained n2=drained")
	r.claims = []slurm.Claim{{Job: "7", Nodes: "n1"}}
	c := ask.Change{Verb: ask.Delete, Node: "n1", Conf: "CPUs=2"}
	require.ErrorIs(t, Make(t.Context(), r, []ask.Change{c})[c], slurm.ErrKept)
	require.Equal(t, "n1=down n2=drained", r.String())
	over, end := context.WithCancel(t.Context())
	end()
	require.Error(t, Make(over, r, []ask.Change{c})[c])
}
