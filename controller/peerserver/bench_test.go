package peerserver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// readersOf is set in a process that reads 2,000 streams for a benchmark: the server's address, and h2 for
// HTTP/2.
const readersOf = "SLURMLET_TEST_READERS_OF"

const crowd = 2000

func TestMain(m *testing.M) {
	if address, of := os.LookupEnv(readersOf); of {
		readCrowd(strings.Fields(address))
		return
	}
	os.Exit(m.Run())
}

// readCrowd prints a line when all have the first line of their streams, and then one for each further
// line that all have had.
func readCrowd(address []string) {
	two, compressed := slices.Contains(address, "h2"), slices.Contains(address, "gzip")
	var lock sync.Mutex
	counts := map[int]int{} // of the readers that have had so many lines
	had := func(n int) {
		lock.Lock()
		defer lock.Unlock()
		if counts[n]++; counts[n] == crowd {
			fmt.Println(n)
			delete(counts, n)
		}
	}
	for i := range crowd {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 3, byte(i>>8), byte(i))}}
		config := &tls.Config{InsecureSkipVerify: true}
		if !two {
			config.NextProtos = []string{"http/1.1"}
		}
		transport := &http.Transport{TLSClientConfig: config, DialContext: dialer.DialContext, ForceAttemptHTTP2: two}
		request, _ := http.NewRequest(http.MethodGet, "https://"+address[0]+"/v1/stream", nil)
		if compressed {
			request.Header.Set("Accept", wire.Compressed)
		}
		request.Header.Set("Authorization", fmt.Sprintf("Bearer one/%036d/%s", i, strings.Repeat("x", 1000)))
		answer, err := (&http.Client{Transport: transport}).Do(request) //nolint:bodyclose // it ends with the process
		if err != nil {
			fmt.Println(err)
			return
		}
		go func() {
			lines := bufio.NewReader(answer.Body)
			for n := 1; ; n++ {
				line := []byte("x")
				var length int
				for len(line) > 0 && line[len(line)-1] != '\n' {
					var err error
					if line, err = lines.ReadSlice('\n'); err != nil && !errors.Is(err, bufio.ErrBufferFull) {
						return
					}
				}
				if string(line) == string(heartbeat) {
					n--
					continue
				}
				if _, err := fmt.Sscanf(string(line), `{"gzip":%d}`, &length); err == nil {
					if _, err := lines.Discard(length); err != nil {
						return
					}
				}
				had(n)
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // to the benchmark's end
}

// crowdOf begins 2,000 readers in a process of their own. It returns their lines.
func crowdOf(b *testing.B, address string) *bufio.Scanner {
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), readersOf+"="+address)
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return bufio.NewScanner(out)
}

func expect(b *testing.B, lines *bufio.Scanner, n int) {
	require.True(b, lines.Scan())
	require.Equal(b, strconv.Itoa(n), lines.Text())
}

// resident is the process's RSS in MiB, after a collection of garbage.
func resident(b *testing.B) float64 {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	require.NoError(b, err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	require.NoError(b, err)
	return float64(pages*os.Getpagesize()) / (1 << 20)
}

func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkStreams: 2,000 agents in another process have TLS streams. It prints the server's memory, its
// processor time and bytes for a stream's begin, its time for each reader of a change, and the time from Put to the
// last agent. Changes follow one another at once, and so wait for the pause.
func BenchmarkStreams(b *testing.B) {
	for _, snapshots := range []string{"plain", "gzip"} {
		b.Run(snapshots, func(b *testing.B) { benchmarkStreams(b, snapshots) })
	}
}

func benchmarkStreams(b *testing.B, snapshots string) {
	c := newController(b, ServerOptions{Strangers: 2 * crowd})
	member := func(i, machine int) Claim {
		uid := sha256.Sum256([]byte(strconv.Itoa(i))) // as random as Kubernetes'
		p := pod(fmt.Sprintf("slurm-cpu-%d", i), fmt.Sprintf("%x-%x-%x-%x-%x", uid[:4], uid[4:6], uid[6:8], uid[8:10], uid[10:16]), fmt.Sprintf("10.0.%d.%d", i>>8, i&255), 0)
		p.NodeSet, p.Machine = "cpu", fmt.Sprintf("gke-cluster-pool-1-machine-%d", machine)
		return p
	}
	for i := range crowd {
		c.put(member(i, i/20))
	}
	c.Sync()
	before, spent := resident(b), processorTime(b)
	lines := crowdOf(b, c.addr+" "+snapshots)
	expect(b, lines, 1)
	begins, sent := processorTime(b)-spent, c.Stats().BytesTotal
	after := resident(b)
	spent = processorTime(b)
	var times []time.Duration
	for n := 0; b.Loop(); n++ {
		began := time.Now()
		c.put(member(7, 1000+n))
		expect(b, lines, n+2)
		times = append(times, time.Since(began))
	}
	spent = processorTime(b) - spent
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Milliseconds()), "ms-p50")
	b.ReportMetric(float64(times[len(times)*99/100].Milliseconds()), "ms-p99")
	b.ReportMetric(after, "MiB-RSS")
	b.ReportMetric((after-before)*1024/crowd, "KiB/stream")
	b.ReportMetric(float64(begins.Microseconds())/crowd, "µs/begin")
	b.ReportMetric(float64(sent)/1000/crowd, "kB/begin")
	b.ReportMetric(float64(spent.Microseconds())/float64(crowd*len(times)), "µs/reader")
}

// BenchmarkHTTP is what the same streams take of net/http's own server, by HTTP/1.1 and by HTTP/2.
func BenchmarkHTTP(b *testing.B) {
	for _, version := range []string{"1.1", "2"} {
		b.Run(version, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			snapshot := append(bytes.Repeat([]byte{'x'}, 300<<10), '\n')
			server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(snapshot)
				_ = http.NewResponseController(w).Flush()
				<-ctx.Done()
			})}
			config := &tls.Config{Certificates: []tls.Certificate{certificate(b, b.TempDir()+"/ca.crt")}}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(b, err)
			address := l.Addr().String()
			if version == "1.1" {
				l = tls.NewListener(l, config)
				server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
				go func() { _ = server.Serve(l) }()
			} else {
				address += " h2"
				server.TLSConfig = config
				go func() { _ = server.ServeTLS(l, "", "") }()
			}
			defer server.Close()
			defer cancel()
			before := resident(b)
			expect(b, crowdOf(b, address), 1)
			after := resident(b)
			for b.Loop() {
			}
			b.ReportMetric(after, "MiB-RSS")
			b.ReportMetric((after-before)*1024/crowd, "KiB/stream")
		})
	}
}
