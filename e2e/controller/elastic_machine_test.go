//go:build e2e

package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientv1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// machine plays the scheduler, and the kubelet of m1: a pod gets the machine if that has the labels which the pod wants,
// and a real slurmd if its image is there.
type machine struct {
	s     *started
	pods  clientv1.PodInterface
	nodes map[types.UID]*native.Node
	// said is the last status of each pod.
	said  map[types.UID]string
	count int
}

// machine looks at the pods of elastic sets until the test ends.
func (s *started) machine() {
	m := &machine{s: s, pods: s.kube.CoreV1().Pods("hpc"), nodes: map[types.UID]*native.Node{}, said: map[types.UID]string{}}
	ctx, stop := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			if err := m.look(ctx); err != nil && ctx.Err() == nil {
				s.whole.Logf("the machine tries it again: %v", err) // the API server may be slow
			}
			select {
			case <-ctx.Done():
			case <-time.After(300 * time.Millisecond):
			}
		}
	})
	s.whole.Cleanup(func() {
		stop()
		working.Wait()
	})
}

func (m *machine) look(ctx context.Context) error {
	list, err := m.pods.List(ctx, metav1.ListOptions{LabelSelector: "slurmlet.dev/elastic", ResourceVersion: "0"})
	if err != nil {
		return err
	}
	has, err := m.s.kube.CoreV1().Nodes().Get(ctx, "m1", metav1.GetOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if err := m.lookAt(ctx, &list.Items[i], has.Labels); err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

// lookAt does for a pod what is next.
func (m *machine) lookAt(ctx context.Context, p *corev1.Pod, labels map[string]string) error {
	node := m.nodes[p.UID]
	switch {
	case p.DeletionTimestamp != nil:
		return m.end(ctx, p, node)
	case p.Spec.NodeName == "":
		for key, value := range p.Spec.NodeSelector {
			if labels[key] != value {
				return m.tell(ctx, p, `{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."}]}`)
			}
		}
		return m.pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: "m1"}}, metav1.CreateOptions{})
	case p.Spec.Containers[0].Image != pulled:
		return m.tell(ctx, p, `{"containerStatuses":[{"name":"slurmd","image":"slurm:none","imageID":"","restartCount":0,"ready":false,"state":{"waiting":{"reason":"ErrImagePull","message":"no such image"}}}]}`)
	case node == nil:
		return m.run(ctx, p)
	}
	return nil
}

// run starts a pod's slurmd.
func (m *machine) run(ctx context.Context, p *corev1.Pod) error {
	m.count++
	node := &native.Node{Name: p.Name, IP: net.IPv4(10, 88, 20, byte(m.count)), Ready: make(chan struct{}), Waiting: make(chan struct{}), Exited: make(chan struct{})}
	m.nodes[p.UID] = node
	err := m.s.slurm.Start(node, "SLURMLET_ELASTIC=yes", "SLURMLET_STORAGE_LIMIT=1Gi", "SLURMLET_GRACE_PERIOD=20s")
	return errors.Join(err, m.tell(ctx, p, fmt.Sprintf(`{"phase":"Running","podIP":%[1]q,"podIPs":[{"ip":%[1]q}],"conditions":[{"type":"Ready","status":"True"}]}`, node.IP)))
}

// end ends a pod's slurmd, and then the pod.
func (m *machine) end(ctx context.Context, p *corev1.Pod, node *native.Node) error {
	if node != nil && !node.Ended() {
		if m.said[p.UID] == "" {
			return nil
		}
		m.said[p.UID] = ""
		return node.Terminate()
	}
	return m.pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &p.UID}})
}

// tell patches a pod's status, once.
func (m *machine) tell(ctx context.Context, p *corev1.Pod, status string) error {
	if m.said[p.UID] == status {
		return nil
	}
	m.said[p.UID] = status
	_, err := m.pods.Patch(ctx, p.Name, types.StrategicMergePatchType, []byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
	return err
}
