package usage

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/link/publichttp"
	"github.com/slurmlet/slurmlet/internal/slurmd/devices"
)

// interfaceFiles are a cgroup's, as Linux 6.12 shows them to a job that is throttled, has run out of memory, and has
// read and written.
var interfaceFiles = map[string]string{
	"cpu.stat":            "usage_usec 7654321\nuser_usec 7000000\nsystem_usec 654321\nnice_usec 0\nnr_periods 84\nnr_throttled 27\nthrottled_usec 2500000\nnr_bursts 0\nburst_usec 0\n",
	"cpu.stat.local":      "throttled_usec 3500000\n",
	"cpu.pressure":        "some avg10=1.00 avg60=0.50 avg300=0.10 total=1234567\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=234567\n",
	"memory.current":      "52428800\n",
	"memory.peak":         "104857600\n",
	"memory.stat":         "anon 43040768\nfile 8192000\nkernel 1048576\nshmem 4096000\nfile_mapped 0\ninactive_anon 43000000\n",
	"memory.high":         "136314880\n",
	"memory.max":          "137363456\n",
	"memory.events":       "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n",
	"memory.pressure":     "some avg10=0.00 avg60=0.00 avg300=0.00 total=5000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=4000\n",
	"memory.swap.current": "0\n",
	"memory.swap.max":     "1048576\n",
	"io.stat":             "8:0 rbytes=1048576 wbytes=2097152 rios=16 wios=32 dbytes=0 dios=0\n",
	"io.pressure":         "some avg10=0.00 avg60=0.00 avg300=0.00 total=70000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=60000\n",
	"pids.current":        "9\n",
	"pids.max":            "1024\n",
}

var update = flag.Bool("update", false, "write the golden files")

const scope = "sys/fs/cgroup/system.slice/node-0_slurmstepd.scope"

// usageTree is a machine with cgroups of so many jobs.
func usageTree(t testing.TB, jobs int) string {
	t.Helper()
	root := t.TempDir()
	dirs := []string{"sys/fs/cgroup", "sys/fs/cgroup/slurmlet", scope}
	for i := range jobs {
		dirs = append(dirs, fmt.Sprintf("%s/job_%d", scope, i+1))
	}
	for _, dir := range dirs {
		for name, text := range interfaceFiles {
			put(t, root, dir+"/"+name, text)
		}
	}
	put(t, root, "sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
	put(t, root, "proc/self/cgroup", "0::/slurmlet\n")
	return root
}

func put(t testing.TB, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// options read a machine.
func options(root string, most int) Options {
	return Options{
		Machine: cgroup.NewFS(root), Delegation: cgroup.Delegation{Base: "/sys/fs/cgroup", Steps: "/" + scope}, MostJobs: most, Root: root,
		WriteStatus: func(w io.Writer) error {
			_, err := io.WriteString(w, "slurmlet_state{state=\"Ready\"} 1\n")
			return err
		},
	}
}

// TestUsageMetrics: the golden file has every metric once, and nothing that the kernel does not tell.
func TestUsageMetrics(t *testing.T) {
	root := usageTree(t, 3)
	put(t, root, "sys/class/drm/renderD128/device/mem_info_vram_total", "206141652992\n")
	put(t, root, "sys/class/drm/renderD128/device/mem_info_vram_used", "298844160\n")
	o := options(root, 2)
	o.GPUs = []devices.GPU{
		{Vendor: devices.AMD, Type: "amd_instinct_mi300x_oam", Files: []string{"/dev/dri/renderD128"}},
		{Vendor: devices.NVIDIA, Type: "nvidia_h200", Files: []string{"/dev/nvidia0"}},
		{Vendor: devices.NVIDIA, Type: "nvidia_a100_mig", Files: []string{"/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"}},
	}
	u := newReader(o).read()
	u.began, u.took = time.Date(2026, 3, 1, 12, 1, 30, 250_000_000, time.UTC), 12*time.Millisecond
	var e bytes.Buffer
	u.write(&e)
	golden := filepath.Join("testdata", "usage.prom")
	if *update {
		require.NoError(t, os.WriteFile(golden, e.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), e.String())
	problems, err := promlint.New(strings.NewReader(e.String())).Lint()
	require.NoError(t, err)
	assert.Empty(t, problems)
}

// TestEveryQuantityIsThere: the golden file has each metric of the table.
func TestEveryQuantityIsThere(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "usage.prom"))
	require.NoError(t, err)
	for _, m := range ofUsage {
		require.Contains(t, string(text), "\n# TYPE slurmlet_"+jobsPrefix+m.name+" ")
	}
}

// TestUsageIsMissing: where there is nothing to read there is no number, never a zero.
func TestUsageIsMissing(t *testing.T) {
	assert.Nil(t, New(Options{}), "Slurm has no cgroup subtree")

	root := usageTree(t, 0)
	require.NoError(t, os.RemoveAll(filepath.Join(root, scope)))
	put(t, root, "proc/self/cgroup", "3:memory:/a\n")
	for _, name := range []string{"cpu.stat.local", "io.stat", "cpu.pressure", "memory.peak"} {
		require.NoError(t, os.Remove(filepath.Join(root, "sys/fs/cgroup", name)))
	}
	put(t, root, "sys/fs/cgroup/memory.max", "max\n")
	var names []string
	for line := range strings.Lines(string(newReader(options(root, 2)).text())) {
		if name, _, found := strings.Cut(line, " "); found && name != "#" {
			names = append(names, strings.TrimPrefix(name, "slurmlet_node_"))
		}
	}
	assert.Equal(t, []string{
		"container_cpu_seconds_total", "container_cpu_user_seconds_total", "container_cpu_system_seconds_total", "container_cpu_periods_total",
		"container_cpu_throttled_periods_total", "container_cpu_throttled_seconds_total", "container_memory_usage_bytes", "container_memory_anon_bytes",
		"container_memory_file_bytes", "container_memory_shmem_bytes", "container_memory_high_bytes", "container_memory_oom_kills_total",
		"container_memory_pressure_some_seconds_total", "container_memory_pressure_full_seconds_total", "container_swap_usage_bytes", "container_swap_limit_bytes",
		"container_io_pressure_some_seconds_total", "container_io_pressure_full_seconds_total", "container_threads", "container_threads_limit",
		"usage_timestamp_seconds", "usage_read_seconds",
	}, names)
}

// usagePort serves metrics as the agent's port does.
func usagePort(t *testing.T, u *Usage) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", u.ServePort)
	mux.HandleFunc("GET /livez", func(http.ResponseWriter, *http.Request) {})
	port, err := publichttp.Listen("127.0.0.1:0", mux, publichttp.Limits{Active: 256, Waiting: MostWaiting, Timeout: 10 * time.Second, WaitTimeout: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, port.Close()) })
	return "http://" + port.Addr().String()
}

func scrape(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	return string(text)
}

// TestOneReadingServesMany: 200 scrapers at once, on the port and on the socket, make the agent read once.
func TestOneReadingServesMany(t *testing.T) {
	u := New(options(usageTree(t, 2), 2))
	var readings atomic.Int32
	begin, read := make(chan struct{}), u.read
	u.read = func() []byte {
		readings.Add(1)
		<-begin
		return read()
	}
	url := usagePort(t, u)
	local := httptest.NewServer(http.HandlerFunc(u.ServeSocket))
	t.Cleanup(local.Close)
	var all sync.WaitGroup
	var answers atomic.Int32
	for i := range 60 { // as many strangers as may wait, or fewer
		all.Go(func() {
			text := scrape(t, []string{url + "/metrics", url + "/metrics", local.URL}[i%3])
			if strings.Contains(text, "slurmlet_node_jobs 2\n") && strings.Contains(text, `slurmlet_job_threads{job_id="2"} 9`) && strings.Contains(text, "slurmlet_state{") {
				answers.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return readings.Load() == 1 }, time.Minute, time.Millisecond)
	assert.Empty(t, scrape(t, url+"/livez"), "others are answered meanwhile")
	close(begin)
	all.Wait()
	assert.EqualValues(t, 60, answers.Load())
	u.lock.Lock()
	u.until = time.Time{}
	u.lock.Unlock()
	before := readings.Load()
	scrape(t, url+"/metrics")
	assert.Equal(t, before+1, readings.Load(), "later, the next one reads anew")
	response, err := http.Head(url + "/metrics")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Positive(t, response.ContentLength)
}

// TestUsageThatHangs: a kernel that does not answer costs nobody the other metrics, and one goroutine, however many ask.
func TestUsageThatHangs(t *testing.T) {
	u := New(options(usageTree(t, 1), 0))
	var readings atomic.Int32
	hangs, read := make(chan struct{}), u.read
	u.read = func() []byte {
		readings.Add(1)
		<-hangs
		return read()
	}
	url := usagePort(t, u)
	local := httptest.NewServer(http.HandlerFunc(u.ServeSocket))
	t.Cleanup(local.Close)
	for range 3 {
		for _, one := range []string{url + "/metrics", local.URL} {
			text := scrape(t, one)
			assert.Contains(t, text, "slurmlet_state{")
			assert.NotContains(t, text, "slurmlet_node_jobs")
		}
	}
	assert.EqualValues(t, 1, readings.Load())
	close(hangs)
	require.Eventually(t, func() bool { return strings.Contains(scrape(t, url+"/metrics"), "slurmlet_node_jobs 1\n") }, time.Minute, 10*time.Millisecond)
}

// TestFaultOfAReading: a fault of the agent's own costs the other metrics nothing.
func TestFaultOfAReading(t *testing.T) {
	u := New(options(usageTree(t, 1), 0))
	told := make(chan error, 1)
	u.read, u.report = func() []byte { panic("a fault") }, func(err error) { told <- err }
	text := scrape(t, usagePort(t, u)+"/metrics")
	assert.Contains(t, text, "slurmlet_state{")
	assert.NotContains(t, text, "slurmlet_node_jobs")
	require.EqualError(t, <-told, "cannot read what the node's processes use: a fault")
}

// TestStrangersShareOneText: 200 strangers who ask for the metrics of 512 jobs and read nothing cost one copy of them.
func TestStrangersShareOneText(t *testing.T) {
	u := New(options(t.TempDir(), 0))
	const size = 1 << 20
	u.read = func() []byte { return bytes.Repeat([]byte("# 512 jobs have so many metrics\n"), size>>5) }
	url := usagePort(t, u)
	for range 200 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
	}
	text := scrape(t, url+"/metrics")
	assert.Greater(t, len(text), size)
	used := heap()
	t.Logf("the heap has %d KiB", used>>10)
	assert.Less(t, used, uint64(200*size/4), "the strangers' texts are not one")
}

// heap is what is in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkUsage is a reading of the machine with its text, of a node with 128 jobs: of all together, and of each. The
// files are a tmpfs' or a disk's, so the kernel's own work for a cgroup's numbers is not in it.
func BenchmarkUsage(b *testing.B) {
	root := usageTree(b, 128)
	for _, most := range []int{0, 128} {
		b.Run(fmt.Sprint(most), func(b *testing.B) {
			reader := newReader(options(root, most))
			b.ReportAllocs()
			for b.Loop() {
				b.SetBytes(int64(len(reader.text())))
			}
		})
	}
}
