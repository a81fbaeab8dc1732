//go:build e2e

package controller

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/daemon"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// TestWorkloads has real makers of pods in groups work with the queue: kube-controller-manager, and the controllers of
// JobSet and LeaderWorkerSet with their webhooks. kube-scheduler binds. The test plays Slurm and the kubelets.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	values := []string{"--set", "bridge.enabled=true"}
	b := &bed{T: t, whole: t, dir: t.TempDir()}
	b.startPlane("--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true")
	for _, name := range []string{home, "hpc", "team"} {
		b.namespace(name)
	}
	b.install(values...)
	b.apply("bridge", values...)
	b.annotate("team", `{"slurmlet.dev/cluster":"hpc/slurm","slurmlet.dev/user":"alice"}`)
	b.startMakers()
	b.replica("SLURMLET_BRIDGE=true").ready()
	nodes := map[string]*corev1.Pod{}
	for i := range 6 {
		node, machine := fmt.Sprintf("w%d", i+1), fmt.Sprintf("m%d", i+1)
		b.machine(machine)
		nodes[node] = b.pod(spec{"hpc", node, "slurm", "slurmd", "cpu", "", machine, []string{fmt.Sprintf("10.1.0.%d", i+1)}})
	}
	login := b.pod(spec{"hpc", "login", "slurm", "login", "", "", "m1", []string{"10.1.1.1"}})
	_, err := b.kube.CoreV1().Pods("hpc").Patch(b.Context(), "login", types.MergePatchType, []byte(`{"metadata":{"labels":{"slurmlet.dev/gateway":"true"}}}`), metav1.PatchOptions{})
	require.NoError(b, err)
	s := b.gateway(login, nodes)
	b.playKubelets("team")
	b.run([]story{
		{"the controllers are ready", s.makersReady},
		{"each pod of a Job is a job, and a gang is one", s.kubernetesJobs},
		{"a gang with more completions than pods at once keeps its job", s.waves},
		{"slurm-bridge's own Job and LeaderWorkerSet", s.slinky},
		{"a JobSet is one job, and keeps it when it restarts", s.jobSet},
		{"each group of a LeaderWorkerSet is one job, and keeps it when it is made anew", s.leaderWorkerSet},
		{"a PodGroup of scheduling.x-k8s.io may come after its pods", s.podGroup},
		{"a PodGroup whose pods nobody makes any more", s.podGroupEnds},
		{"a PodGroup of scheduling.k8s.io", s.builtInPodGroup},
	})
	assert.NotContains(t, b.replicas[0].log(), "forbidden", "the chart gives the rights that the controller uses")
}

// startMakers starts what makes pods. The controllers' webhooks have certificates of the bed's.
func (b *bed) startMakers() {
	admin := b.file("admin")
	client := []string{
		"--kubeconfig", admin, "--authentication-kubeconfig", admin, "--authorization-kubeconfig", admin,
		"--bind-address", b.host, "--leader-elect=false", "--cert-dir", b.dir,
	}
	b.start(&daemon.Daemon{Name: "kube-controller-manager", Args: append(slices.Clone(client),
		"--controllers=job-controller,statefulset-controller,garbage-collector-controller")}, filepath.Join(given.Programs, "kube-controller-manager"))
	b.start(&daemon.Daemon{Name: "kube-scheduler", Args: append(slices.Clone(client), "--feature-gates=GenericWorkload=true")}, filepath.Join(given.Programs, "kube-scheduler"))
	pair, err := b.authority.Server(b.host)
	require.NoError(b, err)
	certificates := b.file("webhooks")
	require.NoError(b, os.Mkdir(certificates, 0o700))
	b.write(filepath.Join(certificates, "tls.crt"), pair.Certificate)
	b.write(filepath.Join(certificates, "tls.key"), pair.Key)
	b.define("podgroup-crd.yaml")
	for name, port := range map[string]int{"jobset": 9601, "lws": 9611} {
		b.define(name + "-crd.yaml")
		b.write(b.file(name+".yaml"), fmt.Appendf(nil, `
apiVersion: config.%s.x-k8s.io/v1alpha1
kind: Configuration
webhook: {host: %q, port: %d, certDir: %s}
health: {healthProbeBindAddress: "%[2]s:%[5]d"}
metrics: {bindAddress: "0"}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
`, name, b.host, port, certificates, port+1))
		b.start(&daemon.Daemon{Name: name, Args: []string{"--config", b.file(name + ".yaml")}, Env: []string{"KUBECONFIG=" + admin}}, filepath.Join(given.Workloads, name))
	}
}

// define makes what a controller's own file defines.
func (b *bed) define(file string) {
	said, err := b.kubectl("", "create", "-f", filepath.Join(given.Workloads, file))
	require.NoError(b, err, said)
}

// services are the webhooks' in the files of their projects, whose kustomizations give them names and certificates.
var services = regexp.MustCompile(`(?m)^    service:\n      name: webhook-service\n      namespace: system\n      path: (\S+)$`)

// makersReady has the API server ask the webhooks when they serve.
func (s *playedSlurm) makersReady(b *bed) {
	s.b = b
	for name, port := range map[string]int{"jobset": 9601, "lws": 9611} {
		b.eventually(patience, name+" is ready", func() bool {
			answer, err := http.Get("http://" + net.JoinHostPort(b.host, fmt.Sprint(port+1)) + "/readyz")
			if err != nil {
				return false
			}
			answer.Body.Close()
			conn, err := net.Dial("tcp", net.JoinHostPort(b.host, fmt.Sprint(port)))
			if err != nil {
				return false
			}
			conn.Close()
			return answer.StatusCode == http.StatusOK
		})
		text, err := os.ReadFile(filepath.Join(given.Workloads, name+"-webhooks.yaml"))
		require.NoError(b, err)
		require.Len(b, services.FindAll(text, -1), 4)
		text = services.ReplaceAll(text, fmt.Appendf(nil, "    url: https://%s:%d${1}\n    caBundle: %s", b.host, port, base64.StdEncoding.EncodeToString(b.authority.Certificate)))
		objects := strings.NewReplacer(" mutating-webhook-configuration", " "+name, " validating-webhook-configuration", " "+name).Replace(string(text))
		said, err := b.kubectl(objects, "create", "-f", "-")
		require.NoError(b, err, said)
	}
}

// machine is a Kubernetes node with room, as a kubelet and kube-controller-manager would have it.
func (b *bed) machine(name string) {
	b.node(name)
	_, err := b.kube.CoreV1().Nodes().Patch(b.Context(), name, types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
	require.NoError(b, err)
	room := `{"cpu":"8","memory":"32Gi","pods":"100"}`
	_, err = b.kube.CoreV1().Nodes().Patch(b.Context(), name, types.MergePatchType,
		[]byte(`{"status":{"capacity":`+room+`,"allocatable":`+room+`,"conditions":[{"type":"Ready","status":"True"}]}}`), metav1.PatchOptions{}, "status")
	require.NoError(b, err)
}

// playKubelets starts pods that are bound, and ends those that somebody deletes, until the test ends.
func (b *bed) playKubelets(namespace string) {
	stop, ended := make(chan struct{}), make(chan struct{})
	b.whole.Cleanup(func() {
		close(stop)
		<-ended
	})
	pods := b.kube.CoreV1().Pods(namespace)
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			list, err := pods.List(b.whole.Context(), metav1.ListOptions{})
			if err != nil {
				continue
			}
			for _, p := range list.Items {
				status := func(text string) {
					_, _ = pods.Patch(b.whole.Context(), p.Name, types.StrategicMergePatchType, []byte(`{"metadata":{"uid":"`+string(p.UID)+`"},"status":`+text+`}`), metav1.PatchOptions{}, "status")
				}
				switch {
				case p.Spec.NodeName == "":
				case p.DeletionTimestamp != nil && p.Status.Phase == corev1.PodRunning:
					status(`{"phase":"Failed","containerStatuses":[` + terminated("c", 143) + `]}`)
				case p.DeletionTimestamp != nil:
					_ = pods.Delete(b.whole.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &p.UID}})
				case p.Status.Phase == corev1.PodPending:
					status(`{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`)
				}
			}
		}
	}()
}

func terminated(container string, code int) string {
	return fmt.Sprintf(`{"name":%q,"image":"x","imageID":"","ready":false,"restartCount":0,"state":{"terminated":{"exitCode":%d}}}`, container, code)
}

// succeeds and fails are the ends of a pod's containers.
func (b *bed) succeeds(p *corev1.Pod) { b.status(p, `{"phase":"Succeeded"}`) }

func (b *bed) fails(p *corev1.Pod) {
	b.status(p, `{"phase":"Failed","containerStatuses":[`+terminated("c", 3)+`]}`)
}

// manifest makes objects as a user would.
func (b *bed) manifest(text string) {
	b.Helper()
	said, err := b.kubectl(text, "create", "-n", "team", "-f", "-")
	require.NoError(b, err, said)
}

// podsWith are the pods with a label that nobody deletes, by name.
func (b *bed) podsWith(selector string) (all []*corev1.Pod) {
	b.Helper()
	list, err := b.kube.CoreV1().Pods("team").List(b.Context(), metav1.ListOptions{LabelSelector: selector})
	require.NoError(b, err)
	for i := range list.Items {
		if p := &list.Items[i]; p.DeletionTimestamp == nil {
			all = append(all, p)
		}
	}
	return all
}

// running waits until so many pods with a label run that are none of others, and returns them.
func (b *bed) running(n int, selector string, others ...*corev1.Pod) (all []*corev1.Pod) {
	b.Helper()
	b.eventually(patience, fmt.Sprintf("%d pods of %s run", n, selector), func() bool {
		all = nil
		for _, p := range b.podsWith(selector) {
			if p.Status.Phase == corev1.PodRunning && !slices.ContainsFunc(others, func(o *corev1.Pod) bool { return o.UID == p.UID }) {
				all = append(all, p)
			}
		}
		return len(all) == n
	})
	return all
}

// on are the machines of pods by their names' beginnings: a Job adds letters of its own.
func on(pods []*corev1.Pod) map[string]string {
	found := map[string]string{}
	for _, p := range pods {
		name := p.Name
		if p.GenerateName != "" {
			name = strings.TrimSuffix(p.GenerateName, "-")
		}
		found[name] = p.Spec.NodeName
	}
	return found
}

// submitted are the arguments of each job whose comment has a name that begins so.
func (s *playedSlurm) submitted(prefix string) (all [][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		if o.Kind == wire.Submit && slices.ContainsFunc(o.Args, func(a string) bool { return strings.HasPrefix(a, "--comment=") && strings.Contains(a, " "+prefix) }) {
			all = append(all, o.Args)
		}
	}
	return all
}

// status is the exit status that the last order to finish a job had; -1 without one.
func (s *playedSlurm) status(job uint32) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range slices.Backward(s.orders) {
		if o.Kind == wire.Finish && o.Job == job {
			return o.Status
		}
	}
	return -1
}

// finished waits until a job is finished.
func (s *playedSlurm) finished(b *bed, name string) {
	b.Helper()
	b.eventually(patience, "the job of "+name+" is finished", func() bool { return s.job(name).State == "COMPLETED" })
}

// ordered waits until the end of a job is ordered, long before its pods' places would be given up.
func (s *playedSlurm) ordered(b *bed, name string) {
	b.Helper()
	b.eventually(time.Minute, "the end of the job of "+name+" is ordered", func() bool { return s.job(name).State != "RUNNING" })
}

const container = `{name: c, image: busybox, command: [sleep, "60"], resources: {requests: {cpu: 2}}}`

func (s *playedSlurm) kubernetesJobs(b *bed) {
	s.b = b
	b.manifest(`
apiVersion: batch/v1
kind: Job
metadata: {name: plain, annotations: {slurmjob.slinky.slurm.net/partition: gpu}}
spec: {parallelism: 2, completions: 2, template: {spec: {restartPolicy: Never, containers: [` + container + `]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: gang, annotations: {slurmlet.dev/gang: "true"}}
spec: {parallelism: 5, completions: 2, completionMode: Indexed, template: {spec: {restartPolicy: Never, containers: [` + container + `]}}}
`)
	b.eventually(patience, "three jobs stand for both", func() bool { return len(s.submitted("team/plain-"))+len(s.submitted("team/gang")) == 3 })
	for _, args := range s.submitted("team/plain-") {
		assert.Subset(b, args, []string{"--ntasks=1", "--partition=gpu", "--cpus-per-task=2"})
	}
	assert.Subset(b, s.submitted("team/gang")[0], []string{"--ntasks=2", "--nodes=2"}, "a Job has no more pods than completions")
	for _, p := range b.podsWith("job-name=plain") {
		s.grant(s.queued(b, "team/"+p.Name).ID, "w5")
	}
	gang := s.queued(b, "team/gang")
	s.grant(gang.ID, "w1", "w2")
	for _, p := range b.running(2, "job-name=plain") {
		assert.Equal(b, "m5", p.Spec.NodeName)
		b.succeeds(p)
		s.finished(b, "team/"+p.Name)
	}
	pods := b.running(2, "job-name=gang")
	assert.Equal(b, map[string]string{"gang-0": "m1", "gang-1": "m2"}, on(pods), "the completion index is the task")
	b.fails(pods[0])
	for _, p := range b.running(1, "job-name=gang", pods...) {
		assert.Equal(b, pods[0].Spec.NodeName, p.Spec.NodeName, "the next pod has the task of the one that failed")
	}
	said, err := b.kubectl("", "delete", "job", "gang", "-n", "team")
	require.NoError(b, err, said)
	began := time.Now()
	s.ordered(b, "team/gang")
	b.Logf("%v after the Job's end, its job's end is ordered", time.Since(began).Round(time.Second/10))
}

// waves: the pods of the second wave run in the tasks of the first one's.
func (s *playedSlurm) waves(b *bed) {
	s.b = b
	b.manifest(`
apiVersion: batch/v1
kind: Job
metadata: {name: waves, annotations: {slurmlet.dev/gang: "true"}}
spec: {parallelism: 2, completions: 4, template: {spec: {restartPolicy: Never, containers: [` + container + `]}}}
`)
	j := s.queued(b, "team/waves")
	s.grant(j.ID, "w1", "w2")
	first := b.running(2, "job-name=waves")
	for _, p := range first {
		b.succeeds(p)
	}
	second := b.running(2, "job-name=waves", first...)
	assert.Equal(b, "RUNNING", s.job("team/waves").State)
	for _, p := range second {
		assert.Equal(b, fmt.Sprint(j.ID), p.Labels["slurmlet.dev/job"])
		b.succeeds(p)
	}
	s.finished(b, "team/waves")
	assert.Equal(b, 0, s.status(j.ID))
	assert.Len(b, s.submitted("team/waves"), 1)
}

// podGroupEnds: a PodGroup has no end of its own. Its Slurm job ends with the Job that makes its pods, and at once where nobody does.
func (s *playedSlurm) podGroupEnds(b *bed) {
	s.b = b
	b.manifest(`
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: fails}
spec: {minMember: 2}
---
apiVersion: batch/v1
kind: Job
metadata: {name: fails}
spec:
  parallelism: 2
  completions: 2
  backoffLimit: 0
  template: {metadata: {labels: {scheduling.x-k8s.io/pod-group: fails}}, spec: {restartPolicy: Never, containers: [` + container + `]}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: bare}
spec: {minMember: 2}
---
apiVersion: v1
kind: Pod
metadata: {name: bare-a, labels: {app: bare, scheduling.x-k8s.io/pod-group: bare}}
spec: {restartPolicy: Never, containers: [` + container + `]}
---
apiVersion: v1
kind: Pod
metadata: {name: bare-b, labels: {app: bare, scheduling.x-k8s.io/pod-group: bare}}
spec: {restartPolicy: Never, containers: [` + container + `]}
`)
	fails, bare := s.queued(b, "team/fails"), s.queued(b, "team/bare")
	s.grant(fails.ID, "w1", "w2")
	s.grant(bare.ID, "w3", "w4")
	pods := b.running(2, "job-name=fails")
	b.fails(pods[0])
	began := time.Now()
	s.ordered(b, "team/fails")
	b.Logf("%v after a pod's failure, which fails the Job, its job's end is ordered", time.Since(began).Round(time.Second/10))
	assert.Equal(b, 1, s.status(fails.ID))
	pods = b.running(2, "app=bare")
	b.fails(pods[0])
	b.succeeds(pods[1])
	s.ordered(b, "team/bare")
	assert.Equal(b, 3, s.status(bare.ID), "the greatest exit status of its pods")
}

// slinky has two manifests of slurm-bridge's (docs/workload.md, hack/examples/lws), their namespace apart.
func (s *playedSlurm) slinky(b *bed) {
	s.b = b
	b.manifest(`
apiVersion: batch/v1
kind: Job
metadata:
  name: sleep
  # Slurm job annotations on the Job, not spec.template.metadata
  annotations:
    slurmjob.slinky.slurm.net/timelimit: "5"
    slurmjob.slinky.slurm.net/account: foo
spec:
  template:
    spec:
      schedulerName: slurm-bridge-scheduler
      restartPolicy: Never
      containers:
        - name: sleep
          image: busybox:stable
          command: [sh, -c, sleep 3]
          resources:
            limits:
              cpu: "1"
              memory: 100Mi
---
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata:
  name: vllm
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 3
    restartPolicy: RecreateGroupOnPodRestart
    leaderTemplate:
      metadata:
        labels:
          role: leader
      spec:
        schedulerName: slurm-bridge-scheduler
        containers:
          - name: leader
            image: busybox:stable
            command: [sh, -c, sleep infinite]
    workerTemplate:
      spec:
        schedulerName: slurm-bridge-scheduler
        containers:
          - name: worker
            image: busybox:stable
            command: [sh, -c, sleep infinite]
`)
	b.eventually(patience, "three jobs stand for both", func() bool { return len(s.submitted("team/sleep-"))+len(s.submitted("team/vllm-")) == 3 })
	assert.Subset(b, s.submitted("team/sleep-")[0], []string{"--ntasks=1", "--time=5", "--account=foo", "--mem=100M"})
	assert.Subset(b, s.submitted("team/vllm-")[0], []string{"--ntasks=3", "--nodes=3", "--exclusive"})
	said, err := b.kubectl("", "delete", "job/sleep", "lws/vllm", "-n", "team")
	require.NoError(b, err, said)
	for _, name := range []string{"team/vllm-0", "team/vllm-1"} {
		b.eventually(patience, name+" leaves the queue", func() bool { return s.job(name).State == "CANCELLED" })
	}
}

func (s *playedSlurm) jobSet(b *bed) {
	s.b = b
	job := func(name string, replicas, pods int) string {
		return fmt.Sprintf(`
    - name: %s
      replicas: %d
      template: {spec: {backoffLimit: 0, parallelism: %d, completions: %[3]d, template: {spec: {restartPolicy: Never, containers: [%[4]s]}}}}`, name, replicas, pods, container)
	}
	b.manifest(`
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, annotations: {slurmjob.slinky.slurm.net/timelimit: "5", slurmjob.slinky.slurm.net/job-name: deep}}
spec:
  failurePolicy: {maxRestarts: 1}
  replicatedJobs:` + job("driver", 1, 1) + job("workers", 2, 2))
	j := s.queued(b, "team/train")
	args := s.submitted("team/train")[0]
	assert.Subset(b, args, []string{"--ntasks=5", "--nodes=5", "--time=5", "--job-name=deep", "--requeue"})
	s.grant(j.ID, "w1", "w2", "w3", "w4", "w5")
	const all = "jobset.sigs.k8s.io/jobset-name=train"
	want := map[string]string{"train-driver-0-0": "m1", "train-workers-0-0": "m2", "train-workers-0-1": "m3", "train-workers-1-0": "m4", "train-workers-1-1": "m5"}
	first := b.running(5, all)
	assert.Equal(b, want, on(first), "the Jobs' pods follow one another")
	b.fails(first[0])
	second := b.running(5, all, first...)
	assert.Equal(b, want, on(second), "and so they do after a restart")
	assert.Len(b, s.submitted("team/train"), 1, "the job goes on")
	assert.Equal(b, "RUNNING", s.job("team/train").State)
	for _, p := range second {
		b.succeeds(p)
	}
	s.finished(b, "team/train")
	assert.Equal(b, 0, s.status(j.ID))
}

func (s *playedSlurm) leaderWorkerSet(b *bed) {
	s.b = b
	b.manifest(`
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: serve, annotations: {slurmjob.slinky.slurm.net/partition: gpu}}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 3
    restartPolicy: RecreateGroupOnPodRestart
    workerTemplate: {spec: {containers: [` + container + `]}}
`)
	j, k := s.queued(b, "team/serve-0"), s.queued(b, "team/serve-1")
	s.grant(j.ID, "w1", "w2", "w3")
	s.grant(k.ID, "w4", "w5", "w6")
	const zero, one = "leaderworkerset.sigs.k8s.io/name=serve,leaderworkerset.sigs.k8s.io/group-index=0", "leaderworkerset.sigs.k8s.io/name=serve,leaderworkerset.sigs.k8s.io/group-index=1"
	first, other := b.running(3, zero), b.running(3, one)
	assert.Equal(b, []string{"m1", "m2", "m3"}, machinesOf(first), "the index in the group is the task")
	assert.Equal(b, []string{"m4", "m5", "m6"}, machinesOf(other))
	for _, args := range s.submitted("team/serve-") {
		assert.Subset(b, args, []string{"--ntasks=3", "--partition=gpu"}, "the set's annotations count, whichever pod came first")
	}
	b.status(first[1], `{"containerStatuses":[{"name":"c","image":"x","imageID":"","ready":true,"restartCount":1,"state":{"running":{}}}]}`)
	again := b.running(3, zero, first...)
	assert.Equal(b, []string{"m1", "m2", "m3"}, machinesOf(again), "the next pods have the places of the first")
	assert.Len(b, s.submitted("team/serve-"), 2, "the jobs go on")
	for _, p := range other {
		assert.Nil(b, b.podNow(p).DeletionTimestamp, "the other group")
	}
	said, err := b.kubectl("", "patch", "lws", "serve", "-n", "team", "--type=merge", "-p", `{"spec":{"replicas":1}}`)
	require.NoError(b, err, said)
	s.ordered(b, "team/serve-1")
	assert.Equal(b, "RUNNING", s.job("team/serve-0").State)
	said, err = b.kubectl("", "delete", "lws", "serve", "-n", "team")
	require.NoError(b, err, said)
	s.ordered(b, "team/serve-0")
}

func machinesOf(pods []*corev1.Pod) (names []string) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range pods {
		names = append(names, p.Spec.NodeName)
	}
	return names
}

func (s *playedSlurm) podGroup(b *bed) {
	s.b = b
	b.manifest(`
apiVersion: batch/v1
kind: Job
metadata: {name: late}
spec:
  parallelism: 3
  completions: 3
  template: {metadata: {labels: {scheduling.x-k8s.io/pod-group: late}}, spec: {restartPolicy: Never, containers: [` + container + `]}}
`)
	b.eventually(patience, "there are three pods", func() bool { return len(b.podsWith("job-name=late")) == 3 })
	assert.Contains(b, b.said(b.podsWith("job-name=late")[0], "NotSubmitted"), "the PodGroup late of the group scheduling.x-k8s.io cannot be read: there is none")
	b.manifest(`
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: late, annotations: {slurmjob.slinky.slurm.net/qos: high}}
spec: {minMember: 2}
`)
	j := s.queued(b, "team/late")
	assert.Subset(b, s.submitted("team/late")[0], []string{"--ntasks=3", "--qos=high"}, "all pods that there are")
	s.grant(j.ID, "w1", "w2", "w3")
	for _, p := range b.running(3, "job-name=late") {
		b.succeeds(p)
	}
	s.finished(b, "team/late")
	assert.Len(b, s.submitted("team/late"), 1)
}

func (s *playedSlurm) builtInPodGroup(b *bed) {
	s.b = b
	b.manifest(`
apiVersion: scheduling.k8s.io/v1beta1
kind: Workload
metadata: {name: training, annotations: {slurmjob.slinky.slurm.net/job-name: deep}}
spec: {podGroupTemplates: [{name: workers, schedulingPolicy: {gang: {minCount: 2}}}]}
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: both, annotations: {slurmjob.slinky.slurm.net/job-name: both, slurmjob.slinky.slurm.net/timelimit: "5"}}
spec: {workloadRef: {workloadName: training, templateName: workers}, schedulingPolicy: {gang: {minCount: 2}}}
---
apiVersion: v1
kind: Pod
metadata: {name: both-a, labels: {app: both}}
spec: {schedulingGroup: {podGroupName: both}, containers: [` + container + `]}
---
apiVersion: v1
kind: Pod
metadata: {name: both-b, labels: {app: both}}
spec: {schedulingGroup: {podGroupName: both}, containers: [` + container + `]}
`)
	j := s.queued(b, "team/both")
	assert.Subset(b, s.submitted("team/both")[0], []string{"--ntasks=2", "--time=5", "--job-name=deep"}, "the Workload's annotations come first")
	s.grant(j.ID, "w5", "w6")
	pods := b.running(2, "app=both")
	assert.Equal(b, map[string]string{"both-a": "m5", "both-b": "m6"}, on(pods))
	for _, p := range pods {
		b.succeeds(p)
	}
	s.finished(b, "team/both")
}
