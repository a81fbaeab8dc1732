package record

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd/jobs"
	"github.com/slurmlet/slurmlet/internal/slurmd/spool"
)

// glanced is a slurmctld that tells of one node cheaply, and of all at their cost.
type glanced struct {
	slurm.Client
	jobs         []slurm.Job
	err          error
	brief, whole *slurm.Node
	later        *slurm.Node // brief, from the second question on
	asked        []string
}

func (g *glanced) Glance(context.Context, string) (*slurm.Node, error) {
	g.asked = append(g.asked, "one")
	node := g.brief
	if g.later != nil {
		g.brief = g.later
	}
	return node, nil
}

func (g *glanced) WholeNode(context.Context, string) (*slurm.Node, error) {
	g.asked = append(g.asked, "all")
	return g.whole, nil
}

func (g *glanced) Job(_ context.Context, id string) (*slurm.Job, error) {
	g.asked = append(g.asked, "job "+id)
	for i := range g.jobs {
		if strconv.FormatInt(g.jobs[i].ID, 10) == id {
			return &g.jobs[i], g.err
		}
	}
	return nil, g.err
}

func (g *glanced) Completing(_ context.Context, ids []string) (map[string]bool, error) {
	g.asked = append(g.asked, "state of "+strings.Join(ids, ","))
	return map[string]bool{"5": len(g.jobs) > 0 && g.jobs[0].Completing()}, g.err
}

func (g *glanced) JobsOn(context.Context, string) (ids []string, _ error) {
	g.asked = append(g.asked, "jobs")
	for _, j := range g.jobs {
		ids = append(ids, strconv.FormatInt(j.ID, 10))
	}
	return ids, nil
}

// TestDoubtfulNode: what is asked about a node on its way down that is MIXED for sinfo.
func TestDoubtfulNode(t *testing.T) {
	job := func(state string) []slurm.Job { return []slurm.Job{{ID: 5, State: []string{state}}} }
	for name, c := range map[string]struct {
		states   []string
		later    []string // when the record is asked for again
		need     node.Need
		step     string // a socket in the spool directory
		known    []string
		jobs     []slurm.Job
		fault    error
		asked    []string
		doubtful bool
		told     int
		// elsewhere: so many jobs are told as ending on other nodes. left: these have left before SIGTERM.
		elsewhere int
		left      []string
	}{
		"MIXED, without a step":            {states: []string{"MIXED"}, asked: []string{"one"}, doubtful: true},
		"MIXED, after a job of ours":       {states: []string{"MIXED"}, known: []string{"5"}, jobs: job("COMPLETED"), asked: []string{"one", "job 5"}, doubtful: true},
		"MIXED, a job of ours goes on":     {states: []string{"MIXED"}, known: []string{"5"}, jobs: job("RUNNING"), asked: []string{"one", "job 5"}, told: 1},
		"MIXED, a job of ours is held":     {states: []string{"MIXED"}, known: []string{"5"}, jobs: job("SUSPENDED"), asked: []string{"one", "job 5"}, told: 1},
		"MIXED, and no answer about a job": {states: []string{"MIXED"}, known: []string{"5"}, fault: slurm.ErrUnreachable, asked: []string{"one", "job 5"}},
		"MIXED, and jobs hold it":          {states: []string{"MIXED"}, need: node.Need{Jobs: true}, jobs: job("RUNNING"), asked: []string{"one", "jobs", "job 5"}, doubtful: true, told: 1},
		"MIXED, with a step":               {states: []string{"MIXED"}, step: "5.0", jobs: job("RUNNING"), asked: []string{"one", "job 5"}, told: 1},
		"ALLOCATED, after a job of ours":   {states: []string{"ALLOCATED"}, known: []string{"5"}, jobs: job("RUNNING"), asked: []string{"one", "job 5"}, told: 1},
		"ALLOCATED, our job is just over":  {states: []string{"ALLOCATED"}, later: []string{"IDLE"}, known: []string{"5"}, jobs: job("COMPLETED"), asked: []string{"one", "job 5", "one"}},
		"ALLOCATED, by another job":        {states: []string{"ALLOCATED"}, known: []string{"5"}, jobs: job("COMPLETED"), asked: []string{"one", "job 5", "one", "jobs", "job 5"}, told: 1},
		"MIXED and COMPLETING":             {states: []string{"MIXED", "COMPLETING"}, known: []string{"5"}, jobs: job("COMPLETING"), asked: []string{"one", "job 5"}, told: 1},
		"MIXED and RESERVED":               {states: []string{"MIXED", "RESERVED"}, asked: []string{"one"}, doubtful: true},
		"IDLE":                             {states: []string{"IDLE"}, asked: []string{"one"}},
		"IDLE, a job of ours has ended":    {states: []string{"IDLE"}, step: "5.0", jobs: job("COMPLETED"), asked: []string{"one", "job 5"}},
		"IDLE, a job of ours is suspended": {states: []string{"IDLE"}, step: "5.0", jobs: job("SUSPENDED"), asked: []string{"one", "job 5", "job 5"}, told: 1},
		"IDLE, our job ends elsewhere":     {states: []string{"IDLE"}, known: []string{"5"}, jobs: job("COMPLETING"), asked: []string{"one", "job 5"}, elsewhere: 1},
		"IDLE, it has left before SIGTERM": {states: []string{"IDLE"}, left: []string{"5.0", "5.extern"}, jobs: job("COMPLETING"), asked: []string{"one", "job 5"}, elsewhere: 1},
		"MIXED, our job ends elsewhere":    {states: []string{"MIXED"}, left: []string{"5.0"}, jobs: job("COMPLETING"), asked: []string{"one", "job 5"}, doubtful: true, elsewhere: 1},
		"IDLE, and no answer about a job":  {states: []string{"IDLE"}, known: []string{"5"}, fault: slurm.ErrUnreachable, asked: []string{"one", "job 5"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := &glanced{brief: nodeRecord(c.states...), whole: nodeRecord("IDLE")}
			g.jobs, g.err = c.jobs, c.fault
			if c.later != nil {
				g.later = nodeRecord(c.later...)
			}
			r := newRecord(t, g)
			r.Add(c.known)
			for _, step := range c.left {
				r.Leave(step, time.Now())
			}
			if c.step != "" {
				listening(t, r.Spool.Socket(c.step))
			}
			e, is := r.AskJobs(t.Context(), node.AskJobs{Number: 1, Need: c.need}).(node.Answered)
			require.True(t, is)
			if !e.Node.Busy() { // else the jobs are only shown
				require.ErrorIs(t, e.Err, c.fault)
			}
			require.Equal(t, c.asked, g.asked)
			require.Equal(t, c.doubtful, e.Doubtful)
			require.Len(t, e.Jobs, c.told)
			require.Len(t, e.Elsewhere, c.elsewhere)
		})
	}
}

// TestEndingElsewhere: a job that ends on other nodes is asked for once as a whole, and then for its state alone.
func TestEndingElsewhere(t *testing.T) {
	g := &glanced{}
	g.jobs = []slurm.Job{{ID: 5, State: []string{"COMPLETED", "COMPLETING"}}}
	r := newRecord(t, g)
	r.Leave("5.0", time.Now())
	look := func(want int, asked ...string) {
		t.Helper()
		jobs, err := r.EndingElsewhere(t.Context())
		require.NoError(t, err)
		require.Len(t, jobs, want)
		require.Equal(t, asked, g.asked)
		g.asked = nil
	}
	look(1, "job 5")
	look(1, "state of 5")
	g.err = slurm.ErrUnreachable
	_, err := r.EndingElsewhere(t.Context())
	require.ErrorIs(t, err, slurm.ErrUnreachable)
	g.err, g.asked = nil, nil
	look(1, "state of 5")
	g.jobs[0].State = []string{"COMPLETED"}
	look(0, "state of 5")
	look(0)
	r.Begin() // it has begun anew, and that was before
	g.jobs[0].State = []string{"COMPLETING"}
	look(1, "job 5")
	r.Begin()
	look(1, "state of 5")
}

// TestHoldersInService: what a node asks while it serves is not asked again on its way down.
func TestHoldersInService(t *testing.T) {
	g := &glanced{}
	g.jobs = []slurm.Job{{ID: 5, State: []string{"RUNNING"}}}
	r := newRecord(t, g)
	_, err := r.Here(t.Context())
	require.NoError(t, err)
	require.Empty(t, r.Add(nil))
}

// newRecord is that of a node whose spool directory is empty, without slurmctld's agent.
func newRecord(t *testing.T, client slurm.Client) *Record {
	log := func(slog.Level, string, ...slog.Attr) {}
	return &Record{
		Holders: &jobs.Holders{
			Node: jobs.Node{
				Name: "n1", Slurm: &slurm.Questions{Client: client, Least: node.QuestionLimit, Log: log},
				Spool: spool.New(t.TempDir(), "n1"), Log: log,
			},
			SackdSpeaks: func() bool { return false },
		},
		Main:    func() *process.Process { return nil },
		Recount: func(ctx context.Context, direct func(context.Context) error) error { return direct(ctx) },
	}
}

// nodeRecord is a record in these states.
func nodeRecord(states ...string) *slurm.Node { return &slurm.Node{Name: "n1", State: states} }

func listening(t *testing.T, path string) {
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
}
