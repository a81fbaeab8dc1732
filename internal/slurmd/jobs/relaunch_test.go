package jobs

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmd/spool"
)

func (m *staleCluster) ReleaseJob(_ context.Context, job *slurm.Job) error {
	return m.tell("release %s", job.JobID())
}

func (m *staleCluster) ReinstateNode(_ context.Context, node string) error {
	return m.tell("resume %s", node)
}

// TestRefusedLaunch: the whole line must be slurmd's, because a job may write into the log what it likes.
func TestRefusedLaunch(t *testing.T) {
	const said = " already running, do not launch second copy"
	for text, job := range map[string]string{
		"Job 12" + said:                           "12",
		"JobId=12" + said:                         "12",
		"JobId=12 SLUID=sAXHM866SPGX00" + said:    "12",
		"JobId=12 already running, do not launch": "",
		"x JobId=12" + said:                       "",
		"JobId=12" + said + " x":                  "",
		"JobId=" + said:                           "",
		"JobId=12 StepId=0" + said:                "",
		"slurmd started":                          "",
	} {
		assert.Equal(t, job, refusedLaunch(process.Line{Level: slog.LevelError, Text: text}), text)
		assert.Empty(t, refusedLaunch(process.Line{Level: slog.LevelInfo, Text: text}), text)
	}
}

// TestRefusedLaunchIsKept, and no other line.
func TestRefusedLaunchIsKept(t *testing.T) {
	r := newRelaunches(t, &staleCluster{})
	assert.True(t, r.Heard(process.Line{Level: slog.LevelError, Text: "JobId=3 already running, do not launch second copy"}))
	assert.False(t, r.Heard(process.Line{Level: slog.LevelError, Text: "slurmd started"}))
	assert.Len(t, r.all(), 1)
}

func TestMendLaunch(t *testing.T) {
	job := func(change ...func(*slurm.Job)) []slurm.Job {
		j := slurm.Job{ID: 3, State: []string{"PENDING"}, Batch: true, Requeue: true, Held: true, Reason: whyHeld}
		for _, c := range change {
			c(&j)
		}
		return []slurm.Job{j}
	}
	state := func(states ...string) func(*slurm.Job) {
		return func(j *slurm.Job) { j.State, j.Held, j.Reason = states, false, "" }
	}
	on := func(node string) func(*slurm.Job) { return func(j *slurm.Job) { j.BatchHost = node } }
	drained := record(reasons.DuplicateJob, "IDLE", "DRAIN")
	const old = 2 * refusalTime
	for name, c := range map[string]struct {
		jobs []slurm.Job
		node *slurm.Node
		ago  time.Duration
		told []string
		err  string
	}{
		"held":                      {jobs: job(), node: drained, told: []string{"release 3", "resume n1"}},
		"held, and ending here":     {jobs: job(func(j *slurm.Job) { j.State = append(j.State, "COMPLETING") }), node: drained, told: []string{"release 3", "resume n1"}},
		"another job runs here":     {jobs: job(), node: record(reasons.DuplicateJob, "MIXED", "DRAIN"), told: []string{"release 3", "resume n1"}},
		"held by an admin":          {jobs: job(func(j *slurm.Job) { j.Reason = "" }), node: drained, told: []string{"resume n1"}},
		"held for its requeues":     {jobs: job(func(j *slurm.Job) { j.Reason = "launch failure limit exceeded requeued held" }), node: drained, told: []string{"resume n1"}},
		"released already":          {jobs: job(func(j *slurm.Job) { j.Held = false }), node: drained, told: []string{"resume n1"}},
		"cancelled":                 {jobs: job(state("CANCELLED")), node: drained, told: []string{"resume n1"}},
		"known no more":             {node: drained, told: []string{"resume n1"}},
		"begun elsewhere":           {jobs: job(state("RUNNING"), on("n2")), node: drained, told: []string{"resume n1"}},
		"not requeued yet":          {jobs: job(state("RUNNING"), on("n1")), node: record("", "ALLOCATED"), err: "slurmctld has not requeued job 3 yet"},
		"begun here since":          {jobs: job(state("RUNNING"), on("n1")), node: drained, ago: old, told: []string{"resume n1"}},
		"not drained yet":           {jobs: job(), node: record("", "IDLE"), told: []string{"release 3"}, err: "slurmctld has not drained the node yet"},
		"not drained for a while":   {jobs: job(), node: record("", "IDLE"), ago: old, told: []string{"release 3"}},
		"drained by an admin":       {jobs: job(), node: record("bad disk", "IDLE", "DRAIN"), told: []string{"release 3"}},
		"an admin has added to it":  {jobs: job(), node: record("Duplicate jobid, and a bad disk", "IDLE", "DRAIN"), told: []string{"release 3"}},
		"about to be suspended":     {jobs: job(), node: record(reasons.DuplicateJob, "IDLE", "CLOUD", "DRAIN", "POWER_DOWN"), told: []string{"release 3"}},
		"an old reason, no drain":   {jobs: job(), node: record(reasons.DuplicateJob, "IDLE"), ago: old, told: []string{"release 3"}},
		"the record has been taken": {jobs: job(), told: []string{"release 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &staleCluster{jobs: c.jobs, node: c.node}
			r := newRelaunches(t, m)
			r.at = map[string]time.Time{"3": time.Now().Add(-c.ago)}
			err := r.Mend(t.Context())
			assert.Equal(t, c.told, m.told)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				assert.NotEmpty(t, r.all())
				return
			}
			require.NoError(t, err)
			assert.Empty(t, r.all())
		})
	}
}

// TestMendLaunchWithoutAnAnswer: silence lifts nothing, and forgets nothing.
func TestMendLaunchWithoutAnAnswer(t *testing.T) {
	m := &staleCluster{ward: ward{err: slurm.ErrUnreachable}, node: record(reasons.DuplicateJob, "IDLE", "DRAIN")}
	r := newRelaunches(t, m)
	r.add("3")
	require.ErrorIs(t, r.Mend(t.Context()), slurm.ErrUnreachable)
	r.ReleaseLast(t.Context())
	assert.Empty(t, m.told)
	assert.Len(t, r.all(), 1)
}

// TestReleaseLast: a node that goes leaves no job held.
func TestReleaseLast(t *testing.T) {
	m := &staleCluster{jobs: []slurm.Job{{ID: 3, State: []string{"PENDING"}, Held: true, Reason: whyHeld}}}
	r := newRelaunches(t, m)
	r.add("3")
	r.ReleaseLast(t.Context())
	assert.Equal(t, []string{"release 3"}, m.told)
}

// TestRelaunchesThatCameMeanwhile are not dropped with those that are known.
func TestRelaunchesThatCameMeanwhile(t *testing.T) {
	var r Relaunches
	r.add("3")
	r.add("4")
	known := r.all()
	r.add("4")
	r.add("5")
	r.drop(known)
	all := r.all()
	assert.NotContains(t, all, "3")
	assert.Contains(t, all, "4")
	assert.Contains(t, all, "5")
}

// TestRefusedLaunchOutlivesTheAgent: the next container's agent releases the job that this one could not release.
func TestRefusedLaunchOutlivesTheAgent(t *testing.T) {
	n := newNode(t, nil)
	n.Spool = spool.New(filepath.Join(t.TempDir(), "spool"), "n1")
	path := filepath.Join(n.Spool.Path(), refusedFile)
	load := func() *Relaunches {
		r := &Relaunches{Node: &n}
		r.Load()
		return r
	}
	former := load()
	former.add("3") // slurmd has not made the directory
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o755))
	former.add("4")
	next := load()
	assert.Equal(t, []string{"3", "4"}, slices.Sorted(maps.Keys(next.all())))
	assert.WithinDuration(t, time.Now(), next.all()["4"], time.Minute)
	next.drop(next.all())
	assert.NoFileExists(t, path)
	assert.Empty(t, load().all())
	require.NoError(t, os.WriteFile(path, []byte("what?"), 0o600))
	assert.Empty(t, load().all())
}

func newRelaunches(t *testing.T, client slurm.Client) *Relaunches {
	n := newNode(t, client)
	return &Relaunches{Node: &n, Resume: func(ctx context.Context) error { return client.ReinstateNode(ctx, n.Name) }}
}
