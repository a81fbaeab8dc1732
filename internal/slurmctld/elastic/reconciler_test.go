package elastic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic/planner"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// withSets has the directory of sets at dir.
func withSets(dir string) *Reconciler {
	return New(Options{
		Dir: dir, GresConf: filepath.Join(dir, "gres.conf"),
		QuestionLimit: func() time.Duration { return time.Minute }, PodsKnown: func() bool { return false },
		Report: func([]wire.NodeReport, time.Time) {}, Log: func(slog.Level, string, ...slog.Attr) {},
	})
}

// has says whether a set has a node.
func has(r *Reconciler, node string) bool {
	sets, _ := r.Current()
	_, found := sets.Of(node)
	return found
}

func TestElasticSetFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	r := withSets(dir)
	_, known := r.Current()
	require.False(t, known)
	require.True(t, r.readSets(), "no sets are known sets")
	write("gpu.json", `{"nodes":"g-[0-3]","cpuLimit":"4","memoryLimit":"16Gi","gres":"gpu:a100:2"}`)
	write("README", "not a set")
	write(".x.json", "{")
	require.True(t, r.readSets())
	require.False(t, r.readSets())
	assert.True(t, has(r, "g-3"))
	assert.False(t, has(r, "g-4"))
	gres, err := os.ReadFile(filepath.Join(dir, "gres.conf"))
	require.NoError(t, err)
	assert.Contains(t, string(gres), "NodeName=g-[0-3] Name=gpu Type=a100 File=/dev/nvidia[0-1]\n")

	write("gpu.json", `{"nodes":"g-[0-3]","cpuLimit":"many","memoryLimit":"16Gi"}`)
	require.False(t, r.readSets())
	assert.True(t, has(r, "g-3"))
	assert.Contains(t, r.Status().Fault, `gpu.json: cpuLimit: cannot use "many"`)
	require.NoError(t, os.RemoveAll(dir))
	require.False(t, r.readSets())
	assert.True(t, has(r, "g-3"), "a directory that is gone has no sets removed")
	assert.Contains(t, r.Status().Fault, "SLURMLET_ELASTIC_SETS")
}

// TestElasticHalves: one node that slurmctld refuses keeps no other one from its change, and silence is asked once.
func TestElasticHalves(t *testing.T) {
	r, commands := withSets(t.TempDir()), 0
	run := func(fault error) map[string]error {
		commands = 0
		var nodes []string
		for i := range 100 {
			nodes = append(nodes, fmt.Sprintf("n%d", i))
		}
		return r.each(t.Context(), nodes, mostHalves, func(_ context.Context, names string) error {
			commands++
			list, err := hostlist.Parse(names)
			require.NoError(t, err)
			if list.Contains("n7") {
				return fault
			}
			return nil
		})
	}
	said := run(errors.New("no"))
	assert.Len(t, said, 100)
	assert.Error(t, said["n7"])
	assert.NoError(t, said["n8"])
	assert.Less(t, commands, 20)
	said = run(slurm.ErrUnreachable)
	assert.Error(t, said["n8"])
	assert.Equal(t, 1, commands)
}

// creator is a slurmctld that makes records and does not show them.
type creator struct {
	slurm.Client
	made, down int
	version    string
}

func (c *creator) CreateNodes(context.Context, string, []string) error { c.made++; return nil }

func (c *creator) FailNode(context.Context, string, string) error     { c.down++; return nil }
func (c *creator) ResumeNode(context.Context, string) error           { return nil }
func (c *creator) UpdateNode(context.Context, string, []string) error { return nil }

func (c *creator) Config(context.Context) (slurm.Config, error) {
	return slurm.Config{"SLURM_VERSION": c.version, "ResumeTimeout": "600 sec"}, nil
}

// TestElasticStaleLook: a look from before a change tells nothing after it. A new record of 26.05 is not DOWN: a job may
// have got it at once.
func TestElasticStaleLook(t *testing.T) {
	for version, down := range map[string]int{"24.11.5": 1, "26.05.5": 0} {
		t.Run(version, func(t *testing.T) { staleLook(t, version, down) })
	}
}

func staleLook(t *testing.T, version string, down int) {
	r, client := withSets(t.TempDir()), &creator{version: version}
	r.Client = client
	r.Nodes = clusterview.New(clusterview.Options{
		Interval: time.Hour, Only: []clusterview.Family{clusterview.FamilyNodes, clusterview.FamilySuspended}, Log: func(slog.Level, string, ...slog.Attr) {},
		Timeout: func() time.Duration { return time.Minute },
		Stream:  func(context.Context, func(io.Reader) error, string, ...string) error { return nil },
	})
	require.NoError(t, os.WriteFile(filepath.Join(r.Dir, "c.json"), []byte(`{"nodes":"c-[0-3]","cpuLimit":"1","memoryLimit":"1Gi"}`), 0o644))
	r.readSets()
	for range 3 {
		r.round(t.Context())
		r.keeper = planner.NewKeeper() // which has pauses of its own
	}
	require.Equal(t, 1, client.made)
	require.Equal(t, down, client.down)
	require.True(t, r.due().Before(time.Now().Add(time.Second)), "it looks again soon")
}

// slow is a slurmctld that takes its time for each change.
type slow struct {
	creator
	changes []string
}

func (s *slow) UpdateNode(_ context.Context, names string, fields []string) error {
	s.changes = append(s.changes, names+" "+strings.Join(fields, " "))
	return nil
}

// TestElasticOldLook: once a look is old, the rest of its plan is not carried out.
func TestElasticOldLook(t *testing.T) {
	for name, age := range map[string]time.Duration{"young": 0, "old": youngLook + time.Second} {
		t.Run(name, func(t *testing.T) {
			r, client := withSets(t.TempDir()), &slow{}
			r.Client = client
			require.NoError(t, os.WriteFile(filepath.Join(r.Dir, "c.json"), []byte(`{"nodes":"c-[0-1]","min":1,"cpuLimit":"1","memoryLimit":"1Gi"}`), 0o644))
			r.readSets()
			sets, _ := r.Current()
			record := func(name, comment string) slurm.Node {
				return slurm.Node{Name: name, State: []string{"IDLE", "CLOUD", "DYNAMIC_NORM", "POWERED_DOWN"}, Weight: 1, Comment: comment}
			}
			size := "slurmlet set c: " + strings.TrimSuffix(sets.All[0].CreateParameters(false), " State=CLOUD")
			nodes := []slurm.Node{record("c-0", "slurmlet set d: "+strings.TrimPrefix(size, "slurmlet set c: ")), record("c-1", size)}
			r.act(t.Context(), &clusterview.View{Nodes: nodes, Readings: map[clusterview.Family]clusterview.Reading{clusterview.FamilyNodes: {At: time.Now().Add(-age)}}}, sets)
			require.Equal(t, "c-0 comment="+size, client.changes[0])
			require.Equal(t, age == 0, len(client.changes) > 1, "%q", client.changes)
			require.False(t, r.due().After(time.Now().Add(time.Second)), "it looks again")
		})
	}
}

// TestElasticRousedDuringALook: what somebody tells while slurmctld answers is looked at at once, and not a minute later.
func TestElasticRousedDuringALook(t *testing.T) {
	r := withSets(t.TempDir())
	r.Client = &creator{}
	var during func()
	r.Nodes = clusterview.New(clusterview.Options{
		Only: []clusterview.Family{clusterview.FamilyNodes, clusterview.FamilySuspended}, Log: func(slog.Level, string, ...slog.Attr) {},
		Timeout: func() time.Duration { return time.Minute },
		Stream:  func(context.Context, func(io.Reader) error, string, ...string) error { during(); return nil },
	})
	r.readSets()
	during = r.Wake
	r.Wake()
	r.round(t.Context())
	require.False(t, r.due().After(time.Now()), "it looks again")
	during = func() {}
	require.Eventually(t, func() bool {
		if !r.due().After(time.Now()) { // as run does: a look before its time may be older than the wish
			r.round(t.Context())
		}
		return r.due().After(time.Now().Add(usualLook / 2))
	}, time.Minute, time.Millisecond)
}

func TestServeElastic(t *testing.T) {
	r := withSets(t.TempDir())
	ask := func(query string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r.Serve(w, httptest.NewRequest(http.MethodGet, "/elastic"+query, nil))
		return w
	}
	assert.Equal(t, http.StatusServiceUnavailable, ask("").Code)
	assert.Equal(t, http.StatusBadRequest, ask("?after=x").Code)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	r.Serve(w, httptest.NewRequestWithContext(over, http.MethodGet, "/elastic?after=7", nil))
	assert.Equal(t, http.StatusServiceUnavailable, w.Code, "an agent that has just started does not say that there are no nodes")
	set := func(revision uint64, reports ...wire.NodeReport) {
		r.mu.Lock()
		r.status.Revision, r.elasticReports = revision, reports
		r.mu.Unlock()
		r.endWaits()
	}
	set(1)
	assert.Equal(t, "[]", strings.TrimSpace(ask("").Body.String()))
	answer := make(chan *httptest.ResponseRecorder)
	go func() { answer <- ask("?after=1") }()
	select {
	case <-answer:
		t.Fatal("nothing has changed")
	case <-time.After(50 * time.Millisecond):
	}
	set(2, wire.NodeReport{Name: "a-0", State: wire.Absent, Elastic: "a", Wanted: true})
	w = <-answer
	assert.Equal(t, "2", w.Header().Get(revisionHeader))
	assert.JSONEq(t, `[{"name":"a-0","state":"absent","elastic":"a","wanted":true}]`, w.Body.String())
}

// TestElasticFailuresGrowOld: what a controller that is away told last makes no node fail.
func TestElasticFailuresGrowOld(t *testing.T) {
	r := withSets(t.TempDir())
	assert.Empty(t, r.fails())
	r.PodsFailing(wire.Failing{Pods: []wire.Failure{{Nodes: "a-0", Reason: "ImagePullBackOff"}}})
	assert.Len(t, r.fails(), 1)
	for _, nodes := range []string{"a-[0-9999][0-99]", "a-["} {
		r.PodsFailing(wire.Failing{Pods: []wire.Failure{{Nodes: "a-1"}, {Nodes: nodes}}})
		assert.Equal(t, "a-0", r.fails()[0].Nodes, "an answer that cannot be used changes nothing")
	}
	r.failingAt = time.Now().Add(-failingAge - time.Second)
	assert.Empty(t, r.fails())
}
