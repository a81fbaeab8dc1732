//go:build e2e

package controller

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const slinky = "slurmjob.slinky.slurm.net/"

// bridged are manifests as slurm-bridge's documentation and examples have them (docs/workload.md, hack/examples), their
// namespace apart, and what Slurm is asked for.
var bridged = map[string]struct {
	manifest string
	job      string   // the end of the comment
	args     []string // some of sbatch's
	user     string
}{
	"the pod of the documentation": {
		manifest: `
apiVersion: v1
kind: Pod
metadata:
  name: pause
  # Slurm job annotations on this Pod
  annotations:
    slurmjob.slinky.slurm.net/timelimit: "5"
    slurmjob.slinky.slurm.net/account: foo
spec:
  schedulerName: slurm-bridge-scheduler
  containers:
    - name: pause
      image: registry.k8s.io/pause:3.6
      resources:
        limits:
          cpu: "1"
          memory: 100Mi
`,
		job: "team/pause", args: []string{"--time=5", "--account=foo", "--cpus-per-task=1", "--mem=100M", "--exclusive", "--nodes=1"},
	},
	"a pod of the examples": {
		manifest: `
apiVersion: v1
kind: Pod
metadata:
  name: pod-single
  annotations:
    slurmjob.slinky.slurm.net/job-name: pod-single
    slurmjob.slinky.slurm.net/timelimit: '1'
spec:
  schedulerName: slurm-bridge-scheduler
  restartPolicy: Never
  containers:
    - name: pod-single
      image: busybox:stable
      command: [sh, -c, sleep 3]
      resources:
        requests:
          cpu: '1'
          memory: 100Mi
        limits:
          cpu: '1'
          memory: 100Mi
`,
		job: "team/pod-single", args: []string{"--job-name=pod-single", "--time=1", "--mem=100M"},
	},
	"all annotations that a user may write": {
		manifest: `
apiVersion: v1
kind: Pod
metadata:
  name: all
  annotations:
    slurmjob.slinky.slurm.net/account: science
    slurmjob.slinky.slurm.net/constraints: a100&nvme
    slurmjob.slinky.slurm.net/cpu-per-task: "2500m"
    slurmjob.slinky.slurm.net/exclusive: "false"
    slurmjob.slinky.slurm.net/gres: gpu:h100:2
    slurmjob.slinky.slurm.net/job-name: deep
    slurmjob.slinky.slurm.net/licenses: matlab:2,ansys
    slurmjob.slinky.slurm.net/max-nodes: "2"
    slurmjob.slinky.slurm.net/mem-per-node: 4Gi
    slurmjob.slinky.slurm.net/min-nodes: "1"
    slurmjob.slinky.slurm.net/partition: gpu,debug
    slurmjob.slinky.slurm.net/qos: high
    slurmjob.slinky.slurm.net/reservation: course
    slurmjob.slinky.slurm.net/timelimit: "30"
    slurmjob.slinky.slurm.net/user-id: bob
    slurmjob.slinky.slurm.net/wckey: thesis
spec:
  schedulerName: slurm-bridge-scheduler
  containers: [{name: c, image: busybox:stable}]
`,
		job: "team/all", user: "bob",
		args: []string{
			"--account=science", "--constraint=a100&nvme", "--cpus-per-task=3", "--gres=gpu:h100:2", "--job-name=deep", "--licenses=matlab:2,ansys", "--nodes=1-2",
			"--mem=4096M", "--partition=gpu,debug", "--qos=high", "--reservation=course", "--time=30", "--wckey=thesis",
		},
	},
}

func (s *playedSlurm) manifests(b *bed) {
	for name, c := range bridged {
		b.Run(name, func(t *testing.T) {
			outer := b.T
			b.T = t
			defer func() { b.T = outer }()
			b.manifest(c.manifest)
			j := s.queued(b, c.job)
			assert.Subset(b, s.submitted(c.job)[0], c.args)
			user := c.user
			if user == "" {
				user = "alice"
			}
			assert.Equal(b, user, j.User)
			_, name, _ := strings.Cut(c.job, "/")
			b.delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}, 0)
		})
	}
}

// refusedAnnotations has the API server judge annotations of pods and of what makes them.
func refusedAnnotations(b *bed) {
	const words, lists = "and one of Slurm's names is allowed", "and Slurm's names, as sbatch takes them, without spaces and quotes is allowed"
	for _, c := range []struct{ key, value, says string }{
		{slinky + "timelimit", "soon", `the annotation slurmjob.slinky.slurm.net/timelimit is "soon", and a whole number from 1 is allowed`},
		{slinky + "timelimit", "1:00:00", `is "1:00:00", and a whole number from 1 is allowed`},
		{slinky + "timelimit", "0", `is "0", and a whole number from 1 is allowed`},
		{slinky + "min-nodes", "-1", `is "-1", and a whole number from 1 is allowed`},
		{slinky + "max-nodes", "1048577", `is "1048577", and a whole number from 1 is allowed`},
		{slinky + "cpu-per-task", "two", `is "two", and a quantity above 0, as in 2 or 500m or 4Gi is allowed`},
		{slinky + "mem-per-node", "0", `is "0", and a quantity above 0, as in 2 or 500m or 4Gi is allowed`},
		{slinky + "exclusive", "no", `is "no", and true or false is allowed`},
		{slinky + "account", "--uid=0", `is "--uid=0", ` + words},
		{slinky + "job-name", "a b", `is "a b", ` + words},
		{slinky + "wckey", "a,b", `is "a,b", ` + words},
		{slinky + "partition", "$(id)", `is "$(id)", ` + lists},
		{slinky + "gres", "", `is "", ` + lists},
		{slinky + "constraints", strings.Repeat("x", 257), lists},
		{slinky + "group-id", "wheel", `is "wheel", and none is allowed: the user's own group counts`},
		{slinky + "priority", "7", `is "7", and none is allowed: Slurm lets operators alone set a job's priority`},
		{slinky + "user-id", "root", `is "root", and alice is allowed: the annotation slurmlet.dev/allow of the namespace allows others`},
		{slinky + "colour", "red", "the annotation slurmjob.slinky.slurm.net/colour is none of slurm-bridge's: account, constraints, cpu-per-task,"},
		{"slurmlet.dev/gang", "yes", `the annotation slurmlet.dev/gang is "yes", and true or false is allowed`},
		{"slurmlet.dev/partition", "gpu", "the annotation slurmlet.dev/partition is none of the queue's"},
		{slinky + "user-id", "alice", ""},
		{slinky + "user-id", "carol", ""},
		{slinky + "constraints", "[rack1|rack2]", ""},
		{slinky + "job-name", strings.Repeat("x", 256), ""},
		{slinky + "timelimit", "1048576", ""},
		{slinky + "mem-per-node", "1.5Gi", ""},
		{"slurmlet.dev/gang", "false", ""},
		{"example.com/else", "", ""},
	} {
		for _, kind := range []string{"v1 Pod", "batch/v1 Job", "apps/v1 Deployment"} {
			if kind == "apps/v1 Deployment" && c.key == "slurmlet.dev/partition" {
				continue // of slurmlet's other annotations, some are theirs
			}
			err := b.annotated(kind, c.key, c.value)
			if c.says == "" {
				assert.NoError(b, err, "%s: %s=%s", kind, c.key, c.value)
				continue
			}
			assert.ErrorContains(b, err, c.says, "%s: %s=%s", kind, c.key, c.value)
		}
	}
	p := b.user("team", "annotated-later")
	_, err := b.kube.CoreV1().Pods("team").Patch(b.Context(), p.Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"slurmjob.slinky.slurm.net/timelimit":"soon"}}}`), metav1.PatchOptions{})
	assert.ErrorContains(b, err, "a whole number from 1 is allowed")
	err = b.kube.CoreV1().Pods("team").Bind(b.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "m1"}}, metav1.CreateOptions{})
	assert.ErrorContains(b, err, "pod annotated-later has non-empty .spec.schedulingGates", "nobody binds a pod with the gate")
	bound := userPod("bound", nil)
	bound.Spec.NodeName = "m1"
	_, err = b.kube.CoreV1().Pods("team").Create(b.Context(), bound, metav1.CreateOptions{})
	assert.True(b, apierrors.IsForbidden(err), "a pod that names a node at once: %v", err)
	critical := userPod("critical", nil)
	critical.Spec.PriorityClassName = "system-cluster-critical"
	_, err = b.kube.CoreV1().Pods("team").Create(b.Context(), critical, metav1.CreateOptions{})
	assert.ErrorContains(b, err, "the pod's priority is 2000000000, of the priorityClassName system-cluster-critical, and less than 2000000000 is allowed in Slurm's queue")
	unmarked := userPod("unmarked", nil)
	unmarked.Labels = map[string]string{"slurmlet.dev/bridge": "false"}
	unmarked, err = b.kube.CoreV1().Pods("team").Create(b.Context(), unmarked, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(b, err)
	assert.Equal(b, "true", unmarked.Labels["slurmlet.dev/bridge"], "a pod that would not wait")
	assert.Equal(b, []corev1.PodSchedulingGate{{Name: "slurmlet.dev/slurm"}}, unmarked.Spec.SchedulingGates)
	daemon := userPod("daemon", nil)
	daemon.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "u", Controller: new(true)}}
	daemon, err = b.kube.CoreV1().Pods("team").Create(b.Context(), daemon, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(b, err)
	assert.Equal(b, []corev1.PodSchedulingGate{{Name: "slurmlet.dev/slurm"}}, daemon.Spec.SchedulingGates, "a pod of a DaemonSet that another one than its controller makes")
	b.delete(p, 0)
	assert.Contains(b, strings.Join(b.warnings("hpc"), "\n"), "schedulerName slurm-bridge-scheduler has slurmlet put a pod into Slurm's queue in namespaces with the label slurmlet.dev/bridge=true alone")
	assert.Empty(b, b.warnings("team"))
}

// annotated has an object with an annotation made, and leaves nothing.
func (b *bed) annotated(kind, key, value string) error {
	version, kind, _ := strings.Cut(kind, " ")
	const pod = `{"metadata":{"labels":{"a":"b"}},"spec":{"restartPolicy":%q,"containers":[{"name":"c","image":"busybox"}]}}`
	spec := map[string]string{
		"Pod":        `{"containers":[{"name":"c","image":"busybox"}]}`,
		"Job":        `{"template":` + fmt.Sprintf(pod, "Never") + `}`,
		"Deployment": `{"selector":{"matchLabels":{"a":"b"}},"template":` + fmt.Sprintf(pod, "Always") + `}`,
	}[kind]
	var object unstructured.Unstructured
	require.NoError(b, object.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":"annotated","annotations":{%q:%q}},"spec":%s}`, version, kind, key, value, spec)))
	of := object.GroupVersionKind().GroupVersion().WithResource(strings.ToLower(kind) + "s")
	_, err := b.objects().Resource(of).Namespace("team").Create(b.Context(), &object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// warned keeps the API server's warnings.
type warned []string

func (w *warned) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

var _ rest.WarningHandler = (*warned)(nil)

// warnings are what the API server says to somebody who makes a pod with slurm-bridge's scheduler.
func (b *bed) warnings(namespace string) []string {
	config, err := clientcmd.BuildConfigFromFlags("", b.file("admin"))
	require.NoError(b, err)
	var all warned
	config.WarningHandler = &all
	api, err := kubernetes.NewForConfig(config)
	require.NoError(b, err)
	_, err = api.CoreV1().Pods(namespace).Create(b.Context(), userPod("warned", nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(b, err)
	return all
}
