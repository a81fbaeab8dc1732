package clusterview

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	benchNodes = 10_000
	benchJobs  = 100_000
)

// manyNodes is the answer for so many nodes, out of a recorded one.
func manyNodes(b *testing.B, count int) []byte {
	lines := strings.SplitAfter(recorded(b, "nodes-26.05.txt"), "\n")
	var text bytes.Buffer
	for i := range count {
		line := lines[i%(len(lines)-1)]
		name, rest, _ := strings.Cut(line, " ")
		fmt.Fprintf(&text, "%s-%d %s", name, i, rest)
	}
	return text.Bytes()
}

// manyJobs is the answer for so many jobs, out of a recorded one: each with a name, times and nodes of
// its own, and with 500 users.
func manyJobs(b *testing.B, count int) []byte {
	columns := strings.Split(recorded(b, "jobs-26.05.txt"), recordedMark)
	var kinds [][]string
	for i := 0; i+len(jobFields) <= len(columns); i += len(jobFields) {
		kind := columns[i : i+len(jobFields)]
		kind[0] = strings.TrimPrefix(kind[0], "\n")
		kinds = append(kinds, kind)
	}
	var text bytes.Buffer
	for i := range count {
		kind := kinds[i%len(kinds)]
		for c, value := range kind {
			switch c {
			case colJobID:
				value = strconv.Itoa(1_000_000 + i)
			case colArrayJobID:
				value = strconv.Itoa(1_000_000 + i/10*10)
			case colName:
				value = "simulation of case " + strconv.Itoa(i)
			case colUserName:
				value = "user" + strconv.Itoa(i%500)
			case colNodeList:
				if value != "" {
					value = "rack" + strconv.Itoa(i%100) + "-node[" + strconv.Itoa(i%900) + "-999]"
				}
			case colSubmit, colStart:
				if n, err := strconv.Atoi(value); err == nil {
					value = strconv.Itoa(n - i)
				}
			}
			text.WriteString(value + recordedMark)
		}
		text.WriteByte('\n')
	}
	return text.Bytes()
}

// BenchmarkCollection reads 10,000 nodes and 100,000 jobs as often as asked, as the one before is
// still in use. view-MB is what a View holds, live-MB is the most that the heap held, and RSS-MB how
// much larger the process was then, than before the first.
func BenchmarkCollection(b *testing.B) {
	c := newCluster(b, "26.05")
	nodes, jobs := manyNodes(b, benchNodes), manyJobs(b, benchJobs)
	b.SetBytes(int64(len(nodes) + len(jobs)))
	stream := func(ctx context.Context, read func(io.Reader) error, program string, args ...string) error {
		switch {
		case program == "squeue" && strings.Contains(strings.Join(args, " "), "--only-job-state"):
			return read(strings.NewReader(`{"jobs": []}`))
		case program == "squeue":
			mark := "\x1f" + strings.Split(args[len(args)-1], "\x1f")[len(jobFields)]
			return read(&replacer{rest: jobs, from: []byte(recordedMark), to: []byte(mark)})
		case args[len(args)-1] == "nodes":
			return read(bytes.NewReader(nodes))
		}
		return c.stream(ctx, read, program, args...)
	}
	collector := New(Options{Stream: stream, Timeout: func() time.Duration { return time.Minute }, Log: func(slog.Level, string, ...slog.Attr) {}})
	debug.FreeOSMemory()
	idle, idleRSS := live(), rss()
	var most, mostRSS uint64
	var view *View
	for b.Loop() {
		collector.took = 0 // slurmctld has no rest here
		view = collector.Get(b.Context(), 0)
		mostRSS = max(mostRSS, rss())
	}
	if !view.Up() || view.Jobs.Len() != benchJobs || len(view.Nodes) != benchNodes {
		b.Fatal(view.Readings, view.Jobs.Len(), len(view.Nodes))
	}
	most = live()
	b.ReportMetric(float64(most-idle)/(1<<20), "view-MB")
	b.ReportMetric(float64(mostRSS-min(idleRSS, mostRSS))/(1<<20), "RSS-MB")
	runtime.KeepAlive(collector)
}

// BenchmarkJobs looks at each of 100,000 jobs.
func BenchmarkJobs(b *testing.B) {
	p, err := readJobs(bytes.NewReader(manyJobs(b, benchJobs)), recordedMark)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		running := 0
		for j := range p.jobs.All() {
			if j.State.Is("RUNNING") {
				running++
			}
		}
		if running == 0 {
			b.Fatal("none runs")
		}
	}
}

// live is what the heap holds without garbage.
func live() uint64 {
	var now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&now)
	return now.HeapAlloc
}

// rss is how much memory the process has (proc_pid_statm(5)).
func rss() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseUint(strings.Fields(string(text))[1], 10, 64)
	return pages * uint64(os.Getpagesize())
}

// replacer puts one mark in the place of another, without a copy of the whole.
type replacer struct{ rest, from, to, line []byte }

func (r *replacer) Read(p []byte) (int, error) {
	if len(r.line) == 0 {
		if len(r.rest) == 0 {
			return 0, io.EOF
		}
		end := bytes.IndexByte(r.rest, '\n') + 1
		r.line, r.rest = bytes.ReplaceAll(r.rest[:end], r.from, r.to), r.rest[end:]
	}
	n := copy(p, r.line)
	r.line = r.line[n:]
	return n, nil
}
