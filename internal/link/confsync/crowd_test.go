package confsync

import (
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/proof"
	"github.com/slurmlet/slurmlet/internal/link/publichttp"
)

// crowd is how many agents follow in the benchmark. They are in a process of their own: one alone
// may have too few file descriptors for both ends.
const (
	crowd         = 10_000
	crowdVariable = "CONFSYNC_TEST_CROWD"
)

// TestMain is the crowd, where it is told an address: real followers, until each has heard of what
// comes after the first announcement.
func TestMain(m *testing.M) {
	host, text, err := net.SplitHostPort(os.Getenv(crowdVariable))
	if err != nil {
		os.Exit(m.Run())
	}
	port, _ := strconv.Atoi(text)
	var all sync.WaitGroup
	for i := range crowd {
		f := NewFollower(FollowerOptions{
			Slurmctld: net.JoinHostPort(host, "6817"), AgentPort: port, Done: make(chan struct{}), Lost: func() {}, Log: func(slog.Level, string, ...slog.Attr) {},
			Prover: &proof.Client{Keys: ringOf("a")}, Node: "n" + strconv.Itoa(i),
		})
		all.Go(func() { f.poll(func(m manifest) bool { return m.hash == manifestOf("first").hash }) })
	}
	all.Wait()
	os.Exit(0)
}

// BenchmarkCrowd has 10,000 agents come at once from one address, each of which proves itself, hears
// what there is, and proves itself again to wait for news. Then all of them are told.
func BenchmarkCrowd(b *testing.B) {
	var wave, news time.Duration
	for b.Loop() {
		f, url := provedFeedWithin(b, "a", publichttp.Limits{Active: 1 << 10, Waiting: room(crowd), Timeout: 10 * time.Second, WaitTimeout: time.Hour})
		f.announce(manifestOf("first"), crowd)
		cmd := exec.Command(os.Args[0])
		address := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/conf")
		cmd.Env, cmd.Stderr = append(os.Environ(), crowdVariable+"="+address), os.Stderr
		began := time.Now()
		require.NoError(b, cmd.Start())
		require.Eventually(b, func() bool { return f.count() == crowd }, 5*time.Minute, 10*time.Millisecond)
		wave += time.Since(began)
		began = time.Now()
		f.announce(manifestOf("second"), crowd)
		require.NoError(b, cmd.Wait())
		news += time.Since(began)
	}
	b.ReportMetric(wave.Seconds()/float64(b.N), "s/wave")
	b.ReportMetric(news.Seconds()/float64(b.N), "s/news")
}
