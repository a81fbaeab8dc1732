//go:build e2e

package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// spec is a pod as a test wants it.
type spec struct {
	namespace, name, cluster, role, set string
	hostname, machine                   string
	addresses                           []string
}

// pod makes a pod, and says that it runs, as a kubelet would.
func (b *bed) pod(s spec) *corev1.Pod {
	b.Helper()
	labels := map[string]string{}
	for label, value := range map[string]string{"cluster": s.cluster, "role": s.role, "node-set": s.set} {
		if value != "" {
			labels["slurmlet.dev/"+label] = value
		}
	}
	made, err := b.kube.CoreV1().Pods(s.namespace).Create(b.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: labels},
		Spec: corev1.PodSpec{
			Hostname: s.hostname, NodeName: s.machine, AutomountServiceAccountToken: new(bool),
			Containers: []corev1.Container{{Name: "c", Image: "slurm"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(b, err)
	if len(s.addresses) > 0 {
		b.address(made, s.addresses...)
	}
	return made
}

// address gives a pod its addresses.
func (b *bed) address(p *corev1.Pod, addresses ...string) {
	b.Helper()
	require.NoError(b, b.hasAddress(b.Context(), p, addresses...))
}

func (b *bed) hasAddress(ctx context.Context, p *corev1.Pod, addresses ...string) error {
	list := []string{}
	for _, a := range addresses {
		list = append(list, fmt.Sprintf(`{"ip":%q}`, a))
	}
	patch := fmt.Sprintf(`{"status":{"phase":"Running","podIP":%q,"podIPs":[%s]}}`, addresses[0], strings.Join(list, ","))
	_, err := b.kube.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return err
}

// delete deletes a pod; grace 0 as a kubelet does in the end.
func (b *bed) delete(p *corev1.Pod, grace int64) {
	b.Helper()
	err := b.kube.CoreV1().Pods(p.Namespace).Delete(b.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	require.True(b, gone(err), err)
}

// node makes a Kubernetes node.
func (b *bed) node(name string) {
	_, err := b.kube.CoreV1().Nodes().Create(b.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(b, err)
}

// agent is what an agent in a pod does: a stream, and the table that it makes of it.
type agent struct {
	b      *bed
	client *peers.Client
	token  string // the file

	mu    sync.Mutex
	table map[string]wire.Peer
	gone  []wire.Gone
	self  *wire.Self
	// returning is for slurmctld's agent, nil before anything is told.
	returning *wire.Returning
	// missed are names that were wanted at all times, and were not there.
	missed []string
	wanted []string
}

// agent follows the controller from a pod. Its files are as the kubelet would keep them.
func (b *bed) agent(p *corev1.Pod, wanted ...string) *agent {
	b.Helper()
	a := &agent{b: b, token: b.file("token-" + string(p.UID)), table: map[string]wire.Peer{}, wanted: wanted}
	require.NoError(b, os.WriteFile(a.token, []byte(b.token(p.Namespace, "default", p, wire.Audience)), 0o400))
	var err error
	a.client, err = peers.NewClient(peers.ClientOptions{
		Address: home + "." + home + ".svc:443", CA: b.bundle(p.Namespace), Token: a.token, Changed: a.changed, Dial: b.dial,
	})
	require.NoError(b, err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { a.client.Run(ctx) })
	b.Cleanup(func() {
		stop()
		running.Wait()
	})
	return a
}

// dial leads to one of the replicas that are ready, as a Service does.
func (b *bed) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	replicas := slices.Clone(b.replicas)
	rand.Shuffle(len(replicas), func(i, j int) { replicas[i], replicas[j] = replicas[j], replicas[i] })
	for _, r := range replicas {
		if r.get("/readyz") == "200" {
			return (&net.Dialer{}).DialContext(ctx, network, r.peers)
		}
	}
	return nil, errors.New("no replica is ready")
}

// bundle keeps a file as the kubelet keeps a volume of the ConfigMap.
func (b *bed) bundle(namespace string) string {
	file := b.file("ca-" + namespace)
	if _, err := os.Stat(file); err == nil {
		return file
	}
	b.eventually(patience, "the ConfigMap is in "+namespace, func() bool { return b.copyBundle(namespace, file) })
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				b.copyBundle(namespace, file)
			}
		}
	})
	b.whole.Cleanup(func() {
		stop()
		running.Wait()
	})
	return file
}

func (b *bed) copyBundle(namespace, file string) bool {
	m, err := b.kube.CoreV1().ConfigMaps(namespace).Get(context.Background(), "slurmlet-ca", metav1.GetOptions{})
	if err != nil || m.Data["ca.crt"] == "" {
		return false
	}
	return os.WriteFile(file+".new", []byte(m.Data["ca.crt"]), 0o644) == nil && os.Rename(file+".new", file) == nil
}

func (a *agent) changed(c peers.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range c.Gone {
		if a.table[g.Name].UID == g.UID {
			delete(a.table, g.Name)
		}
	}
	a.gone = append(a.gone, c.Gone...)
	if c.Self != nil {
		a.self = c.Self
	}
	if c.Returning != nil {
		a.returning = c.Returning
	}
	for _, p := range c.Put {
		a.table[p.Name] = p
	}
	if len(a.table) == 0 {
		return
	}
	for _, name := range a.wanted {
		if _, there := a.table[name]; !there {
			a.missed = append(a.missed, name)
		}
	}
}

// peer is one of the agent's table.
func (a *agent) peer(name string) (wire.Peer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, there := a.table[name]
	return p, there
}

// told is what Kubernetes knows of the agent's pod, if the controller has told it.
func (a *agent) told() (wire.Self, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.self == nil {
		return wire.Self{}, false
	}
	return *a.self, true
}

func (a *agent) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.table))
}

// has waits for a peer with these addresses.
func (a *agent) has(name string, addresses ...string) wire.Peer {
	a.b.Helper()
	var want []netip.Addr
	for _, text := range addresses {
		want = append(want, netip.MustParseAddr(text))
	}
	a.b.eventually(patience, fmt.Sprintf("%s has the addresses %v", name, addresses), func() bool {
		p, there := a.peer(name)
		return there && slices.Equal(p.Addresses, want)
	})
	p, _ := a.peer(name)
	return p
}

// loses waits until a peer is gone, and says whether its machine is lost.
func (a *agent) loses(p *corev1.Pod) (lost bool) {
	a.b.Helper()
	a.b.eventually(patience, p.Name+" is gone", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		i := slices.IndexFunc(a.gone, func(g wire.Gone) bool { return g.UID == string(p.UID) })
		if i >= 0 {
			lost = a.gone[i].Lost
		}
		return i >= 0
	})
	return lost
}

// follows waits until the stream stands.
func (a *agent) follows() {
	a.b.Helper()
	a.b.eventually(patience, "the stream stands", func() bool { return a.client.Status().Connected })
}
