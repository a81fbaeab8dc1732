package pods

import (
	"context"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/slurmlet/slurmlet/controller/internal/fakekube"
	"github.com/slurmlet/slurmlet/controller/internal/machines"
	"github.com/slurmlet/slurmlet/controller/internal/namespaces"
	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// tables are the clusters' tables, and the peers that were taken out as lost.
type tables struct {
	*peerserver.Server
	lost []string
	puts int
}

func (t *tables) Put(cluster string, claim peerserver.Claim) (*peerserver.Conflict, error) {
	t.puts++
	return t.Server.Put(cluster, claim)
}

func (t *tables) Delete(cluster, uid string, lost bool) string {
	if lost {
		t.lost = append(t.lost, uid)
	}
	return t.Server.Delete(cluster, uid, lost)
}

// newWatcher makes one that is told by the test; e2e/controller has Kubernetes.
func newWatcher(t *testing.T) (*Watcher, *tables) {
	t.Helper()
	api, err := kubernetes.NewForConfig(&rest.Config{})
	require.NoError(t, err)
	to := &tables{Server: peerserver.NewServer(peerserver.ServerOptions{})}
	rules, err := machines.Parse(machines.Settings{})
	require.NoError(t, err)
	w, err := New(api, namespaces.Set{}, to, rules, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return w, to
}

var old = time.Now().Add(-time.Hour)

// pod is a slurmd's, changed by others.
func pod(uid string, changes ...func(*corev1.Pod)) *Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "hpc", Name: "cpu-" + uid, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(old),
			Labels: map[string]string{ClusterLabel: "slurm", RoleLabel: "slurmd", NodeSetLabel: "cpu"},
		},
		Spec:   corev1.PodSpec{NodeName: "m1"},
		Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}},
	}
	for _, change := range changes {
		change(p)
	}
	trimmed, _ := trimPod(p) // no pod is refused
	return trimmed.(*Pod)
}

func on(machine string) func(*corev1.Pod)  { return func(p *corev1.Pod) { p.Spec.NodeName = machine } }
func called(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Hostname = name } }
func labelled(role string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[RoleLabel] = role }
}

func of(cluster string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[ClusterLabel] = cluster }
}

func made(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp.Time = at }
}

func in(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func node(outOfService bool) *machine {
	return &machine{ObjectMeta: metav1.ObjectMeta{Name: "m1"}, Machine: machines.Machine{OutOfService: outOfService}}
}

func TestTrim(t *testing.T) {
	override, now := "node7.hpc", metav1.Now()
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   func(*wire.Peer)
	}{
		"as it is":           {func(*corev1.Pod) {}, func(*wire.Peer) {}},
		"a host name":        {called("node7"), func(p *wire.Peer) { p.Name = "node7" }},
		"another host name":  {func(p *corev1.Pod) { p.Spec.HostnameOverride = &override }, func(p *wire.Peer) { p.Name = "node7.hpc" }},
		"a long name":        {func(p *corev1.Pod) { p.Name = strings.Repeat("a", 62) + "-b" }, func(p *wire.Peer) { p.Name = strings.Repeat("a", 62) }},
		"on its way":         {func(p *corev1.Pod) { p.DeletionTimestamp = &now }, func(p *wire.Peer) { p.Ending = true }},
		"without an address": {func(p *corev1.Pod) { p.Status.PodIPs = nil }, func(p *wire.Peer) { p.Addresses = nil }},
		"on no machine yet":  {on(""), func(p *wire.Peer) { p.Machine = "" }},
	} {
		want := wire.Peer{
			Name: "cpu-1", Role: "slurmd", NodeSet: "cpu", UID: "1", Machine: "m1",
			Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
		}
		c.want(&want)
		assert.Equal(t, want, pod("1", c.change).claim().Peer, name)
	}
	again, err := trimPod(pod("1"))
	assert.NoError(t, err)
	assert.Equal(t, pod("1"), again, "a Pod stays one")
}

// TestMachines: what Kubernetes says of a machine decides whether its pods are lost.
func TestMachines(t *testing.T) {
	w, to := newWatcher(t)
	w.machineIs(node(false))
	w.put(pod("1"))
	w.put(pod("2", on("m2"))) // nobody has told of m2 yet
	assert.Equal(t, 2, to.Stats().Peers)

	w.machineIs(node(true))
	assert.Equal(t, []string{"1"}, to.lost)
	w.machineIs(node(false))
	assert.Equal(t, 2, to.Stats().Peers, "it is back in service")
	w.machineGone(node(false))
	assert.Equal(t, []string{"1", "1"}, to.lost)
	w.remove(pod("1"))
	assert.Equal(t, []string{"1", "1"}, to.lost, "it was taken out before")

	w.remove(pod("2", on("m2")))
	assert.Equal(t, []string{"1", "1", "2"}, to.lost, "Kubernetes deletes the pods of a machine that it does not have")
	w.put(pod("3", on("m3"), made(time.Now())))
	w.remove(pod("3", on("m3"), made(time.Now())))
	assert.Len(t, to.lost, 3, "Kubernetes will tell of m3 in a moment")
	assert.Empty(t, w.machines)
	assert.Empty(t, w.known)
	assert.Empty(t, w.Namespaces())
}

// TestOneName: the pod that does not have its name gets it when the other one goes.
func TestOneName(t *testing.T) {
	w, to := newWatcher(t)
	first, second := pod("1", called("n")), pod("2", called("n"), made(old.Add(time.Second)))
	w.put(second)
	assert.Equal(t, 0, w.Faults()[nameTaken])
	w.put(first)
	w.put(second)
	assert.Equal(t, 1, w.Faults()[nameTaken])
	assert.Equal(t, "The pod cpu-1 has the name n in this cluster, so no agent is told this pod's address.", w.faults.all["2"].Note)
	w.put(pod("1", called("n"), in(corev1.PodFailed)))
	assert.Equal(t, 0, w.Faults()[nameTaken])
	assert.Equal(t, 1, to.Stats().Peers)
	w.remove(second)
	w.remove(first)
	assert.Zero(t, to.Stats().Clusters)
}

// TestMovedName: a holder without an address gives its name to the next pod.
func TestMovedName(t *testing.T) {
	w, _ := newWatcher(t)
	w.put(pod("1", called("n")))
	w.put(pod("2", called("n"), made(old.Add(time.Second))))
	assert.True(t, w.faults.has("2"))
	w.put(pod("1", called("n"), func(p *corev1.Pod) { p.Status.PodIPs = nil }))
	assert.True(t, w.faults.has("1"))
	assert.False(t, w.faults.has("2"))
}

// TestManyOfOneName: thousands of pods of one name cost as much as others.
func TestManyOfOneName(t *testing.T) {
	const many = 1000
	w, to := newWatcher(t)
	var log strings.Builder
	w.log = slog.New(slog.NewTextHandler(&log, nil))
	all := make([]*Pod, many)
	for i := range all {
		all[i] = pod(strconv.Itoa(i), called("worker"), made(old.Add(time.Duration(i)*time.Second)))
		w.put(all[i])
	}
	assert.Equal(t, many-1, w.Faults()[nameTaken])
	for i, p := range all { // the one that has the name goes each time
		assert.True(t, w.Holds(p))
		w.remove(p)
		assert.Equal(t, max(0, many-2-i), w.Faults()[nameTaken])
	}
	assert.Equal(t, many, to.puts, "each pod is judged once")
	assert.Zero(t, to.Stats().Clusters)
	assert.Less(t, strings.Count(log.String(), "a pod is no peer"), many/2)
}

// TestFaultsOfPods: each has its reason, and goes on when it is mended.
func TestFaultsOfPods(t *testing.T) {
	w, to := newWatcher(t)
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		reason string
	}{
		"no role":                {func(p *corev1.Pod) { delete(p.Labels, RoleLabel) }, noRole},
		"a role of others":       {labelled("mariadb"), unknownRole},
		"a name like an address": {called("10.0.0.1"), badName},
	} {
		w.put(pod("1", c.change))
		assert.Equal(t, 1, w.Faults()[c.reason], name)
		assert.Zero(t, to.Stats().Peers, name)
		w.put(pod("1"))
		assert.Zero(t, w.Faults()[c.reason], name)
		assert.Equal(t, 1, to.Stats().Peers, name)
	}
}

func TestAnotherCluster(t *testing.T) {
	w, to := newWatcher(t)
	w.put(pod("1"))
	w.put(pod("1", of("other")))
	assert.Equal(t, 1, to.Stats().Clusters)
	assert.Equal(t, 1, to.Stats().Peers)
	w.podChanged(pod("1", of("other")), pod("2"))
	assert.Equal(t, 1, to.Stats().Peers, "deleted and made again between two looks")
	assert.Equal(t, []string{"hpc"}, w.Namespaces())
}

// TestNotTaken: an event of slurmctld's pod names the cluster whose reports are not taken, once an hour.
func TestNotTaken(t *testing.T) {
	ctl := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "ctl", UID: "1", Labels: map[string]string{ClusterLabel: "slurm", RoleLabel: "slurmctld"}}}
	api := fakekube.New(ctl)
	rules, err := machines.Parse(machines.Settings{})
	require.NoError(t, err)
	w, err := New(api, namespaces.Set{}, peerserver.NewServer(peerserver.ServerOptions{}), rules, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx, func() {}) })
	defer func() { cancel(); running.Wait() }()
	id := peerserver.Identity{Cluster: "hpc/slurm", Pod: "hpc/ctl", UID: "1", Role: "slurmctld"}
	require.Eventually(t, func() bool { return w.HasSlurmctld("hpc/slurm") }, time.Minute, time.Millisecond)
	for range 1000 {
		w.NotTaken(id, &peerserver.NotTaken{Reason: peerserver.TooLong, Note: "the report has more than 8 MiB"})
	}
	w.NotTaken(peerserver.Identity{Cluster: "hpc/slurm", Pod: "hpc/ctl", UID: "2"}, &peerserver.NotTaken{Reason: peerserver.TooLong})
	one, there := w.faults.queue.Next()
	require.True(t, there)
	e := one.Event
	assert.Equal(t, "The controller does not take what slurmctld's agent tells of the nodes of the cluster hpc/slurm: the report has more than 8 MiB.", e.Note)
	assert.Equal(t, []string{"TooLong", "Warning", "TakeReport", "ctl"}, []string{e.Reason, e.Type, e.Action, e.Regarding.Name})
	w.faults.queue.Done(one)
	_, there = w.faults.queue.Next()
	assert.False(t, there)
	assert.False(t, w.faults.mayTell(subject{"1", peerserver.TooLong}, time.Now()))
	assert.True(t, w.faults.mayTell(subject{"1", peerserver.TooLong}, time.Now().Add(sayAgain)))
	require.NoError(t, api.CoreV1().Pods("hpc").Delete(ctx, "ctl", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool { return !w.HasSlurmctld("hpc/slurm") && len(w.Namespaces()) == 0 }, time.Minute, time.Millisecond)
	w.faults.mu.Lock()
	defer w.faults.mu.Unlock()
	assert.Empty(t, w.faults.said)
}
