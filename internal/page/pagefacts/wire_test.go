package pagefacts

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func facts() Facts {
	return Facts{
		At: now, Followers: []string{"a", "b"}, FollowersUnknown: true,
		Agent: Agent{Version: "v1", State: "Ready", Since: now, Restarts: 2},
		Conf:  &reconfig.Status{Live: "x", History: []reconfig.Edit{{At: now, Outcome: reconfig.OutcomeLive, Files: []string{"slurm.conf"}}}},
		View: &clusterview.View{
			Cluster: "c", Version: "26.05.5",
			Nodes:      []slurm.Node{{Name: "a", State: []string{"IDLE"}, Partitions: []string{"all"}, CPUs: 4}, {Name: "b", State: []string{"DOWN", "DRAIN"}}},
			Partitions: []clusterview.Partition{{Name: "all", Default: true}},
			Jobs: clusterview.JobsOf(slurm.Job{ID: 1, Tasks: 1, Name: "x", User: "u", State: []string{"RUNNING"}, Start: 5, TimeLimit: time.Hour, Partitions: []string{"all"}},
				slurm.Job{ID: 2, Tasks: 1, Name: "y", User: "u", State: []string{"PENDING"}, Held: true}),
			Licenses: []clusterview.License{{Name: "l", Total: 1}},
			Readings: map[clusterview.Family]clusterview.Reading{
				clusterview.FamilyNodes: {At: now, Took: time.Second}, clusterview.FamilyJobs: {Err: errors.New("no answer")},
			},
		},
	}
}

// same compares facts; the jobs are packed.
func same(t *testing.T, want, got *Facts) {
	t.Helper()
	require.Equal(t, want.View.Jobs.Len(), got.View.Jobs.Len())
	for i := range want.View.Jobs.Len() {
		require.Equal(t, want.View.Jobs.Get(i), got.View.Jobs.Get(i))
	}
	a, b := *want.View, *got.View
	a.Jobs, b.Jobs = clusterview.Jobs{}, clusterview.Jobs{}
	require.Equal(t, a, b)
	c, d := *want, *got
	c.View, d.View = nil, nil
	require.Equal(t, c, d)
}

func TestWire(t *testing.T) {
	for name, f := range map[string]Facts{"all": facts(), "empty": {View: &clusterview.View{Readings: map[clusterview.Family]clusterview.Reading{}}}} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			require.NoError(t, f.Write(&b))
			text := b.Bytes()
			got, err := Read(bytes.NewReader(text))
			require.NoError(t, err)
			same(t, &f, got)
			for _, cut := range []int{0, 1, len(text) / 2, len(text) - 1} {
				if name == "all" {
					_, err = Read(bytes.NewReader(text[:cut]))
					require.Error(t, err, "cut at %d", cut)
				}
			}
		})
	}
}

// FuzzRead: no text makes it panic, or take memory for records that are not there.
func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	require.NoError(f, facts().Write(&b))
	f.Add(b.Bytes())
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = Read(bytes.NewReader(text)) })
}

func TestClient(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	mux := http.NewServeMux()
	var busy atomic.Bool
	mux.HandleFunc(FactsPath, func(w http.ResponseWriter, _ *http.Request) {
		if busy.Load() {
			http.Error(w, "others are being answered", http.StatusServiceUnavailable)
			return
		}
		_ = facts().Write(w)
	})
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	c, ctx := NewClient(socket), context.Background()
	want := facts()
	got, err := c.Facts(ctx)
	require.NoError(t, err)
	same(t, &want, got)
	busy.Store(true)
	_, err = c.Facts(ctx)
	require.ErrorContains(t, err, "503 Service Unavailable: others are being answered")
	_, err = NewClient(socket + "x").Facts(ctx)
	require.ErrorContains(t, err, "cannot ask slurmctld's agent")
}
