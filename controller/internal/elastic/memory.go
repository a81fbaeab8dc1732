package elastic

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/internal/kit/backoff"
)

// memory is what a leader remembers of a node.
type memory struct {
	// made and deleted are pods of which the watch has not told yet, until settled.
	made, deleted types.UID
	settled       time.Time
	// unwanted is the last pod that was there while its node was not wanted.
	unwanted types.UID
	// seen is the last pod, since when this leader has seen it, and whether its end was expected. The pod's own time is
	// of another clock.
	seen     types.UID
	first    time.Time
	expected bool
	// deaths are those in a row of young pods, died what the last one died of, and rest the pause.
	deaths int
	died   *Trouble
	rest   time.Time
	// clashes are names that were taken.
	clashes int
	denial  denial
	// trouble is the last one, now or before, and failing says that it is now.
	trouble *Trouble
	failing bool
}

// memory finds or makes a node's. The caller holds mu.
func (m *Maker) memory(k key) *memory {
	mem := m.nodes[k]
	if mem == nil {
		mem = &memory{}
		m.nodes[k] = mem
	}
	return mem
}

// see takes what the watch tells of the node's pod now.
func (m *memory) see(p *pods.Pod, wanted bool, now time.Time) {
	if !now.Before(m.settled) {
		m.made, m.deleted = "", ""
	}
	if m.seen != "" && (p == nil || p.UID != m.seen) {
		m.gone(wanted, now)
	}
	if p == nil {
		return
	}
	if m.made != "" {
		m.made = "" // the watch tells of this pod, or of a later one
	}
	if m.seen == "" {
		m.seen, m.first, m.expected, m.clashes = p.UID, now, false, 0
	}
	if m.deleted == p.UID && p.DeletionTimestamp != nil {
		m.deleted = ""
	}
	switch {
	case p.Over && p.NotRunning != nil:
		m.died = &Trouble{p.NotRunning.Reason, p.NotRunning.Note, p.NotRunning.Since}
	case !wanted:
		m.expected = true
	}
}

// unwant: slurmctld does not want the node. It will take no slurmd of the present pod again.
func (m *memory) unwant(p *pods.Pod) {
	switch {
	case p != nil:
		m.unwanted = p.UID
	case m.made != "":
		m.unwanted = m.made
	}
}

// gone: the last pod has vanished.
func (m *memory) gone(wanted bool, now time.Time) {
	age := now.Sub(m.first)
	m.seen = ""
	if !wanted || m.expected || age >= young {
		m.deaths, m.died, m.rest = 0, nil, time.Time{}
		return
	}
	m.deaths++
	m.rest = now.Add(backoff.Grow(firstRest, m.deaths-1, lastRest))
	if m.died == nil {
		m.died = &Trouble{Reason: lostPod, Note: fmt.Sprintf("somebody has deleted the node's pod %v after it was made", age.Round(time.Second))}
	}
}

// view is the pod as Decide takes it.
func (m *memory) view(p *pods.Pod, k key) *Pod {
	if p == nil {
		return nil
	}
	return &Pod{
		UID: p.UID, Elastic: p.Elastic.Value() != "" && p.Label.Value() == k.cluster, Ending: p.DeletionTimestamp != nil, Over: p.Over, Ready: p.Ready,
		Deleted: m.deleted == p.UID, Unwanted: m.unwanted == p.UID, NotRunning: p.NotRunning,
	}
}

// keep remembers the trouble, and since when there is one of its kind: a pod whose image cannot be pulled has two
// reasons in turn, and one that crashes runs in between.
func (m *memory) keep(s Step, v View, now time.Time) {
	switch {
	case !v.Known:
	case !s.Starting:
		m.trouble, m.failing = nil, false
	case s.Trouble == nil:
		m.failing = false
	default:
		t := *s.Trouble
		if t.Since.IsZero() || t.Since.After(now) {
			t.Since = now
		}
		if m.trouble != nil && kind(m.trouble.Reason) == kind(t.Reason) && m.trouble.Since.Before(t.Since) {
			t.Since = m.trouble.Since
		}
		m.trouble, m.failing = &t, true
	}
}

// kind is the same for reasons that a pod has in turn.
func kind(reason string) string {
	if reason == "ErrImagePull" {
		return "ImagePullBackOff"
	}
	return reason
}

// forgotten: there is nothing to remember.
func (m *memory) forgotten(v View) bool {
	return v.Known && (!v.Elastic || !v.Wanted && v.Pod == nil && m.made == "" && m.deleted == "")
}
