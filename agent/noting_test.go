package agent

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

func (r *roll) Nodes(context.Context) ([]slurm.Node, error) {
	r.asked++
	if r.mute {
		return nil, slurm.ErrUnreachable
	}
	return r.nodes, nil
}

func TestForesee(t *testing.T) {
	ready := Status{State: Ready, Conf: &ConfStatus{}}
	reloading := Status{State: Ready, Conf: &ConfStatus{Doing: string(spreading)}}
	for name, c := range map[string]struct {
		status Status
		events int
		later  time.Duration // the check comes
		before int           // questions before the check
		after  int           // and with it
	}{
		"an edit":                           {status: ready, events: 1, before: 1, after: 1},
		"many changes make one edit":        {status: ready, events: 9, before: 1, after: 1},
		"a forced reload comes unforeseen":  {status: ready, after: 1},
		"an edit that went on for too long": {status: ready, events: 1, later: foresight, before: 1, after: 2},
		"an edit during a reload":           {status: reloading, events: 1, after: 1},
		"an edit before slurmctld is Ready": {status: Status{State: Starting, Conf: &ConfStatus{}}, events: 1, after: 1},
		"a pod without slurmctld":           {status: Status{State: Ready}, events: 1, after: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := &roll{}
			a := &Agent{client: r}
			a.status.Store(&c.status)
			for range c.events {
				a.foresee()
			}
			if n := a.conf.ahead.Load(); n != nil {
				n.starts()
				n.began = n.began.Add(-c.later)
			}
			assert.Equal(t, c.before, r.asked)
			a.foreseen().starts()
			assert.Equal(t, c.after, r.asked)
			a.foreseen().starts()
			assert.Equal(t, c.after+1, r.asked, "a noting is for one check")
		})
	}
}

func TestNoteStarts(t *testing.T) {
	node := func(name string, start int64, states ...string) slurm.Node {
		n := slurm.Node{Name: name, State: states}
		if start > 0 {
			n.SlurmdStart.Time = time.Unix(start, 0)
		}
		return n
	}
	a := &Agent{client: &roll{nodes: []slurm.Node{
		node("idle", 100, "IDLE"), node("drained", 101, "IDLE", "DRAIN"), node("never seen", 0, "UNKNOWN"), node("not heard of since slurmctld's start", 0, "IDLE"), node("silent", 102, "DOWN", "NOT_RESPONDING"),
		node("off", 103, "IDLE", "POWERED_DOWN"), node("coming up", 104, "IDLE", "POWERING_UP"), node("booting", 105, "IDLE", "REBOOT_ISSUED"),
	}}}
	assert.Equal(t, map[string]time.Time{"idle": time.Unix(100, 0), "drained": time.Unix(101, 0), "not heard of since slurmctld's start": {}}, a.noteStarts().starts())
}

// TestNoBaseline: a slurmctld that does not tell which slurmd each node has before the
// reconfigure has not told that there are no nodes.
func TestNoBaseline(t *testing.T) {
	r := &roll{mute: true}
	for i := range 100 {
		n := slurm.Node{Name: fmt.Sprintf("n%d", i), State: []string{"IDLE"}}
		n.SlurmdStart.Time = time.Unix(1000, 0)
		r.nodes = append(r.nodes, n)
	}
	a := &Agent{client: r}
	f, _ := serveFeed(t)
	a.conf.feed.port = f.port
	a.conf.starts, a.conf.since = a.noteStarts().starts(), time.Unix(2000, 0)
	r.mute = false
	answer := a.nodesTook(1, "")
	require.Zero(t, answer.took)
	require.Len(t, answer.missed, 100, "their slurmds are older than the reconfigure")
	for i := range r.nodes {
		r.nodes[i].SlurmdStart.Time = time.Unix(2000+int64(i)%2, 0)
	}
	answer = a.nodesTook(2, "")
	require.Equal(t, 100, answer.took, "their slurmds are as young as the reconfigure, or younger")
	require.Empty(t, answer.missed)
}
