package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd/spool"
)

// counter is a slurmctld that counts how often all jobs were looked through.
type counter struct {
	slurm.Client
	node  slurm.Node
	looks int
}

func (c *counter) Glance(context.Context, string) (*slurm.Node, error) { return &c.node, nil }
func (c *counter) Job(_ context.Context, id string) (*slurm.Job, error) {
	return &slurm.Job{ID: 4, State: []string{"COMPLETED"}}, nil
}
func (c *counter) JobsOn(context.Context, string) ([]string, error) { c.looks++; return nil, nil }

// TestLastJobEnds: the last job ends between two questions. What slurmctld says of the node then may be old.
func TestLastJobEnds(t *testing.T) {
	for name, c := range map[string]struct {
		state []string
		sure  bool
		looks int
	}{
		"it may be idle":                  {[]string{"MIXED", "DRAIN"}, false, 0},
		"so the deletion was refused":     {[]string{"MIXED", "DRAIN"}, true, 1},
		"it is idle":                      {[]string{"IDLE", "DRAIN"}, true, 0},
		"another job has all of its CPUs": {[]string{"ALLOCATED", "DRAIN"}, false, 1},
		"another job ends":                {[]string{"MIXED", "COMPLETING"}, false, 1},
		"a reservation has it, too":       {[]string{"MIXED", "RESERVED"}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			client := &counter{node: slurm.Node{State: c.state}}
			h := newHolders(t, client)
			h.Add([]string{"4"})
			before := &slurm.Node{State: []string{"MIXED", "COMPLETING"}}
			jobs, _, err := h.Holding(t.Context(), before, nil, c.sure)
			require.NoError(t, err)
			assert.Empty(t, jobs)
			assert.Equal(t, c.looks, client.looks)
		})
	}
}

// TestRemembered: the jobs that have left lately are few, and none of one node is asked for twice.
func TestRemembered(t *testing.T) {
	var h Holders
	now := time.Now()
	h.Leave("1.0", now.Add(-remembered-time.Second))
	h.Leave("2.batch", now.Add(-remembered))
	h.Leave("3.0", now)
	h.Leave("3.extern", now)
	h.Leave("of no step", now)
	assert.Equal(t, []string{"2", "3"}, h.Recent(now))
	h.Add([]string{"4", "3"})
	assert.Equal(t, []string{"2", "3", "4"}, h.wide(now))

	h.note("2", &slurm.Job{Nodes: 1, State: []string{"RUNNING"}})
	h.note("3", &slurm.Job{Nodes: 1, State: []string{"COMPLETED", "COMPLETING"}})
	h.note("4", &slurm.Job{Nodes: 2, State: []string{"RUNNING"}})
	h.note("5", nil)
	assert.Equal(t, []string{"3", "4"}, h.wide(now), "one that is being ended has no other nodes than those")
	assert.Len(t, h.local, 1, "of other jobs it keeps nothing")
	h.note("4", nil)
	assert.Equal(t, []string{"3"}, h.wide(now))

	for i := range 2 * mostRemembered {
		h.Leave(fmt.Sprintf("%d.0", 100+i), now)
	}
	assert.Len(t, h.Recent(now), mostRemembered)
	assert.Contains(t, h.Recent(now), "131")
	assert.Equal(t, map[string]bool{"4": true}, h.local)
}

// newHolders are those of node n1, whose spool directory is empty.
func newHolders(t *testing.T, client slurm.Client) *Holders {
	return &Holders{Node: newNode(t, client), SackdSpeaks: func() bool { return false }}
}

func newNode(t *testing.T, client slurm.Client) Node {
	log := func(slog.Level, string, ...slog.Attr) {}
	return Node{
		Name: "n1", Slurm: &slurm.Questions{Client: client, Least: 15 * time.Second, Log: log},
		Spool: spool.New(t.TempDir(), "n1"), Log: log,
	}
}
