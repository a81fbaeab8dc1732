package elastic

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
	"github.com/slurmlet/slurmlet/internal/slurmctld/noderecords"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// setA has a-[0-3].
func setA(t testing.TB, more string) Sets {
	t.Helper()
	sets, err := Sets{}.Take(map[string][]byte{"a": []byte(`{"nodes":"a-[0-3]","cpuLimit":"2","memoryLimit":"1088Mi","features":["a"]` + more + `}`)})
	require.NoError(t, err)
	return sets
}

const markA = "slurmlet set a: CPUs=2 RealMemory=1024"

// node is a record of setA, in a state as scontrol prints it.
func node(name, state string) clusterview.Node {
	all := strings.Split(state, "+")
	return clusterview.Node{
		Name: name, State: all[0], Flags: append(all[1:], "CLOUD", "DYNAMIC_NORM"), CPUs: 2, Memory: 1024 * mebi, Features: []string{"a"}, Weight: 1, Comment: markA,
	}
}

func because(n clusterview.Node, reason string, at time.Time) clusterview.Node {
	n.Reason, n.ReasonAt = reason, clusterview.Time(at.Unix())
	return n
}

// rest are records of setA that need nothing.
func rest(but ...clusterview.Node) []clusterview.Node {
	var all []clusterview.Node
	for i := range 4 {
		name := fmt.Sprintf("a-%d", i)
		if n := slices.IndexFunc(but, func(n clusterview.Node) bool { return n.Name == name }); n >= 0 {
			all = append(all, but[n])
		} else {
			all = append(all, node(name, "IDLE+POWERED_DOWN"))
		}
	}
	for _, n := range but {
		if !strings.HasPrefix(n.Name, "a-") {
			all = append(all, n)
		}
	}
	return all
}

// words are the steps of a plan, one text each.
func words(p Plan) []string {
	all := []string{}
	for _, s := range p.Steps {
		text := fmt.Sprintf("%s %s %s %s", s.Verb, hostlist.Of(slices.Values(s.Nodes)), s.Text, strings.Join(s.Fields, " "))
		all = append(all, strings.Join(strings.Fields(text), " "))
	}
	return all
}

func noPods(string) bool  { return false }
func allPods(string) bool { return true }

func TestPlan(t *testing.T) {
	failing := func(reason string) []wire.Failure {
		return []wire.Failure{{Nodes: "a-1", Reason: reason, Note: "no"}}
	}
	wrongSize := func(state string) clusterview.Node {
		n := node("a-1", state)
		n.Comment = "slurmlet set a: CPUs=1 RealMemory=1024"
		return n
	}
	removed := func(state string) clusterview.Node {
		n := node("x-1", state)
		n.Comment = "slurmlet set x: CPUs=1 RealMemory=1024"
		return n
	}
	for name, tt := range map[string]struct {
		sets      string
		nodes     []clusterview.Node
		pod       func(string) bool
		failing   []wire.Failure
		suspended map[string]bool
		want      []string
	}{
		"nothing to do":                              {nodes: rest()},
		"no record":                                  {nodes: []clusterview.Node{}, want: []string{"create a-[0-3] CPUs=2 RealMemory=1024 Feature=a State=CLOUD comment=" + markA}},
		"two records":                                {nodes: rest()[1:3], want: []string{"create a-[0,3] CPUs=2 RealMemory=1024 Feature=a State=CLOUD comment=" + markA}},
		"a name is a static node's":                  {nodes: rest(clusterview.Node{Name: "a-1", State: "IDLE"})},
		"a name is a dynamic node's":                 {nodes: rest(clusterview.Node{Name: "a-1", State: "IDLE", Flags: []string{"DYNAMIC_NORM"}})},
		"a name is one of slurm.conf's":              {nodes: rest(clusterview.Node{Name: "a-1", State: "IDLE", Flags: []string{"CLOUD"}})},
		"a new record":                               {nodes: rest(func() clusterview.Node { n := node("a-1", "IDLE+POWERED_DOWN"); n.Comment = ""; return n }()), want: []string{"settle a-1 " + reasons.SetNew + " comment=" + markA}},
		"a new record a job has":                     {nodes: rest(func() clusterview.Node { n := node("a-1", "ALLOCATED+POWERING_UP"); n.Comment = ""; return n }()), want: []string{"update a-1 comment=" + markA}},
		"a new record that stayed DOWN":              {nodes: rest(because(node("a-1", "DOWN+POWERED_DOWN"), reasons.SetNew, noon)), want: []string{"resume a-1"}},
		"an administrator's comment":                 {nodes: rest(func() clusterview.Node { n := node("a-1", "IDLE+POWERED_DOWN"); n.Comment = "rack 7"; return n }())},
		"other features":                             {nodes: rest(func() clusterview.Node { n := node("a-1", "ALLOCATED"); n.Features = []string{"b"}; return n }()), want: []string{"update a-1 availablefeatures=a activefeatures=a"}},
		"another weight":                             {sets: `,"weight":"5"`, nodes: rest(), want: []string{"update a-[0-3] weight=5"}},
		"the minimum":                                {sets: `,"min":2`, nodes: rest(), want: []string{"power_up a-[0-1]"}},
		"the minimum, and one is coming":             {sets: `,"min":2`, nodes: rest(node("a-0", "ALLOCATED+POWERING_UP")), want: []string{"power_up a-1"}},
		"the minimum, and one is asked for":          {sets: `,"min":1`, nodes: rest(node("a-0", "IDLE+POWERED_DOWN+POWER_UP"))},
		"the minimum, and one is drained":            {sets: `,"min":1`, nodes: rest(because(node("a-0", "IDLE+DRAIN"), "disk", noon)), want: []string{"power_up a-1"}},
		"the minimum, and one has failed":            {sets: `,"min":1`, nodes: rest(because(node("a-0", "DOWN+POWERED_DOWN"), "ResumeTimeout reached", noon))},
		"the minimum, and one is to be powered down": {sets: `,"min":1`, nodes: rest(node("a-0", "IDLE+POWERED_DOWN+POWER_DOWN")), want: []string{"power_up a-1"}},
		"the minimum is there":                       {sets: `,"min":2`, nodes: rest(node("a-3", "IDLE"), node("a-1", "MIXED"))},

		"another size, off":                     {nodes: rest(wrongSize("IDLE+POWERED_DOWN")), pod: noPods, want: []string{"delete a-1"}},
		"another size, nobody knows":            {nodes: rest(wrongSize("IDLE+POWERED_DOWN")), want: []string{"delete a-1"}},
		"another size, pod ends":                {nodes: rest(wrongSize("IDLE+POWERED_DOWN")), pod: allPods},
		"another size, ending":                  {nodes: rest(wrongSize("IDLE+POWERING_DOWN"))},
		"another size, has ended":               {nodes: rest(wrongSize("IDLE+POWERING_DOWN")), pod: noPods, want: []string{"delete a-1"}},
		"another size, idle":                    {nodes: rest(wrongSize("IDLE")), want: []string{"drain a-1 " + reasons.SetResized}},
		"another size, a job waits for its pod": {nodes: rest(wrongSize("ALLOCATED+POWERING_UP"))},
		"another size, a job has it now":        {nodes: rest(wrongSize("ALLOCATED+POWERED_DOWN"))},
		"another size, busy":                    {nodes: rest(wrongSize("MIXED")), want: []string{"drain a-1 " + reasons.SetResized}},
		"another size, drained, busy":           {nodes: rest(because(wrongSize("MIXED+DRAIN"), reasons.SetResized, noon))},
		"another size, completing":              {nodes: rest(because(wrongSize("IDLE+COMPLETING+DRAIN"), reasons.SetResized, noon))},
		"another size, suspended job":           {nodes: rest(because(wrongSize("IDLE+DRAIN"), reasons.SetResized, noon)), suspended: map[string]bool{"a-1": true}},
		"another size, drained":                 {nodes: rest(because(wrongSize("IDLE+DRAIN"), reasons.SetResized, noon)), want: []string{"power_down a-1"}},
		"another size, reserved":                {nodes: rest(wrongSize("IDLE+RESERVED+POWERED_DOWN")), pod: noPods},
		"another size, reserved, up":            {nodes: rest(wrongSize("IDLE+RESERVED"))},
		"the size is right again":               {nodes: rest(because(node("a-1", "IDLE+DRAIN"), reasons.SetResized, noon)), want: []string{"resume a-1"}},
		"drained for a forgotten run":           {nodes: rest(because(node("a-1", "IDLE+DRAIN"), reasons.DuplicateJob, noon)), want: []string{"resume a-1"}},
		"the same, and off":                     {nodes: rest(because(node("a-1", "IDLE+DRAIN+POWERED_DOWN"), reasons.DuplicateJob, noon)), pod: noPods, want: []string{"resume a-1"}},
		"the same, about to be suspended":       {nodes: rest(because(node("a-1", "IDLE+DRAIN+POWER_DOWN"), reasons.DuplicateJob, noon))},
		"the same, and an admin's":              {nodes: rest(because(node("a-1", "IDLE+DRAIN+POWERED_DOWN"), "Duplicate jobid, and a bad disk", noon)), pod: noPods},
		"another's drain":                       {nodes: rest(because(node("a-1", "IDLE+DRAIN"), "disk", noon))},
		"no set, off":                           {nodes: rest(removed("IDLE+POWERED_DOWN")), pod: noPods, want: []string{"delete x-1"}},
		"no set, busy":                          {nodes: rest(removed("ALLOCATED")), want: []string{"drain x-1 " + reasons.SetRemoved}},
		"no set, drained":                       {nodes: rest(because(removed("IDLE+DRAIN"), reasons.SetRemoved, noon)), want: []string{"power_down x-1"}},
		"no set, and no mark":                   {nodes: rest(func() clusterview.Node { n := removed("IDLE+POWERED_DOWN"); n.Comment = "mine"; return n }())},

		"powering down, pod gone":            {nodes: rest(node("a-1", "IDLE+POWERING_DOWN")), pod: noPods, want: []string{"resume a-1"}},
		"powering down, reserved, pod gone":  {nodes: rest(node("a-1", "IDLE+RESERVED+POWERING_DOWN")), pod: noPods, want: []string{"resume a-1"}},
		"powering down, pod there":           {nodes: rest(node("a-1", "IDLE+POWERING_DOWN")), pod: allPods},
		"powering down, nobody knows":        {nodes: rest(node("a-1", "IDLE+POWERING_DOWN"))},
		"powering down, an admin's drain":    {nodes: rest(because(node("a-1", "IDLE+DRAIN+POWERING_DOWN"), "disk", noon)), pod: noPods},
		"powering down, our drain":           {nodes: rest(because(node("a-1", "IDLE+DRAIN+POWERING_DOWN"), "slurmlet: pod is terminating", noon)), pod: noPods, want: []string{"resume a-1"}},
		"powering down, an admin's FAIL":     {nodes: rest(because(node("a-1", "IDLE+FAIL+POWERING_DOWN"), "disk", noon)), pod: noPods},
		"an administrator's DOWN":            {nodes: rest(because(node("a-1", "DOWN+POWERED_DOWN"), "fan", noon)), pod: noPods},
		"lost":                               {nodes: rest(because(node("a-1", "DOWN+DRAIN"), reasons.LostMachine, noon)), want: []string{"power_down a-1"}},
		"lost, a job is taken off":           {nodes: rest(because(node("a-1", "DOWN+DRAIN+COMPLETING"), reasons.LostMachine, noon))},
		"lost, powering down, pod gone":      {nodes: rest(because(node("a-1", "DOWN+DRAIN+POWERING_DOWN"), reasons.LostMachine, noon)), pod: noPods, want: []string{"resume a-1"}},
		"failed, wanted":                     {nodes: rest(because(node("a-1", "DOWN+POWERING_UP"), "slurmlet: ErrImagePull: no", noon)), want: []string{"power_down a-1"}},
		"failed, pauses":                     {nodes: rest(because(node("a-1", "DOWN+POWERED_DOWN"), "slurmlet: ErrImagePull: no", noon.Add(-59*time.Second)))},
		"failed, pause over":                 {nodes: rest(because(node("a-1", "DOWN+POWERED_DOWN"), "slurmlet: ErrImagePull: no", noon.Add(-61*time.Second))), want: []string{"resume a-1"}},
		"failed, pause over, pod is there":   {nodes: rest(because(node("a-1", "DOWN+POWERING_DOWN"), "slurmlet: ErrImagePull: no", noon.Add(-61*time.Second))), pod: allPods},
		"timed out, pauses":                  {nodes: rest(because(node("a-1", "DOWN+POWERED_DOWN"), "ResumeTimeout reached", noon))},
		"timed out, pause over":              {nodes: rest(because(node("a-1", "DOWN+POWERED_DOWN"), "ResumeTimeout reached", noon.Add(-61*time.Second))), want: []string{"resume a-1"}},
		"a pod fails since now":              {nodes: rest(node("a-1", "ALLOCATED+POWERING_UP")), failing: failing("ErrImagePull")},
		"a pod of a node that is up":         {nodes: rest(node("a-1", "ALLOCATED")), failing: failing("CrashLoopBackOff")},
		"a pod of a node that is not wanted": {nodes: rest(), failing: failing("ErrImagePull")},
		"silent, and suspended":              {nodes: rest(because(node("a-1", "DOWN+POWERED_DOWN"), "Not responding", noon)), pod: noPods, want: []string{"resume a-1"}},
		"silent, suspended, pod is there":    {nodes: rest(because(node("a-1", "DOWN+POWERING_DOWN"), "Not responding", noon)), pod: allPods},
		// slurmctld appends its reasons, and 24.11 without slurmdbd keeps those of before.
		"silent, after a reason of ours":                   {nodes: rest(because(node("a-1", "DOWN+NOT_RESPONDING"), reasons.SetNew+" : Not responding", noon))},
		"silent, suspended, after another reason":          {nodes: rest(because(node("a-1", "DOWN+POWERED_DOWN"), "disk : Not responding", noon)), pod: noPods, want: []string{"resume a-1"}},
		"silent, and an admin's drain":                     {nodes: rest(because(node("a-1", "DOWN+DRAIN+POWERED_DOWN"), "disk : Not responding", noon)), pod: noPods},
		"timed out, after a reason of ours, pauses":        {nodes: rest(because(node("a-1", "DOWN+POWERED_DOWN"), reasons.SetNew+" : ResumeTimeout reached", noon)), pod: noPods},
		"the size is right again, and the node was silent": {nodes: rest(because(node("a-1", "IDLE+DRAIN"), reasons.SetResized+" : Not responding", noon)), want: []string{"resume a-1"}},
		"timed out, after another reason":                  {nodes: rest(because(node("a-1", "DOWN+POWERED_DOWN"), "disk : ResumeTimeout reached", noon.Add(-61*time.Second))), pod: noPods, want: []string{"resume a-1"}},
		"nobody has told of the node's death":              {nodes: rest(because(node("a-1", "DOWN+NOT_RESPONDING"), "Not responding", noon))},
	} {
		t.Run(name, func(t *testing.T) {
			look := Look{At: noon, Nodes: tt.nodes, Suspended: tt.suspended, Sets: setA(t, tt.sets), Pod: tt.pod, Failing: tt.failing, ResumeTimeout: 10 * time.Minute}
			assert.ElementsMatch(t, tt.want, words(NewKeeper().Plan(look, noon)))
		})
	}
}

// TestSuspendTime: records that keep one of their own are made anew once their pods are gone, and not before.
func TestSuspendTime(t *testing.T) {
	look := Look{At: noon, Sets: setA(t, `,"idleSeconds":300`), Nodes: rest(), Pod: noPods}
	look.Nodes[0] = node("a-0", "MIXED")
	look.Nodes[1].Comment += " SuspendTime=300"
	assert.Empty(t, words(NewKeeper().Plan(look, noon)), "24.11")
	look.Timed = true
	look.Nodes[3].Comment = ""
	assert.Contains(t, words(NewKeeper().Plan(look, noon)), "update a-3 comment="+markA+" SuspendTime=300", "it is not settled")
	look.Nodes[3].Comment = markA
	assert.Equal(t, []string{"delete a-[2-3]"}, words(NewKeeper().Plan(look, noon)))
	look.Nodes[2] = because(node("a-2", "IDLE+DRAIN+POWERED_DOWN"), "disk", noon)
	assert.Equal(t, []string{"delete a-3"}, words(NewKeeper().Plan(look, noon)), "an administrator's drain would go with the record")
	look.Nodes = []clusterview.Node{}
	assert.Equal(t, []string{"create a-[0-3] CPUs=2 RealMemory=1024 SuspendTime=300 Feature=a State=CLOUD comment=" + markA + " SuspendTime=300"}, words(NewKeeper().Plan(look, noon)))
}

// TestFailing: patience, DOWN, power down, the pause, which doubles, and a start that ends it.
func TestFailing(t *testing.T) {
	k, now := NewKeeper(), noon
	look := Look{Sets: setA(t, ""), Pod: noPods, ResumeTimeout: 10 * time.Minute}
	plan := func(n clusterview.Node) Plan {
		look.At, look.Nodes = now, rest(n)
		return k.Plan(look, now)
	}
	starting := node("a-1", "ALLOCATED+POWERING_UP")
	for _, pause := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
		look.Failing = []wire.Failure{{Nodes: "a-[1-2]", Reason: "ErrImagePull", Note: "not \"found\""}}
		p := plan(starting)
		require.Empty(t, words(p))
		require.Equal(t, "a-[1-2]", p.Sets[0].Failing[0].Nodes)
		now = now.Add(31 * time.Second)
		require.Equal(t, []string{"fail a-1 slurmlet: ErrImagePull: not found"}, words(plan(starting)))
		down := because(node("a-1", "DOWN+POWERING_UP"), "slurmlet: ErrImagePull: not found", now)
		require.Equal(t, []string{"power_down a-1"}, words(plan(down)))
		down = because(node("a-1", "DOWN+POWERING_DOWN"), down.Reason, now)
		look.Failing = nil
		p = plan(down)
		require.Empty(t, words(p))
		require.WithinDuration(t, now.Add(pause), p.Sets[0].Retry, 0)
		require.Equal(t, []string{"a-1"}, p.Sets[0].Failed)
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
	require.Equal(t, "MaxNodeCount", p.Sets[0].Refused["a-2"])
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
func play(t *testing.T, k *Keeper, look Look, seconds int, state func(second int) clusterview.Node) (done []string) {
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
	done := play(t, NewKeeper(), Look{Pod: noPods}, 600, func(second int) clusterview.Node {
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

// TestAdminsDrain: an administrator's drain stays whatever becomes of the node's pod, and where slurmctld lifts it.
func TestAdminsDrain(t *testing.T) {
	look := Look{Pod: noPods, ResumeTimeout: time.Minute, Failing: []wire.Failure{{Nodes: "a-1", Reason: "ErrImagePull"}}}
	require.Empty(t, play(t, NewKeeper(), look, 1000, func(second int) clusterview.Node {
		if second < 60 {
			return because(node("a-1", "IDLE+DRAIN+POWERING_UP"), "disk", noon)
		}
		return because(node("a-1", "DOWN+POWERED_DOWN"), "disk : ResumeTimeout reached", noon.Add(time.Minute))
	}))
}

// TestFailingOfAnotherSize: the job that waits for a pod which does not start is requeued.
func TestFailingOfAnotherSize(t *testing.T) {
	look := Look{Pod: noPods, Failing: []wire.Failure{{Nodes: "a-1", Reason: "ErrImagePull"}}}
	require.Equal(t, []string{"30 fail"}, play(t, NewKeeper(), look, 31, func(int) clusterview.Node {
		n := node("a-1", "ALLOCATED+POWERING_UP")
		n.Comment = "slurmlet set a: CPUs=1 RealMemory=1024"
		return n
	}))
}

// TestDeaf: a record whose slurmd 24.11 has never heard of goes through POWERING_DOWN once, also where nobody knows
// the pods.
func TestDeaf(t *testing.T) {
	k := NewKeeper()
	at := func(state string) []string {
		p := k.Plan(Look{At: noon, Nodes: rest(node("a-1", state)), Sets: setA(t, "")}, noon)
		for i, s := range p.Steps {
			for _, name := range s.Nodes {
				k.Tried(&p.Steps[i], name, nil, noon)
			}
		}
		return words(p)
	}
	require.Empty(t, at("IDLE+POWERING_DOWN"), "its pod may be there")
	require.Equal(t, []string{"power_down a-1 " + reasonDeaf}, at("IDLE+POWERED_DOWN+NOT_RESPONDING"))
	require.Empty(t, at("IDLE+POWERED_DOWN+NOT_RESPONDING"))
	require.Equal(t, []string{"resume a-1"}, at("IDLE+POWERING_DOWN+NOT_RESPONDING"))
	require.Empty(t, at("IDLE+POWERED_DOWN"))
}

// TestBadFile: records of a set whose file has a fault are left alone.
func TestBadFile(t *testing.T) {
	n := node("x-1", "IDLE+POWERED_DOWN")
	n.Comment = "slurmlet set x: CPUs=1 RealMemory=1"
	sets := setA(t, "")
	sets.Bad = []string{"x"}
	p := NewKeeper().Plan(Look{At: noon, Nodes: rest(n), Sets: sets, Pod: noPods}, noon)
	require.Empty(t, p.Steps)
	require.Equal(t, "x", p.Elastic["x-1"])
}

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
			records := map[string]*clusterview.Node{}
			for i, name := range []string{"a-0", "a-1", "a-3", "x-1", "bad-1", "static"} {
				if has>>i&1 == 1 {
					continue
				}
				n := node(name, states[next()%len(states)])
				for j, bits := 0, next(); j < len(flags); j++ {
					if bits>>j&1 == 1 {
						n.Flags = append(n.Flags, flags[j])
					}
				}
				n.Reason, n.Comment = reasons[next()%len(reasons)], comments[next()%len(comments)]
				n.ReasonAt = clusterview.Time(now.Unix() - int64(next()))
				m := next()
				if look.Suspended[name] = m&3 == 3; m&12 == 12 {
					n.Flags = slices.DeleteFunc(n.Flags, func(f string) bool { return f == "CLOUD" })
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
						require.True(t, sets.All[0].Nodes.Contains(name))
						continue
					}
					require.True(t, ours(n), "%s %v", s.Verb, n)
					require.False(t, name == "bad-1" && n.Comment == comments[4] || !sets.All[0].Nodes.Contains(name) && marked(n.Comment) == "", "%s %v", s.Verb, n)
					jobs := noderecords.HoldsJobs(n, look.Suspended[name])
					admin := n.State == "DOWN" && (n.Reason == "disk")
					switch s.Verb {
					case Delete:
						require.False(t, jobs || noderecords.Reserved(n) || noderecords.Wanted(n), "%v", n)
					case PowerDown:
						require.False(t, jobs, "%v", n)
						require.False(t, noderecords.Reserved(n) && n.State != "DOWN", "%v", n)
						require.True(t, n.Is("DRAIN") || n.State == "DOWN" || s.Text == reasonDeaf && n.State == "IDLE" && n.Is("POWERED_DOWN"), "%v", n)
					case Settle:
						require.False(t, jobs || noderecords.Reserved(n) || n.State != "IDLE" || noderecords.Wanted(n), "%v", n)
					case Resume:
						require.False(t, admin || n.Is("DRAIN") && n.State != "DOWN" && !strings.HasPrefix(n.Reason, "slurmlet: "), "%v", n)
					case PowerUp:
						require.True(t, n.Is("POWERED_DOWN") && n.State == "IDLE" && !n.Is("DRAIN"), "%v", n)
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
