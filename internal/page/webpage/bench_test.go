package webpage

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/page/pagefacts"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

// BenchmarkPage reads the facts of 10,000 nodes and 100,000 jobs as often as asked, as slurmlet-web
// does while somebody looks, and makes as many pages of each as are kept: a stranger's, and those of
// readers who ask for other jobs each. facts-MB is what the agent tells, live-MB what the heap holds of
// it with the pages, and RSS-MB how much larger the process was at most than before the first.
func BenchmarkPage(b *testing.B) {
	wire := told(b, 10_000, 100_000)
	answers := 0
	s, err := New(Options{Log: slog.New(slog.DiscardHandler), Facts: func(context.Context) (*pagefacts.Facts, error) {
		facts, err := pagefacts.Read(bytes.NewReader(wire))
		if err == nil {
			answers++ // there is something new each time
			r := facts.View.Readings[clusterview.FamilyJobs]
			r.At = r.At.Add(time.Duration(answers) * time.Second)
			facts.View.Readings[clusterview.FamilyJobs] = r
		}
		return facts, err
	}})
	require.NoError(b, err)
	debug.FreeOSMemory()
	idleRSS, mostRSS, size := rss(b), 0, 0
	b.SetBytes(int64(len(wire)))
	for b.Loop() {
		s.source.lock.Lock()
		s.source.begin()
		asking := s.source.asking
		s.source.lock.Unlock()
		<-asking
		for i := range mostPages {
			key := pageKey{named: i > 0}
			if i > 0 {
				key.Filter = Filter{State: "RUNNING", User: fmt.Sprintf("user%d", i), Page: 1}
			}
			page, err := s.render(b.Context(), key)
			require.NoError(b, err)
			size = max(size, len(page.plain))
		}
		mostRSS = max(mostRSS, rss(b))
	}
	require.Len(b, s.pages, mostPages)
	require.Equal(b, 100_000, s.source.now.cluster.view.Jobs.Len())
	b.ReportMetric(float64(len(wire))/(1<<20), "facts-MB")
	held := live()
	runtime.KeepAlive(s)
	s = nil //nolint:wastedassign // the heap without it
	b.ReportMetric(float64(held-live())/(1<<20), "live-MB")
	b.ReportMetric(float64(max(mostRSS-idleRSS, 0))/(1<<20), "RSS-MB")
	b.ReportMetric(float64(size)/(1<<10), "page-kB")
}

// told is what the agent writes of so many nodes and jobs, each with a name of its own.
func told(b *testing.B, nodes, jobs int) []byte {
	f := sample(nodes, jobs)
	var all []slurm.Job
	for j := range f.View.Jobs.All() {
		j.Name, j.User = fmt.Sprintf("simulation of case %d", j.ID), fmt.Sprintf("user%d", j.ID%500)
		all = append(all, *j)
	}
	f.View.Jobs = clusterview.JobsOf(all...)
	var wire bytes.Buffer
	require.NoError(b, f.Write(&wire))
	return wire.Bytes()
}

// live is what the heap holds, without what a sync.Pool keeps for two collections.
func live() uint64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// rss is how much memory the process has (proc_pid_statm(5)).
func rss(b *testing.B) int {
	text, err := os.ReadFile("/proc/self/statm")
	require.NoError(b, err)
	var total, resident int
	_, err = fmt.Sscan(string(text), &total, &resident)
	require.NoError(b, err)
	return resident * os.Getpagesize()
}
