//go:build e2e

package controller

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	elasticsets "github.com/slurmlet/slurmlet/internal/slurmctld/elastic"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic/programs"
)

var (
	benchRecords = flag.Int("records", 40, "how many node `records` TestElasticBench has")
	benchWanted  = flag.Int("wanted", 20, "how many `nodes` its job wants")
	benchWaiting = flag.Int("waiting", 10, "how many `jobs` wait for a node each")
)

// benchLimit bounds each wait of TestElasticBench.
const benchLimit = 3 * time.Minute

// TestElasticBench prints what an elastic node set costs that is started and ended at once: `make bench-elastic`.
// slurmctld, its agent, the controller, etcd and kube-apiserver are real. The test is the scheduler and the kubelet,
// as KWOK would be. It runs beside no other test, because the end of a cluster of e2e/testbed/native is that of all processes.
// No slurmd runs in the pods, so jobs wait until they are cancelled.
func TestElasticBench(t *testing.T) {
	for _, version := range slices.Sorted(maps.Keys(given.Roots)) {
		t.Run(version, func(t *testing.T) {
			b := newBed(t, "--set", "elastic.enabled=true")
			b.namespace("hpc")
			b.node("m1")
			r := b.replica("SLURMLET_ELASTIC=all")
			r.ready()
			(&elastic{bed: b, cluster: benchCluster}).template(nil)
			s := &started{bed: b, version: version, replica: r, kubelet: b.kubelet()}
			s.prepare(fmt.Sprintf(benchConf, max(4096, 2**benchRecords)), map[string][]byte{"gpu.json": fmt.Appendf(nil, benchSet, *benchRecords-1)})
			s.measure(fmt.Sprintf("slurmctld starts, and %d records are made", *benchRecords), func() {
				s.start()
				s.settles()
			})
			nodes := fmt.Sprintf("%d nodes", *benchWanted)
			s.measure(nodes+" are wanted at once, and all have pods", func() {
				s.submit(fmt.Sprintf("--nodes=%d", *benchWanted))
				s.has(*benchWanted)
			})
			s.measure(nodes+" are wanted no more, and wait for jobs again", s.end)
			s.measure(fmt.Sprintf("%d jobs wait for a node each", *benchWaiting), func() {
				s.submit("--nodes=1", fmt.Sprintf("--array=0-%d", *benchWaiting-1))
				s.allWait()
			})
			s.waiting()
			s.measure(fmt.Sprintf("%d jobs that wait are cancelled, and their nodes wait for jobs again", *benchWaiting), s.end)
			assert.Empty(t, waiters())
		})
	}
}

const (
	benchCluster = "slurm"
	// benchConf has slurmctld look at all jobs every few seconds: by default an array of 500 tasks takes a minute or two
	// until each has a node, whether the nodes are there or not.
	benchConf = `MaxNodeCount=%d
SchedulerParameters=default_queue_depth=10000,sched_interval=3,bf_interval=3
NodeSet=gpu Feature=gpu
PartitionName=gpu Nodes=gpu SuspendTime=300
`
	benchSet    = `{"nodes":"m-[0-%d]","cpuLimit":"1","memoryLimit":"1Gi","storageLimit":"1Gi","features":["gpu"]}`
	benchVolume = "/run/volume"
	benchSets   = "/run/sets"
	benchPeers  = "/run/peers"
)

// started is a slurmctld under its agent, in a cluster whose pods Kubernetes has.
type started struct {
	*bed
	version string
	replica *replica
	kubelet *kubelet
	slurm   *native.Cluster
	environ []string // of slurmctld's agent

	lock sync.Mutex
	log  []string
}

// prepare lays out the files of slurmctld's pod, with lines of slurm.conf and elastic sets.
func (s *started) prepare(conf string, sets map[string][]byte) {
	c, err := native.NewCluster(native.Options{Lower: given.Roots[s.version], Slurmlet: filepath.Join(given.Binaries, "slurmlet"), SlurmConf: conf})
	require.NoError(s, err)
	s.slurm = c
	s.Cleanup(func() {
		assert.NoError(s, c.Close())
		if s.Failed() {
			s.lock.Lock()
			defer s.lock.Unlock()
			s.Logf("the end of the log of slurmctld's agent:\n%s", strings.Join(s.log[max(0, len(s.log)-60):], "\n"))
		}
	})
	pod := s.pod(spec{"hpc", native.Host, benchCluster, "slurmctld", "", "", "", []string{native.Address}})
	name, port, _ := strings.Cut(s.replica.peers, ":")
	service := home + "." + home + ".svc"
	sources, err := c.Sources()
	require.NoError(s, err)
	authority, err := os.ReadFile(s.bundle("hpc"))
	require.NoError(s, err)
	for dir, files := range map[string]map[string][]byte{
		benchVolume: sources,
		benchSets:   sets,
		benchPeers:  {"ca.crt": authority, "token": []byte(s.token("hpc", "default", pod, wire.Audience))},
	} {
		_, err := c.NewVolume(dir, files)
		require.NoError(s, err)
	}
	hosts := fmt.Sprintf("127.0.0.1 localhost\n%s %s\n%s %s\n", native.Address, native.Host, name, service)
	require.NoError(s, os.WriteFile(filepath.Join(c.Root, "etc/hosts"), []byte(hosts), 0o644))
	s.environ = []string{"SLURMLET_ELASTIC_SETS=" + benchSets, "SLURMLET_PEERS=" + service + ":" + port, "SLURMLET_PEERS_DIR=" + benchPeers}
}

// start starts slurmctld.
func (s *started) start() {
	require.NoError(s, s.slurm.ControlBySlurmlet(benchVolume, func(line string) {
		s.lock.Lock()
		defer s.lock.Unlock()
		s.log = append(s.log, line)
	}, s.environ...))
}

// command is one of Slurm's, and what it prints.
func (s *started) command(program string, args ...string) string {
	s.Helper()
	out, err := s.slurm.Command("/usr/bin/"+program, args...).CombinedOutput()
	require.NoError(s, err, "%s %v: %s", program, args, out)
	return strings.TrimSpace(string(out))
}

func (s *started) submit(args ...string) {
	s.Helper()
	s.command("sbatch", append([]string{"--partition=gpu", "--mem=10", "--output=/dev/null", "--chdir=/", "--wrap=true"}, args...)...)
}

// set is how slurmctld's agent sees the set.
func (s *started) set() elasticsets.SetStatus {
	all, err := s.slurm.AgentStatus()
	if err != nil || all.Elastic == nil || len(all.Elastic.Sets) == 0 {
		return elasticsets.SetStatus{}
	}
	return all.Elastic.Sets[0]
}

// settles waits until all records wait for jobs, and no pod is there.
func (s *started) settles() {
	s.Helper()
	want := fmt.Sprintf("idle~ %d", *benchRecords)
	s.has(0)
	s.eventually(benchLimit, "all records wait for jobs", func() bool {
		if s.command("sinfo", "--noheader", "--partition=gpu", "--format=%T %D") != want {
			return false
		}
		set := s.set()
		return set.Records == *benchRecords && set.Wanted == 0
	})
}

func (s *started) has(pods int) {
	s.Helper()
	have := 0
	defer func() {
		if have != pods {
			s.Errorf("%d pods are there, not %d", have, pods)
		}
	}()
	s.eventually(benchLimit, "so many pods are there", func() bool {
		have = s.kubelet.count()
		return have == pods
	})
}

// end cancels all jobs, and has slurmctld want no node.
func (s *started) end() {
	s.command("scancel", "--user=root")
	s.eventually(benchLimit, "no job is there", func() bool { return s.command("squeue", "--noheader") == "" })
	s.command("scontrol", "update", "nodename="+s.set().WantedNodes, "state=power_down_force")
	s.settles()
}

// allWait waits until each job has a wait-nodes.
func (s *started) allWait() {
	s.Helper()
	have := 0
	defer func() {
		if have != *benchWaiting {
			s.Errorf("%d of %d jobs wait; squeue has %s", have, *benchWaiting, s.command("squeue", "--noheader", "--array", "--format=%T %r"))
		}
	}()
	s.eventually(benchLimit, "all jobs wait", func() bool {
		have = len(waiters())
		<-time.After(100 * time.Millisecond) // looking costs more than waiting
		return have == *benchWaiting
	})
}

// waiters are the processes of wait-nodes.
func waiters() (all []procfs.Proc) {
	procs, _ := procfs.AllProcs()
	for _, p := range procs {
		if words, err := p.CmdLine(); err == nil && len(words) > 0 && words[0] == string(programs.WaitNodes) {
			all = append(all, p)
		}
	}
	return all
}

// waiting prints what the processes cost that wait, and what 10 s of that cost.
func (s *started) waiting() {
	var memory uint64
	all := waiters()
	for _, p := range all {
		rollup, err := p.ProcSMapsRollup()
		require.NoError(s, err)
		memory += rollup.Pss
	}
	fmt.Printf("  %d processes of wait-nodes have %.1f MiB together\n", len(all), float64(memory)/(1<<20))
	s.measure("10 s in which they wait", func() { <-time.After(10 * time.Second) })
}

// measure prints what slurmctld, its agent, the controller and kube-apiserver did meanwhile.
func (s *started) measure(what string, do func()) {
	s.Helper()
	if s.slurm.Slurmctld != nil {
		s.command("sdiag", "--reset")
	}
	before, asked, standIn := s.uses(), s.apiRequests(), s.kubelet.requests()
	began := time.Now()
	do()
	took := time.Since(began)
	calls, err := s.slurm.Calls()
	require.NoError(s, err)
	after, done, own := s.uses(), s.apiRequests(), s.kubelet.requests()
	fmt.Printf("\nSlurm %s, %d records: %s after %.1f s\n", s.version, *benchRecords, what, took.Seconds())
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "  requests to slurmctld\tcount\ttotal\tmean\t\n")
	for _, kind := range slices.SortedFunc(maps.Keys(calls), func(a, b string) int { return cmp.Compare(calls[b].Took, calls[a].Took) }) {
		c := calls[kind]
		fmt.Fprintf(w, "  %s\t%d\t%.1f ms\t%.2f ms\t\n", kind, c.Count, ms(c.Took), ms(c.Took)/float64(max(c.Count, 1)))
	}
	fmt.Fprint(w, "  process\tprocessor\tmemory\t\t\n")
	for _, name := range slices.Sorted(maps.Keys(after)) {
		fmt.Fprintf(w, "  %s\t%.2f s\t%.0f MiB\t\t\n", name, (after[name].Own - before[name].Own).Seconds(), float64(after[name].Resident)/(1<<20))
	}
	require.NoError(s, w.Flush())
	var words []string
	for _, key := range slices.Sorted(maps.Keys(done)) {
		n := done[key] - asked[key] - (own[key] - standIn[key])
		if n > 0 && key != "GET configmaps" { // with which the test keeps the authority's volume
			words = append(words, fmt.Sprintf("%s %.0f", key, n))
		}
	}
	fmt.Printf("  kube-apiserver's requests, without those of the test: %s\n", strings.Join(words, ", "))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// uses are what the processes have used, by what they are, with all commands that have ended.
func (s *started) uses() map[string]native.Usage {
	all := map[string]native.Usage{}
	add := func(name string, pid int) {
		u, _ := native.UsageOf(pid) // it may have ended
		u.Own += u.Children
		all[name] = u
	}
	if s.slurm.Slurmctld != nil {
		pid := s.slurm.Slurmctld.Process.Pid
		add("slurmctld's agent", pid)
		for _, child := range native.Children(pid) {
			if native.NameOf(child) != "slurmctld" {
				continue
			}
			add("slurmctld", child)
			for _, scripts := range native.Children(child) {
				add("slurmscriptd, and what it has run", scripts)
			}
		}
	}
	all["the controller"] = native.Usage{
		Own: time.Duration(s.replica.metric("process_cpu_seconds_total") * float64(time.Second)), Resident: int64(s.replica.metric("process_resident_memory_bytes")),
	}
	return all
}

// kubelet plays the scheduler and the kubelet: pods get a machine and an address, and vanish when they are deleted.
type kubelet struct {
	b *bed

	lock  sync.Mutex
	pods  map[types.UID]bool
	seen  int
	asked map[string]float64
}

// kubelet follows the pods of elastic sets until the test ends.
func (b *bed) kubelet() *kubelet {
	k := &kubelet{b: b, pods: map[types.UID]bool{}, asked: map[string]float64{}}
	ctx, stop := context.WithCancel(context.Background())
	work := make(chan func(), 1<<16)
	var working sync.WaitGroup
	for range 16 {
		working.Go(func() {
			for do := range work {
				do()
			}
		})
	}
	all := informers.NewSharedInformerFactoryWithOptions(b.kube, 0, informers.WithNamespace("hpc"),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "slurmlet.dev/elastic" }))
	pods := all.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { work <- k.begins(ctx, now.(*corev1.Pod)) },
		UpdateFunc: func(_, now any) { work <- func() { k.end(ctx, now.(*corev1.Pod)) } },
		DeleteFunc: func(last any) {
			if unknown, is := last.(cache.DeletedFinalStateUnknown); is {
				last = unknown.Obj
			}
			k.lock.Lock()
			defer k.lock.Unlock()
			delete(k.pods, last.(*corev1.Pod).UID)
		},
	})
	require.NoError(b, err)
	all.Start(ctx.Done())
	b.Cleanup(func() {
		stop()
		all.Shutdown()
		close(work)
		working.Wait()
	})
	return k
}

// begins notes a pod, and returns what is to be done for it.
func (k *kubelet) begins(ctx context.Context, p *corev1.Pod) func() {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.pods[p.UID] = true
	k.seen++
	address := fmt.Sprintf("10.%d.%d.%d", 100+k.seen>>16, k.seen>>8&255, k.seen&255)
	return func() { k.run(ctx, p, address) }
}

// run gives a pod its machine and its address. It may have been deleted.
func (k *kubelet) run(ctx context.Context, p *corev1.Pod, address string) {
	all := k.b.kube.CoreV1().Pods(p.Namespace)
	err := all.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: "m1"}}, metav1.CreateOptions{})
	k.note("POST pods/binding")
	if err != nil {
		return
	}
	_ = k.b.hasAddress(ctx, p, address) // it may be gone
	k.note("PATCH pods/status")
}

// end ends a pod that has a machine, and is deleted.
func (k *kubelet) end(ctx context.Context, p *corev1.Pod) {
	if p.DeletionTimestamp == nil || p.Spec.NodeName == "" {
		return
	}
	k.note("DELETE pods")
	err := k.b.kube.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &p.UID}})
	if !gone(err) && !errors.Is(err, context.Canceled) {
		k.b.Errorf("cannot delete %s: %v", p.Name, err)
	}
}

func (k *kubelet) note(request string) {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.asked[request]++
}

// requests are those of the kubelet.
func (k *kubelet) requests() map[string]float64 {
	k.lock.Lock()
	defer k.lock.Unlock()
	return maps.Clone(k.asked)
}

// count is how many pods there are.
func (k *kubelet) count() int {
	k.lock.Lock()
	defer k.lock.Unlock()
	return len(k.pods)
}
