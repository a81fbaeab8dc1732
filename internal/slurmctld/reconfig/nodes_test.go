package reconfig

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// roll is a slurmctld that tells of its nodes, and how often it was asked.
type roll struct {
	slurm.Client
	nodes []slurm.Node
	asked int
	// mute: it gives no answer.
	mute bool
}

func (r *roll) Claims(context.Context) ([]slurm.Claim, error) { return nil, nil }

func (r *roll) Nodes(context.Context) ([]slurm.Node, error) {
	r.asked++
	if r.mute {
		return nil, slurm.ErrUnreachable
	}
	return r.nodes, nil
}

func TestPrefetch(t *testing.T) {
	for name, c := range map[string]struct {
		busy   bool
		events int
		later  time.Duration // the check comes
		before int           // questions before the check
		after  int           // and with it
	}{
		"an edit":                           {events: 1, before: 1, after: 1},
		"many changes make one edit":        {events: 9, before: 1, after: 1},
		"a reload by hand has no prefetch":  {after: 1},
		"an edit that went on for too long": {events: 1, later: headStart, before: 1, after: 2},
		"an edit that is not taken up now":  {busy: true, events: 1, after: 1},
	} {
		t.Run(name, func(t *testing.T) {
			slurmctld := &roll{}
			r := &Reloader{Options: Options{Client: slurmctld}}
			see(t, r, func(s *lifecycle.State) {
				s.Phase = supervisor.Ready
				if c.busy {
					s.Conf.Activity = conf.Spreading
				}
			})
			for range c.events {
				r.prefetch(t.Context())
			}
			if n := r.prefetched.Load(); n != nil {
				n.answer()
				n.asked = n.asked.Add(-c.later)
			}
			assert.Equal(t, c.before, slurmctld.asked)
			r.nodeStarts(t.Context()).answer()
			assert.Equal(t, c.after, slurmctld.asked)
			r.nodeStarts(t.Context()).answer()
			assert.Equal(t, c.after+1, slurmctld.asked, "a prefetch is for one check")
		})
	}
}

func TestNodeStarts(t *testing.T) {
	node := func(name string, start int64, states ...string) slurm.Node {
		n := slurm.Node{Name: name, State: states}
		if start > 0 {
			n.SlurmdStartAt = slurm.TimeOf(time.Unix(start, 0))
		}
		return n
	}
	r := &Reloader{Options: Options{Client: &roll{nodes: []slurm.Node{
		node("idle", 100, "IDLE"), node("drained", 101, "IDLE", "DRAIN"), node("never seen", 0, "UNKNOWN"), node("not heard of since slurmctld's start", 0, "IDLE"), node("silent", 102, "DOWN", "NOT_RESPONDING"),
		node("off", 103, "IDLE", "POWERED_DOWN"), node("coming up", 104, "IDLE", "POWERING_UP"), node("booting", 105, "IDLE", "REBOOT_ISSUED"),
	}}}}
	assert.Equal(t, map[string]time.Time{"idle": time.Unix(100, 0), "drained": time.Unix(101, 0), "not heard of since slurmctld's start": {}}, r.askStarts(t.Context()).answer())
}

// TestNoBaseline: a slurmctld that does not tell which slurmd each node has before the
// reconfigure has not told that there are no nodes.
func TestNoBaseline(t *testing.T) {
	slurmctld := &roll{mute: true}
	for i := range 100 {
		n := slurm.Node{Name: fmt.Sprintf("n%d", i), State: []string{"IDLE"}}
		n.SlurmdStartAt = slurm.TimeOf(time.Unix(1000, 0))
		slurmctld.nodes = append(slurmctld.nodes, n)
	}
	r := &Reloader{Options: Options{Client: slurmctld, Feed: listeners{}}}
	require.False(t, r.noteStarts(t.Context()))
	r.attempt.since = time.Unix(2000, 0)
	slurmctld.mute = false
	ask := func() conf.NodesAsked {
		return r.askNodes(t.Context(), conf.AskNodes{}).(conf.NodesAsked)
	}
	found := ask()
	require.NoError(t, found.Err)
	require.Zero(t, found.Took)
	require.Len(t, found.Missed, 100, "their slurmds are older than the reconfigure")
	for i := range slurmctld.nodes {
		slurmctld.nodes[i].SlurmdStartAt = slurm.TimeOf(time.Unix(2000+int64(i)%2, 0))
	}
	found = ask()
	require.NoError(t, found.Err)
	require.Equal(t, 100, found.Took, "their slurmds are as young as the reconfigure, or younger")
	require.Empty(t, found.Missed)
}

// listeners are the hosts whose agents listen.
type listeners map[string]bool

func (listeners) Hold()                                          {}
func (listeners) Announce(string)                                {}
func (listeners) Restart(string, map[string]bool, time.Duration) {}
func (l listeners) Hosts() map[string]bool                       { return l }

// TestRanked: slurmd is restarted first where its agent listens, and no jobs run.
func TestRanked(t *testing.T) {
	r := &Reloader{Options: Options{Feed: listeners{"127.0.0.1": true}}}
	got := r.ranked([]*slurm.Node{
		{Name: "a", State: []string{"IDLE"}, NodeDetail: &slurm.NodeDetail{Address: "10.0.0.1"}},
		{Name: "b", State: []string{"MIXED"}, NodeDetail: &slurm.NodeDetail{Address: "10.0.0.2"}},
		{Name: "c", State: []string{"ALLOCATED"}, NodeDetail: &slurm.NodeDetail{Address: "127.0.0.1"}},
		{Name: "d", State: []string{"IDLE"}, NodeDetail: &slurm.NodeDetail{Address: "127.0.0.1"}},
		{Name: "e", State: []string{"IDLE"}, NodeDetail: &slurm.NodeDetail{Address: "10.0.0.3"}},
	})
	require.Equal(t, []string{"d", "c", "a", "e", "b"}, got)
}
