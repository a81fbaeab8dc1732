package jobs

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmd/drains"
	"github.com/slurmlet/slurmlet/internal/slurmd/spool"
)

// staleCluster is a slurmctld that counts jobs on node n1.
type staleCluster struct {
	ward
	jobs []slurm.Job
	node *slurm.Node
	// steps are those of each job.
	steps []slurm.Step
	// new is a job that came before the node was drained.
	new int64
}

func (m *staleCluster) Job(_ context.Context, id string) (*slurm.Job, error) {
	for i := range m.jobs {
		if strconv.FormatInt(m.jobs[i].ID, 10) == id {
			return &m.jobs[i], m.err
		}
	}
	return nil, m.err
}

func (m *staleCluster) JobsOn(context.Context, string) (ids []string, _ error) {
	for _, j := range m.jobs {
		ids = append(ids, strconv.FormatInt(j.ID, 10))
	}
	if m.new != 0 {
		ids = append(ids, strconv.FormatInt(m.new, 10))
	}
	return ids, nil
}

func (m *staleCluster) Node(context.Context, string) (*slurm.Node, error) { return m.node, nil }
func (m *staleCluster) make(_ context.Context, verb node.Verb, reason, _ string) error {
	return m.tell("%s: %s", map[node.Verb]string{node.DrainNode: "drain", node.FailNode: "down"}[verb], reason)
}

// record is a node record in these states, drained for a reason.
func record(reason string, states ...string) *slurm.Node {
	return &slurm.Node{Name: "n1", State: states, Reason: reason}
}

func TestStaleJobs(t *testing.T) {
	booted := time.Unix(1000, 0)
	job := func(id int64, requeue bool, change ...func(*slurm.Job)) slurm.Job {
		j := slurm.Job{ID: id, State: []string{"RUNNING"}, Batch: true, BatchHost: "n1", Requeue: requeue, Start: slurm.TimeOf(time.Unix(990, 0))}
		for _, c := range change {
			c(&j)
		}
		return j
	}
	elsewhere := func(j *slurm.Job) { j.BatchHost = "n2" }
	allocation := func(j *slurm.Job) { j.Batch = false }
	restarted := func(j *slurm.Job) { j.Start = slurm.TimeOf(time.Unix(1001, 0)) }
	ending := func(j *slurm.Job) { j.State = []string{"CANCELLED", "COMPLETING"} }
	requeued := func(j *slurm.Job) { j.State, j.Start = []string{"PENDING", "COMPLETING"}, 9000 }
	const (
		drain   = "drain: " + reasons.Stale
		comment = "comment 4 slurmlet: the container of n1 ended, and the job may not be requeued"
		down    = "down: " + reasons.Stale
	)
	for name, c := range map[string]struct {
		jobs  []slurm.Job
		node  *slurm.Node
		steps []string // whose sockets were left, 3 and 4's batch steps unless given
		new   int64
		told  []string
	}{
		"may be requeued":                        {jobs: []slurm.Job{job(3, true)}, told: []string{"requeue 3"}},
		"may not":                                {jobs: []slurm.Job{job(4, false)}, told: []string{drain, comment, down}},
		"both kinds":                             {jobs: []slurm.Job{job(3, true), job(4, false)}, told: []string{"requeue 3", drain, comment, down}},
		"may not, drained by an agent":           {jobs: []slurm.Job{job(4, false)}, node: record(reasons.Stale, "IDLE", "DRAIN"), told: []string{comment, down}},
		"may not, drained by slurmctld":          {jobs: []slurm.Job{job(4, false)}, node: record("Low socket*core*thread count, Low CPUs", "IDLE", "DRAIN", "INVALID_REG"), told: []string{drain, comment, down}},
		"may not, drained by an admin":           {jobs: []slurm.Job{job(4, false)}, node: record("bad disk", "IDLE", "DRAIN")},
		"may not, and another job lives":         {jobs: []slurm.Job{job(4, false), job(5, false)}, told: []string{drain}},
		"may not, and another one has ended":     {jobs: []slurm.Job{job(4, false), job(5, true, ending)}, told: []string{drain, comment, down}},
		"may not, and a requeued one has ended":  {jobs: []slurm.Job{job(4, false), job(5, true, requeued)}, told: []string{drain, comment, down}},
		"may not, and one of now ends":           {jobs: []slurm.Job{job(4, false), job(5, true, ending, restarted)}, told: []string{drain}},
		"may not, and one ends whose steps live": {jobs: []slurm.Job{job(4, false), job(6, true, ending)}, told: []string{drain}},
		"may not, and a new job has come":        {jobs: []slurm.Job{job(4, false)}, new: 9, told: []string{drain}},
		"its script has not begun":               {jobs: []slurm.Job{job(3, true)}, steps: []string{}},
		"a step of a script elsewhere":           {jobs: []slurm.Job{job(3, true)}, steps: []string{"3.0"}},
		"a script elsewhere":                     {jobs: []slurm.Job{job(3, true, elsewhere)}},
		"an allocation":                          {jobs: []slurm.Job{job(3, true, allocation)}},
		"started anew, and to begin":             {jobs: []slurm.Job{job(3, true, restarted)}},
		"ending":                                 {jobs: []slurm.Job{job(3, true, ending)}},
		"known no more":                          {},
		"its script lives, whatever it has left": {jobs: []slurm.Job{job(6, true)}, steps: []string{"6" + spool.Batch}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.node == nil {
				c.node = record("", "MIXED")
			}
			if c.steps == nil {
				c.steps = []string{"3" + spool.Batch, "4" + spool.Batch, "4.0"}
			}
			m := &staleCluster{jobs: c.jobs, node: c.node, new: c.new}
			s := newStale(t, m)
			s.Inherited, s.Booted = c.steps, booted
			listening(t, s.Spool.Socket("6"+spool.Batch))
			require.NoError(t, s.End(t.Context()))
			assert.Equal(t, c.told, m.told)
		})
	}
}

// TestLostJobs: a job whose script slurmctld thinks to be here, and that never came.
func TestLostJobs(t *testing.T) {
	job := func(change ...func(*slurm.Job)) slurm.Job {
		j := slurm.Job{ID: 3, State: []string{"RUNNING"}, Batch: true, BatchHost: "n1", Start: slurm.TimeOf(time.Now().Add(-time.Minute))}
		for _, c := range change {
			c(&j)
		}
		return j
	}
	for name, c := range map[string]struct {
		job  slurm.Job
		lost []string
	}{
		"lost":                         {job(), []string{"3"}},
		"its script runs":              {job(func(j *slurm.Job) { j.ID = 6 }), nil},
		"it may be on its way":         {job(func(j *slurm.Job) { j.Start = slurm.TimeOf(time.Now()) }), nil},
		"its prolog runs":              {job(func(j *slurm.Job) { j.State = append(j.State, "CONFIGURING") }), nil},
		"its script is elsewhere":      {job(func(j *slurm.Job) { j.BatchHost = "n2" }), nil},
		"a part without a script":      {job(func(j *slurm.Job) { j.HetOffset = 1 }), nil},
		"an allocation has no script":  {job(func(j *slurm.Job) { j.Batch = false }), nil},
		"slurmctld is ending it":       {job(func(j *slurm.Job) { j.State = []string{"COMPLETED", "COMPLETING"} }), nil},
		"suspended before it was sent": {job(func(j *slurm.Job) { j.State = []string{"SUSPENDED"} }), []string{"3"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStale(t, &staleCluster{jobs: []slurm.Job{c.job}, node: record("", "MIXED")})
			listening(t, s.Spool.Socket("6"+spool.Batch))
			found := s.Find(t.Context(), 5)
			assert.Equal(t, node.LostJobsFound{Number: 5, Lost: c.lost}, found)
		})
	}
}

// TestForgottenJobs: where nodes are suspended, slurmctld does not miss a job that began before the node's boot.
func TestForgottenJobs(t *testing.T) {
	old := time.Now().Add(-time.Minute)
	job := func(id int64, requeue bool) slurm.Job {
		return slurm.Job{ID: id, State: []string{"RUNNING"}, Batch: true, BatchHost: "n1", Requeue: requeue, Start: slurm.TimeOf(old)}
	}
	const comment = "comment 3 slurmlet: the container of n1 ended, and the job may not be requeued"
	for name, c := range map[string]struct {
		job    slurm.Job
		booted time.Time
		steady bool // no node is suspended
		told   []string
	}{
		"may be requeued":                    {job: job(3, true), booted: time.Now(), told: []string{"requeue 3"}},
		"may not":                            {job: job(3, false), booted: time.Now(), told: []string{"drain: " + reasons.Stale, comment, "down: " + reasons.Stale}},
		"slurmctld misses it":                {job: job(3, true), booted: time.Now(), steady: true},
		"it began in this container":         {job: job(3, true), booted: old.Add(-time.Second)},
		"it began about with this container": {job: job(3, true), booted: old.Add(bootTime - time.Second)},
		"its script lives in this container": {job: job(6, true), booted: time.Now()},
	} {
		t.Run(name, func(t *testing.T) {
			m := &staleCluster{jobs: []slurm.Job{c.job}, node: record("", "MIXED")}
			s := newStale(t, m)
			s.Booted = c.booted
			s.savesPower.Store(!c.steady)
			listening(t, s.Spool.Socket("6"+spool.Batch))
			require.NoError(t, s.Find(t.Context(), 5).(node.LostJobsFound).Err)
			assert.Equal(t, c.told, m.told)
		})
	}
}

func TestStaleJobsWithoutAnAnswer(t *testing.T) {
	m := &staleCluster{ward: ward{err: slurm.ErrUnreachable}}
	s := newStale(t, m)
	s.Inherited = []string{"3" + spool.Batch}
	require.ErrorIs(t, s.End(t.Context()), slurm.ErrUnreachable)
	assert.Empty(t, m.told)
}

func listening(t *testing.T, path string) {
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
}

// TestFormerJobs: a new pod ends the batch jobs that began here before it did, with ten seconds for the clocks of two machines.
func TestFormerJobs(t *testing.T) {
	booted := time.Unix(1000, 0)
	job := func(id int64, before time.Duration, change ...func(*slurm.Job)) slurm.Job {
		j := slurm.Job{ID: id, State: []string{"RUNNING"}, Batch: true, Requeue: true, BatchHost: "n1", Start: slurm.TimeOf(booted.Add(-before))}
		for _, c := range change {
			c(&j)
		}
		return j
	}
	jobs := []slurm.Job{
		job(3, time.Minute), job(4, time.Second), job(5, -time.Minute),
		job(6, time.Minute, func(j *slurm.Job) { j.BatchHost = "n2" }),
		job(7, time.Minute, func(j *slurm.Job) { j.Batch = false }),
	}
	for _, first := range []bool{true, false} {
		s := newStale(t, &staleCluster{jobs: jobs})
		s.FirstHere, s.Booted = first, booted
		dead, err := s.staleJobs(t.Context())
		require.NoError(t, err)
		require.Len(t, dead, map[bool]int{true: 1}[first])
		if first {
			assert.EqualValues(t, 3, dead[0].ID)
		}
	}
}

func newStale(t *testing.T, m *staleCluster) *Stale {
	n := newNode(t, m)
	return &Stale{
		Holders: newHolders(t, m), Orphans: &Orphans{Node: &n}, Drains: &drains.Drains{Node: "n1", Slurm: n.Slurm, Make: m.make},
	}
}
