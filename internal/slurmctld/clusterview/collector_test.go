package clusterview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// cluster answers as a recorded slurmctld did.
type cluster struct {
	answers map[string]string
	lock    sync.Mutex
	calls   []string
	// fault is every answer's, and wait is called before each.
	fault error
	wait  func(context.Context) error
	log   []string
}

func newCluster(t testing.TB, version string) *cluster {
	return &cluster{answers: map[string]string{
		"sdiag": recorded(t, "sdiag-"+version+".json"), "partitions": recorded(t, "partitions-"+version+".txt"), "reservations": recorded(t, "reservations-"+version+".txt"),
		"licenses": recorded(t, "licenses-"+version+".txt"), "nodes": recorded(t, "nodes-"+version+".txt"), "squeue": recorded(t, "jobs-"+version+".txt"),
		"states": recorded(t, "states-"+version+".json"),
	}}
}

func (c *cluster) stream(ctx context.Context, read func(io.Reader) error, program string, args ...string) error {
	what, mark := program, recordedMark
	switch {
	case program == "scontrol":
		what = args[len(args)-1]
	case strings.Contains(strings.Join(args, " "), "--only-job-state"):
		what = "states"
	case program == "squeue":
		mark = "\x1f" + strings.Split(args[len(args)-1], "\x1f")[len(jobFields)]
	}
	c.lock.Lock()
	c.calls = append(c.calls, what)
	fault, answer, wait := c.fault, strings.ReplaceAll(c.answers[what], recordedMark, mark), c.wait
	c.lock.Unlock()
	if wait != nil {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	if fault != nil {
		return fault
	}
	return read(strings.NewReader(answer))
}

func (c *cluster) count(what string) (n int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, call := range c.calls {
		if call == what {
			n++
		}
	}
	return n
}

func (c *cluster) set(change func()) {
	c.lock.Lock()
	defer c.lock.Unlock()
	change()
}

func (c *cluster) collector() *Collector {
	return New(Options{Stream: c.stream, Interval: 30 * time.Second, Timeout: func() time.Duration { return 10 * time.Second }, Log: func(l slog.Level, text string, attrs ...slog.Attr) {
		c.log = append(c.log, fmt.Sprint(l, " ", text))
	}})
}

func TestCollects(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			c := newCluster(t, version)
			v := c.collector().Get(t.Context(), 0)
			assert.True(t, v.Up())
			assert.Equal(t, "native", v.Cluster)
			assert.Len(t, v.Nodes, 7)
			assert.Len(t, v.Partitions, 6)
			assert.Len(t, v.Reservations, 2)
			assert.Len(t, v.Licenses, 2)
			assert.Greater(t, v.Jobs.Len(), 25)
			assert.NotNil(t, v.Scheduler)
			for family, r := range v.Readings {
				assert.WithinDuration(t, time.Now(), r.At, time.Minute, family)
			}
			for j := range v.Jobs.All() {
				assert.NotEmpty(t, j.State.Base(), j.Name)
			}
		})
	}
}

// TestNobodyAsks: a Collector asks nothing, and has no goroutine, until somebody asks.
func TestNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "26.05")
		collector := c.collector()
		time.Sleep(time.Hour)
		assert.Empty(t, c.calls)
		v := collector.Latest()
		assert.False(t, v.Up())
		assert.Empty(t, v.Readings)
	})
}

// TestOneForAll: a thousand who ask at once, and twenty who ask for an hour, cost one question in an
// interval.
func TestOneForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "26.05")
		c.wait = func(context.Context) error { time.Sleep(time.Second); return nil }
		collector := c.collector()
		var all sync.WaitGroup
		views := make([]*View, 1000)
		for i := range views {
			all.Go(func() { views[i] = collector.Get(t.Context(), 0) })
		}
		all.Wait()
		for _, v := range views {
			assert.Same(t, views[0], v)
		}
		assert.Equal(t, 1, c.count("squeue"))
		for range 20 {
			all.Go(func() {
				for range 360 {
					time.Sleep(10 * time.Second)
					collector.Get(t.Context(), 0)
				}
			})
		}
		all.Wait()
		assert.InDelta(t, 120, c.count("squeue"), 3)
	})
}

// TestSlowSlurmctld: a slurmctld that takes a minute to answer is asked in a third of the time.
func TestSlowSlurmctld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "26.05")
		collector := c.collector()
		asked := slices.DeleteFunc(slices.Clone(questions), func(q question) bool { return !collector.o.wants(q.family) })
		c.wait = func(context.Context) error { time.Sleep(time.Minute / time.Duration(len(asked)+1)); return nil } // +1: askJobs asks twice
		for began := time.Now(); time.Since(began) < 3*time.Hour; time.Sleep(time.Second) {
			collector.Get(t.Context(), 0)
		}
		assert.InDelta(t, 60, c.count("sdiag"), 5)
	})
}

// TestMaxAge: who is content with an older View has slurmctld asked less often, and nobody more
// often than in each interval.
func TestMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "26.05")
		collector := c.collector()
		first := collector.Get(t.Context(), 0)
		for _, step := range []struct {
			after, maxAge time.Duration
			same          bool
		}{{29 * time.Second, 0, true}, {21 * time.Second, time.Minute, true}, {0, 0, false}} {
			time.Sleep(step.after)
			assert.Equal(t, step.same, collector.Get(t.Context(), step.maxAge) == first, step)
		}
	})
}

// TestAway: the last values stay with their age, and slurmctld is asked one question at a time.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "26.05")
		collector := c.collector()
		first := collector.Get(t.Context(), 0)
		time.Sleep(time.Minute)
		c.set(func() { c.fault, c.calls = fmt.Errorf("sdiag: %w", slurm.ErrUnreachable), nil })
		for range 3 {
			v := collector.Get(t.Context(), 0)
			assert.False(t, v.Up())
			assert.Equal(t, first.Jobs.Len(), v.Jobs.Len())
			assert.Equal(t, first.Nodes, v.Nodes)
			assert.Equal(t, first.Scheduler, v.Scheduler)
			for family, r := range v.Readings {
				assert.Equal(t, first.Readings[family].At, r.At, family)
				assert.ErrorIs(t, r.Err, slurm.ErrUnreachable, family)
			}
			time.Sleep(time.Minute)
		}
		assert.Equal(t, []string{"sdiag", "sdiag", "sdiag"}, c.calls)
		c.set(func() { c.fault = nil })
		assert.True(t, collector.Get(t.Context(), 0).Up())
		assert.True(t, first.Up(), "nobody changes a View")
		assert.Equal(t, []string{"WARN cannot ask slurmctld about the cluster; the last values stay", "INFO slurmctld answers questions about the cluster again"}, c.log)
	})
}

// TestOneFamily: an answer of another shape is a fault of its family alone.
func TestOneFamily(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "26.05")
		collector := c.collector()
		first := collector.Get(t.Context(), 0)
		for family, what := range map[Family]string{FamilyNodes: "nodes", FamilyJobs: "squeue", FamilyScheduler: "sdiag", FamilyPartitions: "partitions"} {
			time.Sleep(time.Minute)
			good := c.answers[what]
			c.set(func() { c.answers[what] = "something else\n" })
			v := collector.Get(t.Context(), 0)
			for other, r := range v.Readings {
				assert.Equal(t, other == family, r.Err != nil, "%s as %s fails: %v", other, family, r.Err)
			}
			assert.False(t, v.Up())
			assert.Equal(t, first.Nodes, v.Nodes)
			assert.Equal(t, first.Jobs.Len(), v.Jobs.Len())
			c.set(func() { c.answers[what] = good })
		}
	})
}

// TestSlow: whoever asks waits no longer than they want, and each question has its time.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "26.05")
		c.wait = func(ctx context.Context) error {
			<-ctx.Done()
			return slurm.ErrUnreachable
		}
		collector := c.collector()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		v := collector.Get(ctx, 0)
		assert.Equal(t, 3*time.Second, time.Since(began))
		assert.False(t, v.Up())
		v = collector.Get(t.Context(), 0)
		assert.Equal(t, 10*time.Second, time.Since(began))
		assert.False(t, v.Up())
		assert.Zero(t, v.Readings[FamilyJobs].At)
	})
}

// TestFault: a fault of ours is an error of its family, and those who wait go on.
func TestFault(t *testing.T) {
	c := newCluster(t, "26.05")
	o := c.collector().o
	stream := o.Stream
	o.Stream = func(ctx context.Context, read func(io.Reader) error, program string, args ...string) error {
		if args[len(args)-1] == "licenses" {
			panic("oh")
		}
		return stream(ctx, read, program, args...)
	}
	v := New(o).Get(t.Context(), 0)
	require.ErrorContains(t, v.Readings[FamilyLicenses].Err, "slurmlet failed as it read the answer: oh")
	require.NoError(t, v.Readings[FamilyNodes].Err)
}

// TestManyFlags: of more jobs with flags than a command line should name, squeue is asked for all.
func TestManyFlags(t *testing.T) {
	for count, named := range map[int]bool{1: true, mostNamed: true, mostNamed + 1: false} {
		p := newPacker()
		for i := range count {
			p.add(&slurm.Job{ID: int64(i + 1), State: slurm.JobState{"COMPLETING"}})
		}
		var asked atomic.Bool
		o := Options{Stream: func(_ context.Context, read func(io.Reader) error, _ string, args ...string) error {
			assert.Equal(t, named, strings.Contains(strings.Join(args, " "), "--jobs=1"))
			asked.Store(true)
			return read(strings.NewReader(`{"jobs": [{"job_id": "1", "state": ["FAILED", "COMPLETING"]}]}`))
		}}
		require.NoError(t, settle(t.Context(), o, p))
		assert.True(t, asked.Load())
		assert.Equal(t, 1, p.jobs.Len())
		o.Stream = func(context.Context, func(io.Reader) error, string, ...string) error { return errors.New("no") }
		require.Error(t, settle(t.Context(), o, p), "the job still has a flag")
	}
}

// TestOnly: who needs only some families has slurmctld asked for nothing else.
func TestOnly(t *testing.T) {
	c := newCluster(t, "26.05")
	c.answers["states"] = "                 7  S\n            5_[2]  S\n              5_3  S\n             69+0  S\n"
	c.answers["squeue --jobs=5,69,7"] = "n[1-3]\nn3\n\nc-7\n"
	asked := []string{}
	stream := func(ctx context.Context, read func(io.Reader) error, program string, args ...string) error {
		asked = append(asked, program+" "+strings.Join(args, " "))
		if last := args[len(args)-1]; strings.HasPrefix(last, "--jobs=") {
			return read(strings.NewReader(c.answers["squeue "+last]))
		}
		return c.stream(ctx, read, program, args...)
	}
	o := c.collector().o
	o.Stream, o.Only, o.Interval = stream, []Family{FamilyNodes, FamilySuspended}, 0
	collector := New(o)
	v := collector.Get(t.Context(), 0)
	require.True(t, v.Up())
	require.Len(t, v.Readings, 2)
	require.Len(t, v.Nodes, 7)
	require.Equal(t, map[string]bool{"n1": true, "n2": true, "n3": true, "c-7": true}, v.Suspended)
	require.Equal(t, []string{
		"scontrol --all --detail --future --oneliner show nodes",
		"squeue --noheader --local --states=SUSPENDED --only-job-state",
		"squeue --noheader --all --local --states=SUSPENDED --format=%N --jobs=5,69,7",
	}, asked)

	for answer, want := range map[string]string{"squeue: something\n": "cannot read the job", "7 S\n": ""} {
		c.answers["states"], c.answers["squeue --jobs=7"] = answer, "n[1-\n"
		v := New(o).Get(t.Context(), 0)
		require.Error(t, v.Readings[FamilySuspended].Err)
		require.ErrorContains(t, v.Readings[FamilySuspended].Err, want)
	}
	c.answers["states"] = ""
	v = New(o).Get(t.Context(), 0)
	require.NoError(t, v.Readings[FamilySuspended].Err)
	require.Empty(t, v.Suspended)
}
