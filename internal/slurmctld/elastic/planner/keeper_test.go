package planner

import (
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
func node(name, state string) slurm.Node {
	all := strings.Split(state, "+")
	return slurm.Node{
		Name: name, State: append(all, "CLOUD", "DYNAMIC_NORM"), CPUs: 2, RealMemory: 1024, Features: []string{"a"}, Weight: 1, Comment: markA,
	}
}

func because(n slurm.Node, reason string, at time.Time) slurm.Node {
	n.Reason, n.ReasonAt = reason, slurm.Time(at.Unix())
	return n
}

// rest are records of setA that need nothing.
func rest(but ...slurm.Node) []slurm.Node {
	var all []slurm.Node
	for i := range 4 {
		name := fmt.Sprintf("a-%d", i)
		if n := slices.IndexFunc(but, func(n slurm.Node) bool { return n.Name == name }); n >= 0 {
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
	wrongSize := func(state string) slurm.Node {
		n := node("a-1", state)
		n.Comment = "slurmlet set a: CPUs=1 RealMemory=1024"
		return n
	}
	removed := func(state string) slurm.Node {
		n := node("x-1", state)
		n.Comment = "slurmlet set x: CPUs=1 RealMemory=1024"
		return n
	}
	for name, tt := range map[string]struct {
		sets      string
		nodes     []slurm.Node
		pod       func(string) bool
		failing   []wire.Failure
		suspended map[string]bool
		want      []string
	}{
		"nothing to do":                              {nodes: rest()},
		"no record":                                  {nodes: []slurm.Node{}, want: []string{"create a-[0-3] CPUs=2 RealMemory=1024 Feature=a State=CLOUD comment=" + markA}},
		"two records":                                {nodes: rest()[1:3], want: []string{"create a-[0,3] CPUs=2 RealMemory=1024 Feature=a State=CLOUD comment=" + markA}},
		"a name is a static node's":                  {nodes: rest(slurm.Node{Name: "a-1", State: []string{"IDLE"}})},
		"a name is a dynamic node's":                 {nodes: rest(slurm.Node{Name: "a-1", State: []string{"IDLE", "DYNAMIC_NORM"}})},
		"a name is one of slurm.conf's":              {nodes: rest(slurm.Node{Name: "a-1", State: []string{"IDLE", "CLOUD"}})},
		"a new record":                               {nodes: rest(func() slurm.Node { n := node("a-1", "IDLE+POWERED_DOWN"); n.Comment = ""; return n }()), want: []string{"settle a-1 " + reasons.SetNew + " comment=" + markA}},
		"a new record a job has":                     {nodes: rest(func() slurm.Node { n := node("a-1", "ALLOCATED+POWERING_UP"); n.Comment = ""; return n }()), want: []string{"update a-1 comment=" + markA}},
		"a new record that stayed DOWN":              {nodes: rest(because(node("a-1", "DOWN+POWERED_DOWN"), reasons.SetNew, noon)), want: []string{"resume a-1"}},
		"an administrator's comment":                 {nodes: rest(func() slurm.Node { n := node("a-1", "IDLE+POWERED_DOWN"); n.Comment = "rack 7"; return n }())},
		"other features":                             {nodes: rest(func() slurm.Node { n := node("a-1", "ALLOCATED"); n.Features = []string{"b"}; return n }()), want: []string{"update a-1 availablefeatures=a activefeatures=a"}},
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
		"no set, and no mark":                   {nodes: rest(func() slurm.Node { n := removed("IDLE+POWERED_DOWN"); n.Comment = "mine"; return n }())},

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
	look.Nodes = []slurm.Node{}
	assert.Equal(t, []string{"create a-[0-3] CPUs=2 RealMemory=1024 SuspendTime=300 Feature=a State=CLOUD comment=" + markA + " SuspendTime=300"}, words(NewKeeper().Plan(look, noon)))
}

// TestAdminsDrain: an administrator's drain stays whatever becomes of the node's pod, and where slurmctld lifts it.
func TestAdminsDrain(t *testing.T) {
	look := Look{Pod: noPods, ResumeTimeout: time.Minute, Failing: []wire.Failure{{Nodes: "a-1", Reason: "ErrImagePull"}}}
	require.Empty(t, play(t, NewKeeper(), look, 1000, func(second int) slurm.Node {
		if second < 60 {
			return because(node("a-1", "IDLE+DRAIN+POWERING_UP"), "disk", noon)
		}
		return because(node("a-1", "DOWN+POWERED_DOWN"), "disk : ResumeTimeout reached", noon.Add(time.Minute))
	}))
}

// TestNeverRegistered: a record whose slurmd 24.11 has never heard of goes through POWERING_DOWN once, also where nobody knows
// the pods.
func TestNeverRegistered(t *testing.T) {
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
	require.Equal(t, []string{"power_down a-1 " + reasonNeverRegistered}, at("IDLE+POWERED_DOWN+NOT_RESPONDING"))
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
