package elastic

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unique"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/controller/internal/pods"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// view reads "wanted pod,over refused": what a report says, and what there is.
func view(text string) View {
	v := View{Known: true, Elastic: true}
	for word := range strings.FieldsSeq(text) {
		if list, is := strings.CutPrefix(word, "pod"); is {
			v.Pod = &Pod{UID: "u", Elastic: true}
			for one := range strings.SplitSeq(list, ",") {
				switch one {
				case "ending":
					v.Pod.Ending = true
				case "over":
					v.Pod.Over, v.Pod.NotRunning = true, &pods.NotRunning{Reason: "Evicted"}
				case "ready":
					v.Pod.Ready = true
				case "deleted":
					v.Pod.Deleted = true
				case "unwanted":
					v.Pod.Unwanted = true
				case "foreign":
					v.Pod.Elastic = false
				case "stuck":
					v.Pod.NotRunning = &pods.NotRunning{Reason: "Unschedulable"}
				}
			}
			continue
		}
		switch word {
		case "unknown":
			v.Known = false
		case "static":
			v.Elastic = false
		case "wanted":
			v.Wanted = true
		case "made":
			v.Made = true
		case "refused":
			v.Refused = &Trouble{Reason: noTemplate}
		case "gated":
			v.Refused, v.Until = &Trouble{Reason: failedCreate}, now.Add(time.Second)
		case "probing":
			v.Refused, v.Until = &Trouble{Reason: failedCreate}, now.Add(-time.Second)
		case "held":
			v.Held = now.Add(time.Second)
		case "excluded":
			v.Excluded = true
		case "tried":
			v.Held = now
		case "silent":
			v.Until = now.Add(time.Second)
		case "resting":
			v.Rest, v.Died = now.Add(time.Second), &Trouble{Reason: lostPod}
		}
	}
	return v
}

func TestDecide(t *testing.T) {
	for text, want := range map[string]string{
		"wanted":                        "create",
		"wanted made":                   "nothing",
		"wanted refused":                "nothing NoTemplate",
		"wanted gated":                  "nothing FailedCreate again",
		"wanted probing":                "create FailedCreate",
		"wanted silent":                 "nothing again",
		"wanted resting":                "nothing PodLost again",
		"wanted pod":                    "nothing",
		"wanted pod,ready":              "nothing",
		"wanted pod,stuck":              "nothing Unschedulable",
		"wanted pod,ending":             "nothing",
		"wanted pod,ending,stuck":       "nothing",
		"wanted pod,over":               "delete Evicted",
		"wanted pod,over,deleted":       "nothing Evicted",
		"wanted pod,over,ending":        "nothing",
		"wanted pod,unwanted":           "delete",
		"wanted pod,unwanted,deleted":   "nothing",
		"wanted pod,unwanted,ending":    "nothing",
		"wanted pod,foreign,unwanted":   "nothing FailedCreate",
		"wanted pod,foreign":            "nothing FailedCreate",
		"wanted pod,foreign,over":       "nothing FailedCreate",
		"pod":                           "delete",
		"pod,ready":                     "delete",
		"pod,stuck":                     "delete",
		"pod,over":                      "delete",
		"pod,ending":                    "nothing",
		"pod,deleted":                   "nothing",
		"pod,foreign":                   "nothing",
		"":                              "nothing",
		"made":                          "nothing",
		"unknown pod":                   "nothing",
		"unknown wanted":                "nothing",
		"unknown wanted pod,over":       "nothing",
		"static pod":                    "nothing",
		"static wanted":                 "nothing",
		"wanted resting gated pod,over": "delete Evicted",
		"held pod":                      "nothing again",
		"tried pod":                     "delete",
		"held pod,ending":               "nothing",
		"held wanted":                   "create",
		"held wanted pod,over":          "nothing Evicted again",
		"excluded pod":                  "nothing",
		"excluded held pod":             "nothing",
		"excluded wanted pod,over":      "nothing Evicted",
		"excluded wanted refused":       "nothing NoTemplate",
	} {
		t.Run(text, func(t *testing.T) {
			s := Decide(view(text), now)
			got := []string{s.Action.String()}
			if s.Trouble != nil {
				got = append(got, s.Trouble.Reason)
			}
			if !s.Again.IsZero() {
				got = append(got, "again")
			}
			assert.Equal(t, want, strings.Join(got, " "))
			assert.Equal(t, s.Action == Delete, s.UID != "")
		})
	}
}

// world is one node, what Slurm wants of it, its pod, and a watch that lags behind.
type world struct {
	t    *testing.T
	dice *rand.Rand
	now  time.Time
	// fresh and wanted are the report's; pod is what Kubernetes has, and watched what the watch has told.
	fresh, wanted bool
	pod, watched  *pods.Pod
	made          int
	memory        memory
	// unwanted: a decision has seen pod while the node was not wanted.
	unwanted bool
}

func (w *world) chance(n int) bool { return w.dice.IntN(n) == 0 }

// turn lets something happen, and does what is decided.
func (w *world) turn() {
	w.now = w.now.Add(time.Duration(w.dice.IntN(5_000)) * time.Millisecond)
	switch w.dice.IntN(8) {
	case 0:
		w.fresh = !w.chance(3)
	case 1:
		w.wanted = !w.wanted
	case 2:
		w.watched = w.pod
	case 3: // the kubelet, or somebody
		if p := w.copy(); p != nil {
			switch {
			case p.DeletionTimestamp != nil:
				p = nil
			case w.chance(3):
				p.Over, p.NotRunning = true, &pods.NotRunning{Reason: "Evicted"}
			case w.chance(3):
				p.Ready = !p.Ready
			case w.chance(4):
				p = nil
			}
			w.pod = p
		}
	}
	w.decide()
}

func (w *world) copy() *pods.Pod {
	if w.pod == nil {
		return nil
	}
	p := *w.pod
	return &p
}

// decide is what Maker.decide does.
func (w *world) decide() {
	w.memory.see(w.watched, w.fresh && w.wanted, w.now)
	if w.fresh && !w.wanted {
		w.memory.unwant(w.watched)
		w.unwanted = w.unwanted || w.pod != nil && (w.watched != nil && w.watched.UID == w.pod.UID || w.memory.made == w.pod.UID)
	}
	k := key{"hpc", "slurm", "n"}
	v := View{
		Known: w.fresh, Elastic: true, Wanted: w.fresh && w.wanted, Pod: w.memory.view(w.watched, k), Made: w.memory.made != "", Rest: w.memory.rest, Died: w.memory.died,
	}
	s := Decide(v, w.now)
	w.memory.keep(s, v, w.now)
	switch s.Action {
	case Create:
		require.True(w.t, w.fresh && w.wanted, "a pod of a node that nobody is known to want")
		if w.pod != nil {
			return // the name is the lock
		}
		w.made++
		w.unwanted = false
		w.pod = testPod(fmt.Sprint("u", w.made), w.now)
		w.memory.made, w.memory.settled = w.pod.UID, w.now.Add(settle)
	case Delete:
		require.True(w.t, w.fresh, "deleted without a fresh report")
		require.NotEmpty(w.t, s.UID)
		if w.pod == nil || w.pod.UID != s.UID {
			return // the precondition
		}
		require.True(w.t, !w.wanted || w.pod.Over || w.unwanted, "a wanted node's pod is deleted")
		require.NotEqual(w.t, w.memory.deleted, s.UID, "deleted twice within the time of the watch")
		p := w.copy()
		p.DeletionTimestamp = &metav1.Time{Time: w.now}
		w.pod = p
		w.memory.deleted, w.memory.settled = s.UID, w.now.Add(settle)
	}
}

func testPod(uid string, at time.Time) *pods.Pod {
	p := &pods.Pod{Elastic: gpu, Label: unique.Make("slurm")}
	p.UID, p.Name, p.CreationTimestamp = types.UID(uid), "n", metav1.Time{Time: at}
	return p
}

// FuzzDecide plays a random world: nothing is deleted without a fresh report, a wanted node's pod only when it is
// over or its node was not wanted once, each by its UID; and in the end the pod is there if it is wanted, and gone if not.
func FuzzDecide(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		w := &world{t: t, dice: rand.New(rand.NewPCG(seed, 2)), now: now}
		for range 500 {
			w.turn()
		}
		for _, w.wanted = range []bool{true, false} { // the world comes to rest
			w.fresh = true
			for range 20 {
				w.now = w.now.Add(lastRest)
				if w.pod != nil && w.pod.DeletionTimestamp != nil {
					w.pod = nil
				}
				w.watched = w.pod
				w.decide()
			}
			require.Equal(t, w.wanted, w.pod != nil && w.pod.DeletionTimestamp == nil && !w.pod.Over && !w.unwanted)
		}
	})
}

// TestRest: a node whose pods die at once gets them less and less often, and one that has lived a while at once.
func TestRest(t *testing.T) {
	var m memory
	at := now
	life := func(uid string, lived time.Duration) time.Duration {
		m.see(testPod(uid, at.Add(-time.Hour)), true, at) // Kubernetes' clock is behind
		at = at.Add(lived)
		m.see(nil, true, at)
		return m.rest.Sub(at)
	}
	for n, want := range []time.Duration{1, 2, 4, 8} {
		assert.Equal(t, want*time.Second, life(fmt.Sprint(n), 3*time.Second))
	}
	assert.Equal(t, Trouble{Reason: lostPod, Note: "somebody has deleted the node's pod 3s after it was made"}, *m.died)
	assert.Negative(t, life("old", time.Hour))
	assert.Equal(t, time.Second, life("again", 0))

	// One that Slurm has not wanted in between was deleted for that.
	m.see(testPod("x", at), true, at)
	m.see(testPod("x", at), false, at)
	m.see(nil, true, at)
	assert.Negative(t, m.rest.Sub(at))
}

// TestSince: reasons that a pod has in turn are one trouble.
func TestSince(t *testing.T) {
	var m memory
	v := View{Known: true, Wanted: true, Elastic: true}
	step := func(at int, reason string) {
		s := Step{Starting: true}
		if reason != "" {
			s.Trouble = &Trouble{Reason: reason}
		}
		m.keep(s, v, now.Add(time.Duration(at)*time.Second))
	}
	step(0, "ErrImagePull")
	step(5, "ImagePullBackOff")
	step(7, "")
	assert.False(t, m.failing)
	step(9, "ErrImagePull")
	assert.Equal(t, Trouble{Reason: "ErrImagePull", Since: now}, *m.trouble)
	step(10, "CrashLoopBackOff")
	assert.Equal(t, now.Add(10*time.Second), m.trouble.Since)
	m.keep(Step{}, v, now)
	assert.Nil(t, m.trouble)
}

// TestSilentClusters: a cluster that was uninstalled has no troubles.
func TestSilentClusters(t *testing.T) {
	trouble := &Trouble{Reason: "ImagePullBackOff"}
	m := &Maker{
		nodes:    map[key]*memory{{"a", "one", "n"}: {trouble: trouble, failing: true}, {"a", "two", "n"}: {trouble: trouble, failing: true}},
		gates:    map[set]*gate{{"a", "one", "gpu"}: {}, {"a", "two", "gpu"}: {}},
		refusals: newRefusedSets(),
	}
	assert.Equal(t, map[string]int{"ImagePullBackOff": 2}, m.Failing())
	m.forgetAllBut([]string{"a/two"})
	assert.Equal(t, map[string]int{"ImagePullBackOff": 1}, m.Failing())
	assert.Len(t, m.gates, 1)
}

// TestTells: a slurmctld that names ever new sets neither fills the controller's memory nor keeps others' events.
func TestTells(t *testing.T) {
	all := newRefusedSets()
	nobody := func() corev1.ObjectReference { return corev1.ObjectReference{} }
	for n := range 10_000 {
		all.note(set{"a", "one", fmt.Sprint(n)}, Trouble{Reason: noTemplate}, nobody)
	}
	assert.Len(t, all.last, mostRefusals)
	assert.True(t, all.note(set{"a", "two", "gpu"}, Trouble{Reason: noTemplate}, nobody))
	all.forgetAllBut([]string{"a/two"})
	assert.Len(t, all.last, 1)
}
