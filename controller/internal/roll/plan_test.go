package roll

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// parse reads "a:old,ready,idle b:new,pending": a name and what the pod is.
func parse(text string) (all []Pod) {
	for one := range strings.FieldsSeq(text) {
		name, words, _ := strings.Cut(one, ":")
		p := Pod{Name: name, UID: types.UID(name)}
		for word := range strings.SplitSeq(words, ",") {
			switch word {
			case "old":
				p.Old = true
			case "ready":
				p.Ready = true
			case "ending":
				p.Ending = true
			case "pending":
				p.Pending = true
			case "new", "unready":
			default:
				p.State = wire.State(word)
			}
		}
		all = append(all, p)
	}
	return all
}

func names(pods []Pod) string {
	var all []string
	for _, p := range pods {
		all = append(all, p.Name)
	}
	return strings.Join(all, " ")
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name   string
		want   int
		atOnce int
		busy   bool
		pods   string
		chosen string
	}{
		{"nothing is old", 2, 1, false, "a:new,ready,idle b:new,ready,busy", ""},
		{"one at once", 3, 1, false, "a:old,ready,idle b:old,ready,idle c:old,ready,idle", "a"},
		{"two at once", 3, 2, false, "a:old,ready,idle b:old,ready,idle c:old,ready,idle", "a b"},
		{"idle ones first", 3, 2, false, "a:old,ready,busy b:old,ready,idle c:old,ready,busy", "b"},
		{"busy ones wait", 2, 2, false, "a:old,ready,busy b:new,ready,idle", ""},
		{"busy ones at once", 3, 2, true, "a:old,ready,busy b:old,ready,idle c:old,ready,busy", "b a"},
		{"nobody tells", 2, 2, false, "a:old,ready b:old,ready", ""},
		{"nobody tells, and jobs are waited for", 2, 1, true, "a:old,ready b:old,ready", "a"},
		{"slurmctld has no record, and the pod is ready", 2, 1, false, "a:old,ready,absent b:old,ready,busy", ""},
		{"slurmctld has no record, and the pod is not ready", 2, 1, false, "a:old,unready,absent b:old,ready,busy", "a"},
		{"one is on its way", 3, 1, false, "a:old,ready,idle b:old,ready,idle,ending c:new,ready,idle", ""},
		{"one is away", 3, 1, false, "a:old,ready,idle b:new,ready,idle", ""},
		{"one starts", 3, 1, false, "a:old,ready,idle b:new,unready,absent c:old,ready,idle", ""},
		{"one is stuck, and there are two places", 4, 2, false, "a:new,pending b:old,ready,idle c:old,ready,idle d:old,ready,idle", "b"},
		{"old ones that are stuck take no place", 4, 1, false, "a:old,pending b:old,pending c:old,ready,idle d:old,ready,idle", "a b"},
		{"an old one that is not ready, with jobs", 2, 1, false, "a:old,unready,busy b:new,ready,idle", ""},
		{"an old one that is not ready, with jobs that are waited for", 2, 1, true, "a:old,unready,busy b:new,ready,idle", "a"},
		{"more pods than wanted", 1, 1, false, "a:old,ready,idle b:old,ready,idle", "a"},
		{"no number", 2, 0, false, "a:old,ready,idle b:old,ready,idle", "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.chosen, names(Plan(Set{c.want, c.atOnce, c.busy, parse(c.pods)})))
		})
	}
}

// world is a set whose controller, scheduler and users do as they like.
type world struct {
	t    *testing.T
	set  Set
	dice *rand.Rand
	made int
}

// plan deletes what Plan chooses, and holds what it promises.
func (w *world) plan() {
	w.t.Helper()
	before := w.notReady()
	chosen := Plan(w.set)
	taken := map[types.UID]bool{}
	busyOne := false
	for _, p := range chosen {
		require.True(w.t, p.Old && !p.Ending, "only old pods, and nothing twice")
		require.False(w.t, taken[p.UID])
		taken[p.UID] = true
		isBusy := !p.Pending && p.State != wire.Idle && p.State != wire.Absent
		require.True(w.t, w.set.Busy || !isBusy, "a pod with jobs, or of which nobody tells")
		busyOne = busyOne || isBusy
	}
	for i, p := range w.set.Pods {
		if taken[p.UID] {
			w.set.Pods[i].Ending = true
		} else if busyOne && p.Old && !p.Ending {
			require.NotEqual(w.t, wire.Idle, p.State, "%s is idle and stays, and a busy one goes", p.Name)
		}
	}
	require.LessOrEqual(w.t, w.notReady(), max(w.set.AtOnce, before))
	require.Empty(w.t, Plan(w.set), "what was chosen is on its way")
}

// notReady counts the wanted pods that are away or not ready.
func (w *world) notReady() int {
	n := max(0, w.set.Want-len(w.set.Pods))
	for _, p := range w.set.Pods {
		if p.Ending || !p.Ready {
			n++
		}
	}
	return n
}

// turn lets one thing happen.
func (w *world) turn() {
	if len(w.set.Pods) < w.set.Want && w.dice.IntN(2) == 0 {
		w.made++
		w.set.Pods = append(w.set.Pods, Pod{Name: fmt.Sprint("new-", w.made), UID: types.UID(fmt.Sprint("new-", w.made)), Pending: true})
		return
	}
	if len(w.set.Pods) == 0 {
		return
	}
	i := w.dice.IntN(len(w.set.Pods))
	p := &w.set.Pods[i]
	switch w.dice.IntN(6) {
	case 0:
		p.Ready = !p.Ready
		p.Pending = p.Pending && !p.Ready
	case 1:
		p.State = []wire.State{wire.Idle, wire.Busy, wire.Absent, ""}[w.dice.IntN(4)]
	case 2:
		if p.Ending && p.State != wire.Busy {
			w.set.Pods = append(w.set.Pods[:i], w.set.Pods[i+1:]...)
		}
	case 3:
		p.Old = p.Old || w.dice.IntN(20) == 0 // a newer revision
	case 4:
		p.Ending = p.Ending || w.dice.IntN(20) == 0 // somebody else deletes it
	}
}

// FuzzPlan plays a random world: never more than AtOnce of the pods are away or not ready, idle pods
// go before busy ones, and in the end all pods are new, if their jobs end and new pods become ready.
func FuzzPlan(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed, uint8(seed%9), uint8(seed%4), seed%3 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, pods, atOnce uint8, busyToo bool) {
		w := &world{t: t, dice: rand.New(rand.NewPCG(seed, 1)), set: Set{Want: int(pods % 32), AtOnce: max(1, int(atOnce%8)), Busy: busyToo}}
		for n := range w.set.Want {
			w.set.Pods = append(w.set.Pods, Pod{Name: fmt.Sprint("old-", n), UID: types.UID(fmt.Sprint("old-", n)), Old: true, Ready: true, State: wire.Busy})
		}
		for range 300 {
			w.turn()
			w.plan()
		}
		for round := 0; ; round++ { // jobs end, and pods start
			done := true
			var rest []Pod
			for _, p := range w.set.Pods {
				if p.Ending {
					done = false
					continue
				}
				done = done && !p.Old
				p.Ready, p.Pending, p.State = true, false, wire.Idle
				rest = append(rest, p)
			}
			for len(rest) < w.set.Want {
				w.made++
				done = false
				rest = append(rest, Pod{Name: fmt.Sprint("new-", w.made), UID: types.UID(fmt.Sprint("new-", w.made)), Ready: true, State: wire.Idle})
			}
			w.set.Pods = rest
			w.plan()
			if done {
				break
			}
			require.Less(t, round, 3*w.set.Want+3, "there is progress")
		}
	})
}
