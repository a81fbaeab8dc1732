package slurmd

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd/jobs"
	"github.com/slurmlet/slurmlet/internal/slurmd/spool"
)

// holding is a slurmctld that holds job 3, because its launch was refused. It keeps what it is asked to do.
type holding struct {
	slurm.Client
	asked []string
}

func (h *holding) Job(context.Context, string) (*slurm.Job, error) {
	return &slurm.Job{ID: 3, State: []string{"PENDING"}, Held: true, Reason: "launch failed requeued held"}, nil
}

func (h *holding) ReleaseJob(_ context.Context, job *slurm.Job) error {
	h.asked = append(h.asked, "release "+job.JobID())
	return nil
}

func (h *holding) Make(_ context.Context, verb node.Verb, reason, _ string) error {
	h.asked = append(h.asked, fmt.Sprint("change ", verb, " ", reason))
	return nil
}

func (h *holding) Recount(ctx context.Context, direct func(context.Context) error) error {
	return direct(ctx)
}

// TestReleaseLast: a node that goes leaves no job held.
func TestReleaseLast(t *testing.T) {
	h := &holding{}
	log := func(slog.Level, string, ...slog.Attr) {}
	events := make(chan lifecycle.Event, 1)
	base := jobs.Node{Name: "n1", Slurm: &slurm.Questions{Client: h, Least: time.Minute, Log: log}, Spool: spool.New(t.TempDir(), "n1"), Log: log}
	n := &Node{
		Options:    Options{Changes: h, Post: func(e lifecycle.Event) { events <- e }, Log: log},
		relaunches: &jobs.Relaunches{Node: &base},
	}
	n.Heard(process.Line{Level: slog.LevelError, Text: "JobId=3 already running, do not launch second copy"})
	assert.Equal(t, node.LaunchRefused{}, <-events)
	require.NoError(t, n.change(t.Context(), node.Change{Verb: node.DrainNode, Reason: "x"}, ""))
	assert.Equal(t, []string{"release 3", fmt.Sprint("change ", node.DrainNode, " x")}, h.asked)
}

// TestNoNode: what other roles call does nothing there.
func TestNoNode(t *testing.T) {
	var n *Node
	n.Heard(process.Line{Level: slog.LevelError, Text: "JobId=3 already running, do not launch second copy"})
	n.Asked(t.Context())
	n.AtProbe()
	n.SetHangLimit(time.Second)
	n.IsReady()
	n.KillSteps()
	require.NoError(t, n.BeforeStart())
	assert.True(t, n.IsIdle())
	assert.Zero(t, n.CountSteps())
	assert.Nil(t, n.Usage())
	assert.Nil(t, n.Without())
	assert.Nil(t, n.Publish(lifecycle.State{}))
	assert.False(t, n.Relaunched())
}
