//go:build e2e

package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// playedSlurm is a gateway with the jobs that slurmctld would have. Its nodes hold for jobs as their agents would say.
type playedSlurm struct {
	b       *bed
	client  *peers.Client
	nodes   map[string]*peers.Client
	mu      sync.Mutex
	jobs    map[uint32]*wire.QueuedJob
	orders  []wire.Order
	changed map[uint32]bool
}

// client is one of a pod's agent that follows no stream.
func (b *bed) client(p *corev1.Pod) *peers.Client {
	b.Helper()
	token := b.file("token-" + string(p.UID))
	require.NoError(b, os.WriteFile(token, []byte(b.token(p.Namespace, "default", p, wire.Audience)), 0o400))
	c, err := peers.NewClient(peers.ClientOptions{
		Address: home + "." + home + ".svc:443", CA: b.bundle(p.Namespace), Token: token, Changed: func(peers.Change) {}, Dial: b.dial,
	})
	require.NoError(b, err)
	return c
}

// gateway speaks for the cluster until the test ends.
func (b *bed) gateway(p *corev1.Pod, nodes map[string]*corev1.Pod) *playedSlurm {
	s := &playedSlurm{b: b, client: b.client(p), nodes: map[string]*peers.Client{}, jobs: map[uint32]*wire.QueuedJob{}, changed: map[uint32]bool{}}
	for name, node := range nodes {
		s.nodes[name] = b.client(node)
	}
	ctx, stop := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() { s.speak(ctx) })
	b.whole.Cleanup(func() {
		stop()
		working.Wait()
	})
	return s
}

func (s *playedSlurm) speak(ctx context.Context) {
	report := wire.GatewayReport{Gateway: "g1", Whole: true}
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, 2*time.Second)
		s.mu.Lock()
		for id, j := range s.jobs {
			if report.Whole || s.changed[id] {
				report.Jobs = append(report.Jobs, *j)
			}
		}
		clear(s.changed)
		s.mu.Unlock()
		answer, err := s.client.ReportJobs(limited, &report)
		cancel()
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
			if limited.Err() == nil {
				report.Whole, report.Jobs = true, nil
				continue
			}
		}
		report = wire.GatewayReport{Gateway: "g1", Whole: answer.All}
		for _, o := range answer.Orders {
			report.Results = append(report.Results, s.carryOut(o))
		}
	}
}

func (s *playedSlurm) carryOut(o wire.Order) wire.OrderResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders = append(s.orders, o)
	r := wire.OrderResult{Order: o.ID}
	j := s.jobs[o.Job]
	switch {
	case o.Kind == wire.Submit:
		j = &wire.QueuedJob{ID: uint32(len(s.jobs) + 7), User: o.User, State: "PENDING", Reason: "Priority"}
		for _, a := range o.Args {
			if comment, is := strings.CutPrefix(a, "--comment="); is {
				j.Comment = comment
			}
		}
		s.jobs[j.ID] = j
	case o.Kind == wire.Find:
		for _, one := range s.jobs {
			if strings.HasPrefix(one.Comment, o.Comment) && one.User == o.User && one.State != "CANCELLED" && one.State != "COMPLETED" {
				j = one
			}
		}
	case j == nil:
	case o.Kind == wire.Cancel:
		j.State = "CANCELLED"
	case o.Kind == wire.Finish:
		j.State = "COMPLETED"
	}
	if j == nil {
		r.None = true
		return r
	}
	r.Job, s.changed[j.ID] = j.ID, true
	return r
}

// change changes a job.
func (s *playedSlurm) change(id uint32, f func(j *wire.QueuedJob)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.jobs[id])
	s.changed[id] = true
}

// job is the job of a group whose comment ends with a name; 0 if there is none.
func (s *playedSlurm) job(name string) wire.QueuedJob {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if strings.HasSuffix(j.Comment, " "+name) {
			return *j
		}
	}
	return wire.QueuedJob{}
}

// grant has a job run on nodes, whose agents hold for it.
func (s *playedSlurm) grant(id uint32, nodes ...string) {
	s.change(id, func(j *wire.QueuedJob) {
		j.State, j.Reason, j.Nodes, j.Start = "RUNNING", "None", nodes, time.Now().Truncate(time.Second)
	})
	for _, node := range nodes {
		s.b.eventually(patience, node+" holds", func() bool { // another replica may have just begun to lead
			return s.nodes[node].ReportStarted(s.b.Context(), wire.Started{Job: id}) == nil
		})
	}
}

// TestBridge has pods wait in the queue of a Slurm that the test plays, with the chart's own policies.
func TestBridge(t *testing.T) {
	t.Parallel()
	values := []string{"--set", "bridge.enabled=true"}
	b := newBedWith(t, []string{home, "hpc", "team", "nobody"}, values...)
	b.apply("bridge", values...)
	s := b.queue("SLURMLET_BRIDGE=true")
	b.run([]story{
		{"a pod has a gate that nobody lifts", s.gates},
		{"a static pod has its mirror, and nobody else names a node", mirrors},
		{"a pod runs on its job's node, and its end ends the job", s.runs},
		{"the end of a job ends its pod, and holds the node until it is gone", s.ends},
		{"a gang of two is one job", s.gang},
		{"all annotations of slurm-bridge, in its own manifests", s.manifests},
		{"a wrong annotation is refused", refusedAnnotations},
		{"pods share nodes where each slurmd says so", s.shares},
		{"what nobody can run and a namespace without a user are told", s.faults},
		{"another leader goes on", s.leaders},
	})
}

// TestQueueWebhook does with the webhook what the policy does where the API server has such policies. The controller has
// its rights in some namespaces alone.
func TestQueueWebhook(t *testing.T) {
	t.Parallel()
	values := []string{"--set", "bridge.enabled=true", "--set", "inject.enabled=false", "--kube-version", "1.35.0", "--set", "namespaces={hpc}", "--set", "bridge.namespaces={team,nobody}"}
	b := newBedWith(t, []string{home, "hpc", "team", "nobody"}, values...)
	b.apply("bridge", values...)
	b.installWebhook(values...)
	said, err := b.kubectl(strings.ReplaceAll(endpoints, "9443", "9543"), "apply", "-f", "-") // another bed may have the port
	require.NoError(b, err, said)
	policies, err := b.kube.AdmissionregistrationV1().MutatingAdmissionPolicies().List(b.Context(), metav1.ListOptions{})
	require.NoError(b, err)
	require.Empty(b, policies.Items)
	s := b.queue("SLURMLET_BRIDGE=true", "SLURMLET_NAMESPACES=hpc", "SLURMLET_BRIDGE_NAMESPACES=team,nobody", "SLURMLET_WEBHOOK="+webhook, "SLURMLET_PEERS=slurmlet.slurmlet.svc:443", "SLURMLET_AGENT_IMAGE=registry.example/agent:1", "SLURMLET_WEBHOOK_ADDRESS=:9543")
	b.run([]story{
		{"a pod has a gate that nobody lifts", s.gates},
		{"a static pod has its mirror, and nobody else names a node", mirrors},
		{"a pod runs on its job's node, and its end ends the job", s.runs},
		{"all annotations of slurm-bridge, in its own manifests", s.manifests},
		{"a wrong annotation is refused", refusedAnnotations},
		{"after the controller's death no pod slips past the queue", func(b *bed) {
			require.NoError(b, b.replicas[0].Stop(20*time.Second))
			_, err := b.kube.CoreV1().Pods("team").Create(b.Context(), userPod("late", nil), metav1.CreateOptions{})
			assert.ErrorContains(b, err, `failed calling webhook "queue.slurmlet.dev"`)
			said, err := b.kubectl("", "delete", "mutatingwebhookconfiguration", webhook)
			require.NoError(b, err, said)
			b.eventually(patience, "the validating policy refuses the pod", func() bool {
				_, err := b.kube.CoreV1().Pods("team").Create(b.Context(), userPod("late", nil), metav1.CreateOptions{})
				require.Error(b, err)
				return strings.Contains(err.Error(), "pods of this namespace wait in Slurm's queue, and this one has no gate slurmlet.dev/slurm")
			})
		}},
	})
	assert.NotContains(t, b.replicas[0].log(), "forbidden", "the chart gives the rights that the controller uses")
}

// queue starts a controller, and plays the cluster's Slurm: two nodes and a gateway.
func (b *bed) queue(environ ...string) *playedSlurm {
	b.annotate("team", `{"slurmlet.dev/cluster":"hpc/slurm","slurmlet.dev/user":"alice","slurmlet.dev/account":"science","slurmlet.dev/allow":"user-id=bob;carol"}`)
	b.annotate("nobody", `{"slurmlet.dev/cluster":"hpc/slurm"}`)
	b.replica(environ...).ready()
	nodes := map[string]*corev1.Pod{}
	for i, name := range []string{"w1", "w2"} {
		machine := fmt.Sprintf("m%d", i+1)
		b.node(machine)
		nodes[name] = b.pod(spec{"hpc", name, "slurm", "slurmd", "cpu", "", machine, []string{fmt.Sprintf("10.1.0.%d", i+1)}})
	}
	login := b.pod(spec{"hpc", "login", "slurm", "login", "", "", "m1", []string{"10.1.0.3"}})
	_, err := b.kube.CoreV1().Pods("hpc").Patch(b.Context(), "login", types.MergePatchType, []byte(`{"metadata":{"labels":{"slurmlet.dev/gateway":"true"}}}`), metav1.PatchOptions{})
	require.NoError(b, err)
	return b.gateway(login, nodes)
}

// shares has the pods with slurmd say that pods in the queue share their machines with each other.
func (s *playedSlurm) shares(b *bed) {
	s.b = b
	mark := func(value string) {
		for _, name := range []string{"w1", "w2"} {
			_, err := b.kube.CoreV1().Pods("hpc").Patch(b.Context(), name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"slurmlet.dev/sharing":`+value+`}}}`), metav1.PatchOptions{})
			require.NoError(b, err)
		}
	}
	asks := func(name, want string) {
		for i := range 100 { // the controller believes some seconds what it has seen
			p := b.user("team", fmt.Sprintf("%s-%d", name, i))
			s.queued(b, "team/"+p.Name)
			args := s.submitted("team/" + p.Name)[0]
			b.delete(p, 0)
			if slices.Contains(args, want) {
				assert.Equal(b, want == "--exclusive=mcs", slices.Contains(args, "--mcs-label=kubernetes"), "%v", args)
				return
			}
		}
		require.Fail(b, "no job asks for "+want)
	}
	asks("alone", "--exclusive")
	mark(`"kubernetes"`)
	asks("together", "--exclusive=mcs")
	mark("null")
	asks("apart", "--exclusive")
}

// annotate marks a namespace.
func (b *bed) annotate(name, annotations string) {
	patch := fmt.Sprintf(`{"metadata":{"labels":{"slurmlet.dev/bridge":"true"},"annotations":%s}}`, annotations)
	_, err := b.kube.CoreV1().Namespaces().Patch(b.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(b, err)
}

// user makes a pod as a user would.
func (b *bed) user(namespace, name string) *corev1.Pod {
	b.Helper()
	made, err := b.kube.CoreV1().Pods(namespace).Create(b.Context(), userPod(name, nil), metav1.CreateOptions{})
	require.NoError(b, err)
	return made
}

func userPod(name string, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       corev1.PodSpec{SchedulerName: "slurm-bridge-scheduler", Containers: []corev1.Container{{Name: "c", Image: "busybox"}}},
	}
}

func (b *bed) podNow(p *corev1.Pod) *corev1.Pod {
	now, err := b.kube.CoreV1().Pods(p.Namespace).Get(b.Context(), p.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(b, err)
	return now
}

// status is the kubelet's.
func (b *bed) status(p *corev1.Pod, status string) {
	_, err := b.kube.CoreV1().Pods(p.Namespace).Patch(b.Context(), p.Name, types.StrategicMergePatchType, []byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
	require.NoError(b, err)
}

// bind is kube-scheduler's.
func (b *bed) bind(p *corev1.Pod, machine string) {
	require.NoError(b, b.kube.CoreV1().Pods(p.Namespace).Bind(b.Context(),
		&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: machine}}, metav1.CreateOptions{}))
	b.status(p, `{"phase":"Running"}`)
}

// said waits for an event on a pod, and returns its note.
func (b *bed) said(p *corev1.Pod, reason string) (note string) {
	b.eventually(patience, reason+" is said of "+p.Name, func() bool {
		list, err := b.kube.EventsV1().Events(p.Namespace).List(b.Context(), metav1.ListOptions{})
		require.NoError(b, err)
		for _, e := range list.Items {
			if e.Regarding.UID == p.UID && e.Reason == reason {
				note = e.Note
				return true
			}
		}
		return false
	})
	return note
}

func (s *playedSlurm) gates(b *bed) {
	s.b = b
	var p *corev1.Pod
	b.eventually(patience, "the policies hold", func() bool {
		var err error
		p, err = b.kube.CoreV1().Pods("team").Create(b.Context(), userPod("gated", nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false // the API server does not trust the webhook yet
		}
		_, fault := b.kube.CoreV1().Pods("team").Create(b.Context(), userPod("gated", map[string]string{"slurmlet.dev/group": "x"}), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return len(p.Spec.SchedulingGates) > 0 && fault != nil
	})
	p = b.user("team", "gated")
	assert.Equal(b, []corev1.PodSchedulingGate{{Name: "slurmlet.dev/slurm"}}, p.Spec.SchedulingGates)
	assert.Equal(b, "true", p.Labels["slurmlet.dev/bridge"])
	assert.Equal(b, "default-scheduler", p.Spec.SchedulerName)
	for name, patch := range map[string]string{
		"the gate":           `[{"op":"remove","path":"/spec/schedulingGates"}]`,
		"the label":          `[{"op":"remove","path":"/metadata/labels/slurmlet.dev~1bridge"}]`,
		"a job":              `[{"op":"add","path":"/metadata/labels/slurmlet.dev~1job","value":"7"}]`,
		"slurm-bridge's job": `[{"op":"add","path":"/metadata/labels/scheduler.slinky.slurm.net~1slurm-jobid","value":"7"}]`,
	} {
		_, err := b.kube.CoreV1().Pods("team").Patch(b.Context(), p.Name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		assert.ErrorContains(b, err, "denied request", name)
	}
	other := b.user("hpc", "free")
	assert.Empty(b, other.Spec.SchedulingGates, "a pod of another namespace")
	b.eventually(patience, "a job stands for the pod", func() bool { return s.job("team/gated").ID != 0 })
	assert.Contains(b, b.said(p, "Queued"), "of the user alice")
	assert.Contains(b, b.said(p, "Waiting"), "waits: Priority.")
	b.delete(p, 0)
	b.eventually(patience, "its job is cancelled", func() bool { return s.job("team/gated").State == "CANCELLED" })
}

// mirrors: a kubelet says by a mirror pod that its machine runs a static pod. The annotation alone has nobody slip past the queue.
func mirrors(b *bed) {
	node, err := b.kube.CoreV1().Nodes().Get(b.Context(), "m1", metav1.GetOptions{})
	require.NoError(b, err)
	mirror := func(name string) *corev1.Pod {
		p := userPod(name, map[string]string{"kubernetes.io/config.mirror": "hash", "kubernetes.io/config.source": "file"})
		p.Spec.NodeName, p.Spec.SchedulerName, p.Spec.PriorityClassName = "m1", "default-scheduler", "system-node-critical"
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "m1", UID: node.UID, Controller: new(true)}}
		return p
	}
	as := func(user, group string) *kubernetes.Clientset {
		path := b.file("as-" + group)
		text, err := b.authority.Kubeconfig("https://"+b.api, user, group)
		require.NoError(b, err)
		require.NoError(b, os.WriteFile(path, text, 0o600))
		config, err := clientcmd.BuildConfigFromFlags("", path)
		require.NoError(b, err)
		client, err := kubernetes.NewForConfig(config)
		require.NoError(b, err)
		return client
	}
	made, err := as("system:node:m1", "system:nodes").CoreV1().Pods("team").Create(b.Context(), mirror("static-m1"), metav1.CreateOptions{})
	require.NoError(b, err)
	assert.Empty(b, made.Spec.SchedulingGates)
	assert.NotContains(b, made.Labels, "slurmlet.dev/bridge")
	b.delete(made, 0)

	const says = "pods of this namespace wait in Slurm's queue, which gives them their node, and this one names a node itself (spec.nodeName)"
	user := userPod("named", nil)
	user.Spec.NodeName = "m1"
	for _, p := range []*corev1.Pod{user, mirror("as-a-mirror")} {
		_, err = b.kube.CoreV1().Pods("team").Create(b.Context(), p, metav1.CreateOptions{})
		assert.ErrorContains(b, err, says, p.Name)
	}
	user.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "slurmlet.dev/slurm"}}
	_, err = b.kube.CoreV1().Pods("team").Create(b.Context(), user, metav1.CreateOptions{})
	assert.ErrorContains(b, err, "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared")
}

// placed has a job run on a node, and waits until its pod may go there.
func (s *playedSlurm) placed(b *bed, p *corev1.Pod, job wire.QueuedJob, machine string, nodes ...string) *corev1.Pod {
	s.grant(job.ID, nodes...)
	var now *corev1.Pod
	b.eventually(patience, p.Name+" has a node", func() bool {
		now = b.podNow(p)
		return len(now.Spec.SchedulingGates) == 0
	})
	term := now.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
	require.Equal(b, []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{machine}}}, term.MatchFields)
	assert.Equal(b, fmt.Sprint(job.ID), now.Labels["slurmlet.dev/job"])
	assert.Equal(b, fmt.Sprint(job.ID), now.Labels["scheduler.slinky.slurm.net/slurm-jobid"])
	return now
}

func (s *playedSlurm) queued(b *bed, name string) (j wire.QueuedJob) {
	s.b = b
	b.eventually(patience, "a job stands for "+name, func() bool {
		j = s.job(name)
		return j.ID != 0
	})
	return j
}

func (s *playedSlurm) runs(b *bed) {
	p := b.user("team", "runs")
	j := s.queued(b, "team/runs")
	assert.Equal(b, "alice", j.User)
	p = s.placed(b, p, j, "m2", "w2")
	assert.Equal(b, "w2", p.Annotations["slurmlet.dev/slurm-node"])
	assert.Contains(b, b.said(p, "Granted"), "its node w2, which is m2")
	b.bind(p, "m2")
	b.status(p, `{"phase":"Failed","containerStatuses":[{"name":"c","image":"x","imageID":"","ready":false,"restartCount":0,"state":{"terminated":{"exitCode":3}}}]}`)
	b.eventually(patience, "the job is finished", func() bool { return s.job("team/runs").State == "COMPLETED" })
	s.mu.Lock()
	last := s.orders[len(s.orders)-1]
	s.mu.Unlock()
	assert.Equal(b, wire.Finish, last.Kind)
	assert.Equal(b, 3, last.Status)
}

func (s *playedSlurm) ends(b *bed) {
	p := b.user("team", "ends")
	j := s.queued(b, "team/ends")
	p = s.placed(b, p, j, "m1", "w1")
	b.bind(p, "m1")
	s.change(j.ID, func(j *wire.QueuedJob) { j.State = "COMPLETING" })
	b.eventually(patience, "the pod is deleted", func() bool { return b.podNow(p).DeletionTimestamp != nil })
	now := b.podNow(p)
	i := slices.IndexFunc(now.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
	require.GreaterOrEqual(b, i, 0, "DisruptionTarget")
	assert.Equal(b, fmt.Sprintf("Slurm job %d has ended: COMPLETING", j.ID), now.Status.Conditions[i].Message)
	limited, cancel := context.WithTimeout(b.Context(), 3*time.Second)
	_, none, _ := s.nodes["w1"].JobPods(limited, j.ID, "w1")
	cancel()
	assert.False(b, none, "the epilog goes on while the pod is there")
	_, none, err := s.nodes["w2"].JobPods(b.Context(), j.ID, "w1")
	assert.False(b, none)
	assert.Error(b, err, "a node asks for another one")
	answer := make(chan bool, 1)
	go func() {
		_, none, err := s.nodes["w1"].JobPods(context.Background(), j.ID, "w1")
		answer <- none && err == nil
	}()
	b.delete(p, 0)
	select {
	case none := <-answer:
		assert.True(b, none, "the pod is gone")
	case <-time.After(30 * time.Second):
		b.Fatal("nobody answers the epilog")
	}
	s.change(j.ID, func(j *wire.QueuedJob) { j.State = "CANCELLED" })
}

func (s *playedSlurm) gang(b *bed) {
	one, two := int32(1), int32(2)
	job, err := b.kube.BatchV1().Jobs("team").Create(b.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "gang", Annotations: map[string]string{"slurmlet.dev/gang": "true"}},
		Spec: batchv1.JobSpec{Parallelism: &two, Completions: &two, BackoffLimit: &one, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "busybox"}},
		}}},
	}, metav1.CreateOptions{})
	require.NoError(b, err)
	var pods []*corev1.Pod
	for i := range 2 { // kube-controller-manager is away
		p := userPod(fmt.Sprintf("gang-%d", i), map[string]string{"batch.kubernetes.io/job-completion-index": fmt.Sprint(i)})
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
		p, err = b.kube.CoreV1().Pods("team").Create(b.Context(), p, metav1.CreateOptions{})
		require.NoError(b, err)
		pods = append(pods, p)
	}
	j := s.queued(b, "team/gang")
	s.mu.Lock()
	i := slices.IndexFunc(s.orders, func(o wire.Order) bool { return o.Kind == wire.Submit && strings.Contains(o.Comment, string(job.UID)) })
	assert.Contains(b, s.orders[i].Args, "--ntasks=2")
	s.mu.Unlock()
	s.placed(b, pods[0], j, "m1", "w1", "w2")
	s.placed(b, pods[1], j, "m2", "w1", "w2")
	for i, p := range pods {
		b.bind(p, fmt.Sprintf("m%d", i+1))
		b.status(p, `{"phase":"Succeeded"}`)
	}
	b.eventually(patience, "the job is finished", func() bool { return s.job("team/gang").State == "COMPLETED" })
}

func (s *playedSlurm) faults(b *bed) {
	p := userPod("wrong", nil)
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}}}
	p, err := b.kube.CoreV1().Pods("team").Create(b.Context(), p, metav1.CreateOptions{})
	require.NoError(b, err)
	assert.Equal(b, "The pod is not submitted: a term of the pod's required node affinity is empty, and Kubernetes lets nobody add a node to it.", b.said(p, "NotSubmitted"))
	q := b.user("nobody", "nobody")
	assert.Contains(b, b.said(q, "NotSubmitted"), "the namespace nobody names no Slurm user")
	assert.NotEmpty(b, b.podNow(q).Spec.SchedulingGates)
	b.annotate("nobody", `{"slurmlet.dev/user":"bob"}`)
	j := s.queued(b, "nobody/nobody")
	assert.Equal(b, "bob", j.User)
	b.delete(p, 0)
	b.delete(q, 0)
}

func (s *playedSlurm) leaders(b *bed) {
	waits, runs := b.user("team", "waits"), b.user("team", "goes-on")
	j, k := s.queued(b, "team/waits"), s.queued(b, "team/goes-on")
	runs = s.placed(b, runs, k, "m1", "w1")
	b.bind(runs, "m1")
	require.NoError(b, b.replicas[0].Stop(5*time.Second))
	b.replicas = nil
	b.replica("SLURMLET_BRIDGE=true").ready()
	b.eventually(patience, "another replica leads", func() bool { return b.replicas[0].leads() })
	s.placed(b, waits, j, "m2", "w2")
	assert.Nil(b, b.podNow(runs).DeletionTimestamp)
	s.mu.Lock()
	submitted := 0
	for _, o := range s.orders {
		text, _ := json.Marshal(o)
		if o.Kind == wire.Submit && strings.Contains(string(text), " team/waits") {
			submitted++
		}
	}
	s.mu.Unlock()
	assert.Equal(b, 1, submitted, "one job")
	b.status(runs, `{"phase":"Succeeded"}`)
	b.eventually(patience, "the job is finished", func() bool { return s.job("team/goes-on").State == "COMPLETED" })
}
