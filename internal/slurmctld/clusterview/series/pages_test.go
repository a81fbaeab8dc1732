package series

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/publichttp"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

// questions stand for slurmctld: each fails once the gate is open, and is counted.
type questions struct {
	gate  chan struct{}
	asked atomic.Int64
}

func (q *questions) stream(ctx context.Context, _ func(io.Reader) error, _ string, _ ...string) error {
	q.asked.Add(1)
	select {
	case <-q.gate:
		return errors.New("a secret")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serveCluster serves the pages on a port. A collection has several questions.
func serveCluster(t *testing.T, q *questions) (*Pages, *publichttp.Server) {
	t.Helper()
	collector := clusterview.New(clusterview.Options{
		Stream: q.stream, Interval: time.Hour, Timeout: func() time.Duration { return time.Hour }, Log: func(slog.Level, string, ...slog.Attr) {},
	})
	var own atomic.Int64
	faults := make(chan string, 10)
	c := NewPages(PagesOptions{
		Collector: collector, Own: func() []byte { return fmt.Appendf(nil, "own %d\n", own.Add(1)) }, Report: func(err error) { faults <- err.Error() },
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", c.Serve(Native))
	mux.HandleFunc("GET "+ExporterPath, c.Serve(Exporter))
	mux.HandleFunc("GET /conf", func(w http.ResponseWriter, _ *http.Request) { publichttp.Wait(w, "for news") })
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	port, err := publichttp.Listen("127.0.0.1:0", mux, publichttp.Limits{Active: 1000, Waiting: 1000, Timeout: time.Minute, WaitTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, port.Close()) })
	return c, port
}

// get asks like a scraper, and unpacks the answer.
func get(port *publichttp.Server, path string, header ...string) (answer http.Header, text string, err error) {
	conn, err := net.Dial("tcp", port.Addr().String())
	if err != nil {
		return nil, "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, "", err
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n", path, strings.Join(append(header, ""), "\r\n")); err != nil {
		return nil, "", err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, "", err
	}
	if response.StatusCode != http.StatusOK {
		return nil, "", errors.New(response.Status)
	}
	defer response.Body.Close()
	var body io.Reader = response.Body
	if response.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(body); err != nil {
			return nil, "", err
		}
	}
	all, err := io.ReadAll(body)
	return response.Header, string(all), err
}

// TestScrapers: many wait for one collection, and all get the same text, with the agent's own metrics
// as they are then. Meanwhile others are answered.
func TestScrapers(t *testing.T) {
	q := &questions{gate: make(chan struct{})}
	c, port := serveCluster(t, q)
	var all sync.WaitGroup
	texts := make([]string, 60)
	for i := range texts {
		all.Go(func() {
			path, header := "/metrics", []string(nil)
			if i%2 == 0 {
				header = []string{"Accept-Encoding: gzip"}
			}
			if i%3 == 0 {
				path = ExporterPath
			}
			answer, text, err := get(port, path, header...)
			if assert.NoError(t, err) {
				assert.Equal(t, i%2 == 0, answer.Get("Content-Encoding") == "gzip")
				texts[i] = text
			}
		})
	}
	inside := func(count func() int) int { // on the port's goroutine
		n := make(chan int, 1)
		port.Do(func() { n <- count() })
		return <-n
	}
	require.Eventually(t, func() bool { return inside(port.CountWaiting) == len(texts) }, time.Minute, time.Millisecond)
	_, text, err := get(port, "/livez")
	require.NoError(t, err)
	require.Equal(t, "ok", text)
	close(q.gate)
	all.Wait()
	asked := q.asked.Load()
	seen := map[string]bool{}
	for i, text := range texts {
		cluster, own, found := strings.Cut(text, "own ")
		assert.Equal(t, i%3 != 0, found, "the page of slurm-exporter has nothing of the agent")
		if found {
			assert.False(t, seen[own], "its own metrics are as they are then")
			seen[own] = true
			assert.Contains(t, cluster, "slurmlet_cluster_up 0\n")
			assert.NotContains(t, text, "secret")
		}
	}
	for range 200 { // the interval is not over
		_, _, err := get(port, "/metrics")
		require.NoError(t, err)
	}
	require.Equal(t, asked, q.asked.Load(), "slurmctld was asked again")
	require.Zero(t, inside(func() int { return len(c.asking) }))
}

// TestScrapeBesideManyAgents: a scrape costs nothing for each agent that waits on the port for other news. A
// stranger can have hundreds of answers made by asking with as many patiences.
func TestScrapeBesideManyAgents(t *testing.T) {
	const agents = 800
	mallocs := func(agents int) uint64 {
		q := &questions{gate: make(chan struct{})}
		_, port := serveCluster(t, q)
		for range agents {
			conn, err := net.Dial("tcp", port.Addr().String())
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			_, err = io.WriteString(conn, "GET /conf HTTP/1.1\r\n\r\n")
			require.NoError(t, err)
		}
		waiting := func(want int) {
			require.Eventually(t, func() bool {
				n := make(chan int, 1)
				port.Do(func() { n <- port.CountWaiting() })
				return <-n == want
			}, time.Minute, time.Millisecond)
		}
		waiting(agents)
		done := make(chan error, 1)
		go func() {
			_, _, err := get(port, "/metrics")
			done <- err
		}()
		waiting(agents + 1)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		close(q.gate)
		require.NoError(t, <-done)
		runtime.ReadMemStats(&after)
		waiting(agents)
		return after.Mallocs - before.Mallocs
	}
	alone := mallocs(0)
	require.Less(t, mallocs(agents), alone+agents/2)
}

// TestScraperDoesNotWaitForEver: slurmctld does not answer, and Prometheus says how long it waits.
func TestScraperDoesNotWaitForEver(t *testing.T) {
	q := &questions{gate: make(chan struct{})}
	defer close(q.gate)
	c, port := serveCluster(t, q)
	began := time.Now()
	_, text, err := get(port, "/metrics", "X-Prometheus-Scrape-Timeout-Seconds: 2")
	require.NoError(t, err)
	require.Less(t, time.Since(began), scrapePatience)
	require.Contains(t, text, "slurmlet_cluster_up 0\n")
	require.Contains(t, text, "own 1\n")
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody) // the socket's
	r.Header.Set(patienceHeader, "1")
	c.ServeLocally(Native)(w, r)
	require.Contains(t, w.Body.String(), "slurmlet_cluster_up 0\n")
	require.Contains(t, w.Body.String(), "own 2\n")
}

// TestFaultOfOurs: the agent lives on, and tells of itself.
func TestFaultOfOurs(t *testing.T) {
	q := &questions{gate: make(chan struct{})}
	close(q.gate)
	c, _ := serveCluster(t, q)
	fault := make(chan error, 1)
	c.Report, c.Collector = func(err error) { fault <- err }, nil
	want := scrape{page: Native, patience: time.Second}
	w := httptest.NewRecorder()
	c.reply(w, want, c.make(t.Context(), want))
	assert.ErrorContains(t, <-fault, "cannot make the metrics of the cluster: ")
	assert.Contains(t, w.Body.String(), "slurmlet_cluster_up 0\n")
	assert.Contains(t, w.Body.String(), "own 1\n")
	w = httptest.NewRecorder()
	c.reply(w, scrape{page: Native, gzip: true}, nil)
	assert.Equal(t, "own 2\n", w.Body.String(), "a second fault leaves the agent's own metrics")
}

func TestScrapeOf(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": scrapePatience, "x": scrapePatience, "10": scrapePatience, "60": scrapePatience, "0": scrapePatience, "-1": scrapePatience, "NaN": scrapePatience,
		"5": 4 * time.Second, "5.5": 4400 * time.Millisecond, "1": 800 * time.Millisecond, "1.07": 800 * time.Millisecond, "9.99": 7900 * time.Millisecond,
		"0.1": patienceStep, "1e-300": patienceStep,
	} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
		r.Header.Set(patienceHeader, header)
		assert.Equal(t, scrape{Native, false, want}, scrapeOf(Native, r), header)
	}
}
