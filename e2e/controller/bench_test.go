//go:build e2e

package controller

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

var (
	benchPods  = flag.Int("pods", 0, "how many `pods` and agents TestBench has; 0: it does not run")
	benchChurn = flag.Duration("churn", 20*time.Second, "how long TestBench changes 100 pods a second")
)

// rounds is how often TestBench changes one pod in a cluster that is quiet.
const rounds = 50

// TestBench prints what many pods and agents cost: `make bench-controller`. The agents are real
// peers.Clients in this process, which shares the machine with the controller and with Kubernetes.
func TestBench(t *testing.T) {
	if *benchPods == 0 {
		t.Skip("-pods says how many")
	}
	b := newBed(t)
	b.namespace("hpc")
	b.replica()
	b.replica()
	for _, r := range b.replicas {
		r.ready()
	}
	c := &crowded{bed: b, waiting: map[netip.Addr]*arrival{}}
	began := time.Now()
	c.make(*benchPods)
	fmt.Printf("%d pods made in %v\n", *benchPods, since(began))
	c.tokens()
	c.figures("without agents")

	began = time.Now()
	c.connect()
	fmt.Printf("%d agents have the whole table after %v\n", *benchPods, since(began))
	c.figures("with agents")

	fmt.Printf("one pod's address to the last agent, from before the patch: %s\n", c.quiet())
	c.churn(*benchChurn)
	c.figures("after the churn")
	fmt.Print(c.requests())
}

func since(began time.Time) time.Duration { return time.Since(began).Round(time.Millisecond) }

// crowded is a bed with many agents of one cluster.
type crowded struct {
	*bed
	pods  []*corev1.Pod
	files []string // the tokens
	whole atomic.Int64
	// arrived are the times of whole tables, of which there are as many as whole says.
	arrived []time.Time
	next    atomic.Uint32 // an address that no pod has had

	mu      sync.RWMutex
	waiting map[netip.Addr]*arrival
}

// arrival is a change on its way to all agents.
type arrival struct {
	left atomic.Int64
	done chan time.Time
}

// each calls a function for each pod, some at a time.
func (c *crowded) each(n int, do func(i int)) {
	var workers sync.WaitGroup
	work := make(chan int)
	for range 8 {
		workers.Go(func() {
			for i := range work {
				do(i)
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	workers.Wait()
}

func (c *crowded) make(n int) {
	c.pods, c.files = make([]*corev1.Pod, n), make([]string, n)
	c.each(n, func(i int) {
		set := fmt.Sprintf("set%d", i/10)
		c.pods[i] = c.pod(spec{"hpc", fmt.Sprintf("slurm-%s-%d", set, i%10), "slurm", "slurmd", set, "", "", []string{c.fresh()}})
	})
}

func (c *crowded) fresh() string {
	n := c.next.Add(1)
	return fmt.Sprintf("10.%d.%d.%d", 100+n>>16, n>>8&255, n&255)
}

func (c *crowded) tokens() {
	c.each(len(c.pods), func(i int) {
		c.files[i] = c.file(fmt.Sprintf("token-%d", i))
		require.NoError(c, os.WriteFile(c.files[i], []byte(c.token("hpc", "default", c.pods[i], wire.Audience)), 0o400))
	})
}

// connect starts all agents, and waits until each has all pods.
func (c *crowded) connect() {
	authority := c.bundle("hpc")
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	c.Cleanup(func() {
		stop()
		running.Wait()
	})
	for i, file := range c.files {
		// Each pod has an address of its own: one address has few places among the strangers.
		from := &net.TCPAddr{IP: net.IPv4(127, 1, byte(i>>8), byte(i))}
		client, err := peers.NewClient(peers.ClientOptions{
			Address: home + "." + home + ".svc:443", CA: authority, Token: file, Changed: c.changed,
			Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{LocalAddr: from}).DialContext(ctx, network, c.replicas[i%len(c.replicas)].peers)
			},
		})
		require.NoError(c, err)
		running.Go(func() { client.Run(ctx) })
	}
	c.eventually(5*time.Minute, "all agents have the table", func() bool { return int(c.whole.Load()) == len(c.files) })
}

// changed is called for each agent.
func (c *crowded) changed(change peers.Change) {
	now := time.Now()
	if change.Whole {
		c.mu.Lock()
		c.arrived = append(c.arrived, now)
		c.mu.Unlock()
		c.whole.Add(1)
		return
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, p := range change.Put {
		for _, a := range p.Addresses {
			if one := c.waiting[a]; one != nil && one.left.Add(-1) == 0 {
				one.done <- now
			}
		}
	}
}

// change gives a pod a new address, and says how long that takes to the last agent; 0: another change of the
// pod came before it.
func (c *crowded) change(p *corev1.Pod) time.Duration {
	one, text := &arrival{done: make(chan time.Time, 1)}, c.fresh()
	address := netip.MustParseAddr(text)
	one.left.Store(int64(len(c.files)))
	c.mu.Lock()
	c.waiting[address] = one
	c.mu.Unlock()
	began := time.Now()
	c.address(p, text)
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	var took time.Duration
	select {
	case at := <-one.done:
		took = at.Sub(began)
	case <-limit.C:
	}
	c.mu.Lock()
	delete(c.waiting, address)
	c.mu.Unlock()
	return took
}

func (c *crowded) quiet() string {
	var all []time.Duration
	for range rounds {
		all = append(all, c.change(c.pods[rand.IntN(len(c.pods))]))
	}
	return quantiles(all)
}

// churn changes 100 pods a second, each of them once in a while.
func (c *crowded) churn(long time.Duration) {
	before, ours := c.cpu(), ownCPU()
	began := time.Now()
	var mu sync.Mutex
	var all []time.Duration
	var running sync.WaitGroup
	tick := time.NewTicker(10 * time.Millisecond)
	for i := 0; time.Since(began) < long; i++ {
		p := c.pods[i%len(c.pods)]
		running.Go(func() {
			took := c.change(p)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took)
		})
		<-tick.C
	}
	tick.Stop()
	running.Wait()
	spent := time.Since(began).Seconds()
	fmt.Printf("churn of %.0f pods a second, to the last agent: %s\n", float64(len(all))/spent, quantiles(all))
	fmt.Printf("churn: both replicas use %.2f of a CPU together, and the agents, which are all in this process, %.2f\n",
		(c.cpu()-before)/spent, (ownCPU()-ours)/spent)
}

// ownCPU is what this process has used, in seconds.
func ownCPU() float64 {
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}

func (c *crowded) cpu() (all float64) {
	for _, r := range c.replicas {
		all += r.metric("process_cpu_seconds_total")
	}
	return all
}

func quantiles(all []time.Duration) string {
	missing := len(all)
	all = slices.DeleteFunc(all, func(d time.Duration) bool { return d == 0 })
	missing -= len(all)
	if len(all) == 0 {
		return "none arrived"
	}
	slices.Sort(all)
	at := func(q float64) time.Duration { return all[int(q*float64(len(all)-1))].Round(time.Millisecond) }
	return fmt.Sprintf("p50 %v, p99 %v, max %v (%d changes, %d of them were not seen by all)", at(0.5), at(0.99), at(1), len(all)+missing, missing)
}

func (c *crowded) figures(when string) {
	for _, r := range c.replicas {
		fmt.Printf("%s, %s: RSS %.0f MiB, CPU %.1f s, streams %.0f, sent %.1f MB\n", r.Name, when, r.metric("process_resident_memory_bytes")/(1<<20),
			r.metric("process_cpu_seconds_total"), r.metric("slurmlet_controller_streams"), r.metric("slurmlet_controller_sent_bytes_total")/1e6)
	}
}

// requests are those that kube-apiserver has had for what only the controller asks, whoever has asked.
func (c *crowded) requests() string {
	all := c.apiRequests()
	counts := map[string]float64{}
	for _, key := range []string{"POST tokenreviews", "PUT leases", "APPLY configmaps", "POST secrets"} {
		counts[key] = all[key]
	}
	return fmt.Sprintf("kube-apiserver's requests: %v\n", counts)
}

// apiRequests are those that kube-apiserver has had, by verb and resource.
func (b *bed) apiRequests() map[string]float64 {
	text, err := b.kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	require.NoError(b, err)
	counts := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		found := apiRequest.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		labels := map[string]string{}
		for _, label := range apiLabel.FindAllStringSubmatch(found[1], -1) {
			labels[label[1]] = label[2]
		}
		n, err := strconv.ParseFloat(found[2], 64)
		require.NoError(b, err)
		key := labels["verb"] + " " + labels["resource"]
		if sub := labels["subresource"]; sub != "" {
			key += "/" + sub
		}
		counts[key] += n
	}
	return counts
}

var (
	apiRequest = regexp.MustCompile(`^apiserver_request_total\{(.*)\} (\S+)`)
	apiLabel   = regexp.MustCompile(`(\w+)="([^"]*)"`)
)
