package planner

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

func nodesOf(t *testing.T, text string) hostlist.Set {
	t.Helper()
	if text == "" {
		return hostlist.Set{}
	}
	list, err := hostlist.Parse(text)
	require.NoError(t, err)
	return list.Set()
}

func TestRegistered(t *testing.T) {
	for _, c := range []struct {
		node slurm.Node
		want bool
	}{
		{slurm.Node{State: []string{"IDLE"}, BootAt: 1}, true},
		{slurm.Node{State: []string{"IDLE"}}, false},
		{slurm.Node{State: []string{"ALLOCATED", "CLOUD", "DRAIN"}}, false},
		{slurm.Node{State: []string{"UNKNOWN"}}, false},
		{slurm.Node{State: []string{"DOWN"}}, true},
		{slurm.Node{State: []string{"FUTURE"}}, true},
		{slurm.Node{State: []string{"IDLE", "CLOUD", "POWERED_DOWN"}}, true},
		{slurm.Node{State: []string{"IDLE", "CLOUD", "POWERING_DOWN"}}, false},
		{slurm.Node{State: []string{"ALLOCATED", "CLOUD", "POWERING_UP"}}, true},
		{slurm.Node{State: []string{"ALLOCATED", "NOT_RESPONDING"}}, true},
	} {
		assert.Equal(t, c.want, registered([]slurm.Node{{State: []string{"IDLE"}, BootAt: 1}, c.node}), "%+v", c.node)
	}
}

// TestWaits plays what happens at seconds of one time.
func TestWaits(t *testing.T) {
	zero := time.Unix(1_000_000, 0)
	at := func(seconds float64) time.Time { return zero.Add(time.Duration(seconds * float64(time.Second))) }
	for _, c := range []struct {
		name string
		play func(t *testing.T, w *Waits, add func(seconds float64, job, nodes string) (int, Outcome))
	}{
		{"nobody waits, nobody asks", func(t *testing.T, w *Waits, _ func(float64, string, string) (int, Outcome)) {
			require.Zero(t, w.Due())
		}},
		{"one look serves all, and each job waits for all of its nodes", func(t *testing.T, w *Waits, add func(float64, string, string) (int, Outcome)) {
			a, _ := add(1, "7", "n[1-2]")
			b, _ := add(1, "8", "n2")
			add(1, "9", "n3")
			require.False(t, w.Due().After(at(1)))
			require.Equal(t, "n[1-3]", w.NodesToAsk().String())
			require.Equal(t, map[int]Outcome{b: NodesUp}, w.Looked(nodesOf(t, "n2"), at(1), at(1.1)))
			require.Equal(t, []string{"7", "9"}, w.JobsToAsk())
			require.Equal(t, "n[1,3]", w.NodesToAsk().String())
			require.Empty(t, w.Answered(w.JobsToAsk(), map[string]bool{"7": true, "9": true}, at(1.1)))
			require.Equal(t, map[int]Outcome{a: NodesUp}, w.Looked(nodesOf(t, "n1"), at(2), at(2.1)))
			require.Equal(t, 1, w.Len())
		}},
		{"nodes that the last look has found up after the job had them hold nobody", func(t *testing.T, w *Waits, add func(float64, string, string) (int, Outcome)) {
			add(1, "7", "n[1-9]")
			w.Looked(nodesOf(t, "n[1-8]"), at(5), at(5.1))
			_, outcome := add(4, "8", "n[1-4]")
			require.Equal(t, NodesUp, outcome)
			_, outcome = add(4, "9", "n9")
			require.Empty(t, outcome)
		}},
		{"a look that began before the job had its nodes tells nothing", func(t *testing.T, w *Waits, add func(float64, string, string) (int, Outcome)) {
			number, outcome := add(3, "7", "n1")
			require.Empty(t, outcome)
			require.Empty(t, w.Looked(nodesOf(t, "n1"), at(2), at(4)))
			require.Empty(t, w.Answered(w.JobsToAsk(), nil, at(2)), "nor does such a question for jobs")
			require.Equal(t, map[int]Outcome{number: NodesUp}, w.Looked(nodesOf(t, "n1"), at(4), at(4.1)))
		}},
		{"a job that is not CONFIGURING any more", func(t *testing.T, w *Waits, add func(float64, string, string) (int, Outcome)) {
			a, _ := add(1, "7", "n1")
			add(1, "8", "n1")
			w.Looked(hostlist.Set{}, at(1), at(1.1))
			require.Equal(t, map[int]Outcome{a: NotConfiguring}, w.Answered(w.JobsToAsk(), map[string]bool{"8": true}, at(1.1)))
			require.Equal(t, 1, w.Len())
		}},
		{"a wait that comes while slurmctld tells of others", func(t *testing.T, w *Waits, add func(float64, string, string) (int, Outcome)) {
			add(1, "7", "n1")
			w.Looked(hostlist.Set{}, at(1), at(1.1))
			asked := w.JobsToAsk()
			number, _ := add(1, "8", "n1") // it had its nodes long ago
			require.Empty(t, w.Answered(asked, map[string]bool{"7": true}, at(1.1)))
			require.Equal(t, map[int]Outcome{number: NotConfiguring}, w.Answered(w.JobsToAsk(), map[string]bool{"7": true}, at(1.2)))
		}},
		{"a slurmctld that has started launches nothing before all nodes have registered, and a second later", func(t *testing.T, w *Waits, add func(float64, string, string) (int, Outcome)) {
			unheard := []slurm.Node{{Name: "n1", State: []string{"IDLE"}, BootAt: 1}, {Name: "n2", State: []string{"IDLE"}}}
			heard := []slurm.Node{unheard[0], {Name: "n2", State: []string{"IDLE"}, BootAt: 1}}
			w.Looked(nodesOf(t, "n1"), at(0), at(0.1))
			w.Begin(at(1))
			a, outcome := add(1.5, "7", "n1")
			require.Empty(t, outcome, "what was known before is forgotten")
			b, outcome := add(1.5, "8", "") // it has no node of a set
			require.Empty(t, outcome)
			require.False(t, w.Settled())
			require.Empty(t, w.Survey(heard, at(0.9), at(1.6), at(1.7)), "of the former slurmctld")
			require.Empty(t, w.Survey(unheard, at(2), at(2), at(2.1)))
			require.Equal(t, at(3.1), w.Due(), "at most a tenth of the time passes in looks")
			require.Empty(t, w.Survey(heard, at(5), at(5), at(5.1)))
			require.False(t, w.Settled())
			require.Equal(t, map[int]Outcome{b: NodesUp}, w.Survey(heard, at(6.2), at(6.2), at(6.3)))
			require.True(t, w.Settled())
			require.Equal(t, map[int]Outcome{a: NodesUp}, w.Looked(nodesOf(t, "n1"), at(6.4), at(6.5)))
		}},
		{"a node that does not register, and does not stop answering, holds jobs for 30 s", func(t *testing.T, w *Waits, add func(float64, string, string) (int, Outcome)) {
			w.Begin(at(1))
			number, _ := add(1.5, "7", "")
			unheard := []slurm.Node{{Name: "n2", State: []string{"IDLE"}}}
			require.Empty(t, w.Survey(unheard, at(30), at(30), at(30.9)))
			require.Equal(t, map[int]Outcome{number: NodesUp}, w.Survey(unheard, at(31), at(31), at(31.1)))
		}},
		{"a job that comes when slurmctld has settled, which nobody has seen", func(t *testing.T, w *Waits, add func(float64, string, string) (int, Outcome)) {
			w.Begin(at(1))
			_, outcome := add(31, "7", "")
			require.Equal(t, NodesUp, outcome)
			w.Begin(at(40))
			first, _ := add(41, "8", "")
			second, outcome := add(71, "9", "")
			require.Empty(t, outcome, "it ends with the first one")
			require.Equal(t, map[int]Outcome{first: NodesUp, second: NodesUp}, w.Survey(nil, at(71), at(71), at(71.1)))
		}},
		{"a reconfigure waits until slurmctld has settled, also while no job waits", func(t *testing.T, w *Waits, _ func(float64, string, string) (int, Outcome)) {
			require.True(t, w.WantSettled(at(0)), "it has not been started")
			require.Zero(t, w.Due())
			w.Begin(at(1))
			require.Zero(t, w.Due(), "nobody wants to know")
			require.False(t, w.WantSettled(at(2)))
			require.NotZero(t, w.Due())
			heard := []slurm.Node{{Name: "n1", State: []string{"IDLE"}, BootAt: 1}}
			require.Empty(t, w.Survey(heard, at(5), at(5), at(5.1)))
			require.False(t, w.WantSettled(at(5.2)))
			require.Empty(t, w.Survey(heard, at(6.2), at(6.2), at(6.3)))
			require.Zero(t, w.Due())
			require.True(t, w.WantSettled(at(6.3)))
			w.Begin(at(40))
			require.False(t, w.WantSettled(at(41)))
			require.Empty(t, w.Failed(at(50), at(60)))
			require.NotZero(t, w.Due())
			require.Empty(t, w.Failed(at(61), at(71)))
			require.Zero(t, w.Due(), "its time is over")
		}},
		{"slurmctld cannot be asked whether nodes have registered", func(t *testing.T, w *Waits, add func(float64, string, string) (int, Outcome)) {
			w.Begin(at(1))
			number, _ := add(1.5, "7", "")
			require.Empty(t, w.Failed(at(2), at(12)))
			require.Equal(t, map[int]Outcome{number: NoAnswer}, w.Failed(at(13), at(22.1)))
		}},
		{"a slurmctld that does not answer for 20 s", func(t *testing.T, w *Waits, add func(float64, string, string) (int, Outcome)) {
			number, _ := add(1, "7", "n1")
			require.Empty(t, w.Failed(at(1), at(11)))
			require.Equal(t, map[int]Outcome{number: NoAnswer}, w.Failed(at(12), at(22)))
			_, outcome := add(23, "8", "n1")
			require.Empty(t, outcome)
			require.Empty(t, w.Failed(at(23), at(23.1)), "the next job waits anew")
		}},
		{"an answer about nodes alone is none", func(t *testing.T, w *Waits, add func(float64, string, string) (int, Outcome)) {
			number, _ := add(1, "7", "n1")
			for s := 1.0; s < 21; s += 5 {
				require.Empty(t, w.Looked(hostlist.Set{}, at(s), at(s+.1)))
				require.Empty(t, w.Failed(at(s+.1), at(s+.2)))
			}
			w.Looked(hostlist.Set{}, at(22), at(22.1))
			require.Equal(t, map[int]Outcome{number: NoAnswer}, w.Failed(at(22.1), at(22.2)))
		}},
		{"the time for PrologSlurmctld ends the wait", func(t *testing.T, w *Waits, add func(float64, string, string) (int, Outcome)) {
			number, _ := add(1, "7", "n1")
			for i := range 20 {
				w.Looked(hostlist.Set{}, at(230+float64(i)/10), at(230+float64(i)/10))
			}
			require.Equal(t, at(235.9), w.Due(), "the pause has grown to 4 s")
			require.Empty(t, w.Overdue(at(240.9)))
			require.Equal(t, map[int]Outcome{number: TimeOver}, w.Overdue(at(241)))
			require.Zero(t, w.Due())
		}},
		{"news shorten the pause, and a dear look lengthens it", func(t *testing.T, w *Waits, add func(float64, string, string) (int, Outcome)) {
			add(1, "7", "n1")
			w.Looked(hostlist.Set{}, at(2), at(2))
			require.Equal(t, at(2.5), w.Due())
			w.Wake(at(2.1))
			require.Equal(t, at(2.25), w.Due())
			w.Looked(hostlist.Set{}, at(3), at(4))
			require.Equal(t, at(14), w.Due(), "a look takes a tenth of the time at most")
			w.Wake(at(4))
			require.Equal(t, at(5), w.Due())
		}},
		{"all end", func(t *testing.T, w *Waits, add func(float64, string, string) (int, Outcome)) {
			first, _ := add(1, "7", "n1")
			second, _ := add(1, "8", "n[1-2]")
			require.Equal(t, map[int]Outcome{first: Reconfigures, second: Reconfigures}, w.EndAll(Reconfigures))
			require.Zero(t, w.Len())
		}},
		{"a program that has gone waits no longer", func(t *testing.T, w *Waits, add func(float64, string, string) (int, Outcome)) {
			number, _ := add(1, "7", "n1")
			w.Drop(number)
			require.Zero(t, w.Due())
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &Waits{}
			c.play(t, w, func(seconds float64, job, nodes string) (int, Outcome) {
				return w.Add(Wait{Job: job, NodeNames: nodesOf(t, nodes), Allocated: at(seconds), Until: at(seconds + 240)}, at(seconds))
			})
		})
	}
}

// TestManyWaits: 4,096 jobs that wait for nodes here and there are looked at together.
func TestManyWaits(t *testing.T) {
	var w Waits
	now, want := time.Now(), 0
	for i := range 4096 {
		list, err := hostlist.Parse(fmt.Sprintf("g-[%d,%d]", 4*i, 4*i+20_002)) // none beside another
		require.NoError(t, err)
		w.Add(Wait{Job: fmt.Sprint(i), NodeNames: list.Set(), Allocated: now, Until: now.Add(time.Hour)}, now)
		want += 2
	}
	assert.Equal(t, want, w.NodesToAsk().Len())
	assert.Less(t, testing.AllocsPerRun(1, func() { w.NodesToAsk() }), 1000.0, "each wait copied once what those before it wait for, which took 3 s")
}
