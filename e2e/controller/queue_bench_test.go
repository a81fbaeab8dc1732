//go:build e2e

package controller

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

var benchQueued = flag.Int("queued", 0, "how many `pods` and nodes TestQueueBench has, and pods the case of many pods; 0: they do not run")

// TestQueueBench prints what many pods in Slurm's queue cost: `make bench-queue`. The controller, etcd and kube-apiserver are
// real. The test is the gateway, which has a job for each submission at once, and the nodes' agents.
func TestQueueBench(t *testing.T) {
	n := *benchQueued
	if n == 0 {
		t.Skip("-queued says how many")
	}
	values := []string{"--set", "bridge.enabled=true"}
	b := newBedWith(t, []string{home, "hpc", "team"}, values...)
	b.apply("bridge", values...)
	b.annotate("team", `{"slurmlet.dev/cluster":"hpc/slurm","slurmlet.dev/user":"alice"}`)
	r := b.replica("SLURMLET_BRIDGE=true")
	r.ready()
	c := &crowded{bed: b}
	nodes := make([]*corev1.Pod, n)
	clients := make([]*peers.Client, n)
	c.each(n, func(i int) {
		machine := fmt.Sprintf("m%d", i)
		b.node(machine)
		nodes[i] = b.pod(spec{"hpc", fmt.Sprintf("w%d", i), "slurm", "slurmd", "cpu", "", machine, []string{c.fresh()}})
		b.status(nodes[i], `{"conditions":[{"type":"Ready","status":"True"}]}`)
	})
	b.bundle("hpc")
	c.each(n, func(i int) { clients[i] = b.client(nodes[i]) })
	login := b.pod(spec{"hpc", "login", "slurm", "login", "", "", "m0", []string{c.fresh()}})
	_, err := b.kube.CoreV1().Pods("hpc").Patch(b.Context(), "login", types.MergePatchType, []byte(`{"metadata":{"labels":{"slurmlet.dev/gateway":"true"}}}`), metav1.PatchOptions{})
	require.NoError(b, err)
	s := b.gateway(login, nil)
	b.eventually(patience, "the policies hold", func() bool {
		p, err := b.kube.CoreV1().Pods("team").Create(b.Context(), userPod("gated", nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && len(p.Spec.SchedulingGates) > 0
	})
	q := &queueBench{bed: b, r: r, n: n}
	fmt.Printf("%d pods and nodes; the controller has %.0f MiB before\n", n, r.metric("process_resident_memory_bytes")/(1<<20))

	q.measure("pods are made, and the last has a job", func() {
		began := time.Now()
		c.each(n, func(i int) { b.user("team", fmt.Sprintf("p%d", i)) })
		fmt.Printf("  the last pod was made after %.1f s\n", time.Since(began).Seconds())
		b.eventually(10*time.Minute, "each pod has a job", func() bool { return s.count("PENDING") == n })
	})
	q.measure("jobs run, and the last pod has its node", func() {
		jobs := s.all()
		c.each(n, func(i int) {
			s.change(jobs[i], func(j *wire.QueuedJob) {
				j.State, j.Reason, j.Nodes, j.Start = "RUNNING", "None", []string{fmt.Sprintf("w%d", i)}, time.Now().Truncate(time.Second)
			})
			for clients[i].ReportStarted(b.Context(), wire.Started{Job: jobs[i]}) != nil {
				<-time.After(50 * time.Millisecond)
			}
		})
		fmt.Printf("  the last node holds\n")
		b.eventually(10*time.Minute, "each pod has its node", func() bool { return int(r.metric("slurmlet_controller_queue_pods_placed_total")) >= n })
	})
	q.measure("pods end, and the last job is finished", func() {
		c.each(n, func(i int) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprintf("p%d", i)}}
			b.status(p, `{"phase":"Succeeded"}`)
		})
		b.eventually(10*time.Minute, "each job is finished", func() bool { return s.count("COMPLETED") == n })
	})
}

// count is how many jobs are in a state.
func (s *playedSlurm) count(state string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.State == state {
			n++
		}
	}
	return n
}

// all are the numbers of all jobs.
func (s *playedSlurm) all() []uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.jobs))
}

// queueBench measures a replica.
type queueBench struct {
	*bed
	r *replica
	n int
}

// measure prints what something has cost, and the most memory that the controller had meanwhile.
func (q *queueBench) measure(what string, do func()) {
	before, cpu := q.apiRequests(), q.r.metric("process_cpu_seconds_total")
	ctx, stop := context.WithCancel(q.Context())
	most := 0.0
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			most = max(most, q.r.metric("process_resident_memory_bytes"))
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	began := time.Now()
	do()
	took := time.Since(began)
	stop()
	watching.Wait()
	after := q.apiRequests()
	var words []string
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if n := after[key] - before[key]; n >= 10 {
			words = append(words, fmt.Sprintf("%s %.0f", key, n))
		}
	}
	fmt.Printf("%d %s: %.1f s; the controller used %.1f s of processor time, and %.0f MiB at most\n  kube-apiserver's requests, those of the test among them: %s\n",
		q.n, what, took.Seconds(), q.r.metric("process_cpu_seconds_total")-cpu, most/(1<<20), strings.Join(words, ", "))
}
