//go:build e2e

package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
	"github.com/slurmlet/slurmlet/kubectl-slurm/kube"
	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
	"github.com/slurmlet/slurmlet/kubectl-slurm/why"
)

// whyConf: a pod that does not start is given up after 30 s, whatever it waits for, and its job may begin again soon.
const whyConf = `MaxNodeCount=64
AuthInfo=use_client_ids,cred_expire=10
ResumeTimeout=60
SchedulerParameters=sched_interval=3,bf_interval=3%s
`

// whySet is an elastic set of one node, in a partition of its own.
const whySet = `{"nodes":"%[1]s-0","cpuLimit":"1","memoryLimit":"364Mi","storageLimit":"1Gi","features":["%[1]s"]}`

// pulled is the only image that there is.
const pulled = "slurm:1"

// startless are elastic sets whose pods do not start, each by another cause.
var startless = []struct {
	// set is the set's name, and the partition's.
	set string
	// reason is Kubernetes', or slurmlet's controller's. cure is what an administrator is told to do.
	reason, cure string
	// template is the set's; nil: there is none.
	template func(*corev1.PodTemplate)
	// mend does what the cure says.
	mend func(s *started)
}{
	{
		"absent", "NoTemplate", "whether the set has its PodTemplate", nil,
		func(s *started) { s.template("absent", func(*corev1.PodTemplate) {}) },
	},
	{
		"nowhere", "Unschedulable", "bring a machine of that kind",
		func(t *corev1.PodTemplate) { t.Template.Spec.NodeSelector = map[string]string{"kind": "large"} },
		func(s *started) { s.patchNode("m1", `{"metadata":{"labels":{"kind":"large"}}}`) },
	},
	{
		"image", "ErrImagePull", "correct the set's image",
		func(t *corev1.PodTemplate) { t.Template.Spec.Containers[0].Image = "slurm:none" },
		func(s *started) { s.template("image", func(*corev1.PodTemplate) {}) },
	},
}

// quotaSet is the set of startless whose pods start at last.
const quotaSet = "image"

// TestElasticWhy has jobs wait for elastic pods that do not start, and ends each cause by what kubectl slurm why says of
// it. slurmctld, slurmd, their agents, the controller, kube-apiserver and its quota are real. The test is the scheduler
// and the kubelet. It runs beside no other test, as TestElasticBench.
func TestElasticWhy(t *testing.T) {
	for _, version := range slices.Sorted(maps.Keys(given.Roots)) {
		t.Run(version, func(t *testing.T) {
			if version != parts.Newest() && !given.Full {
				t.Skip("make test-full has it")
			}
			b := newBed(t, "--set", "elastic.enabled=true")
			b.namespace("hpc")
			b.node("m1")
			r := b.replica("SLURMLET_ELASTIC=all")
			r.ready()
			s := &started{bed: b, version: version, replica: r}
			requeue, sets := "", map[string][]byte{}
			if version != "24.11" { // which has a requeued job wait for as long as its credential is valid
				requeue = ",requeue_delay=5,requeue_on_resume_failure"
			}
			conf := fmt.Sprintf(whyConf, requeue)
			for _, one := range startless {
				conf += fmt.Sprintf("NodeSet=%[1]s Feature=%[1]s\nPartitionName=%[1]s Nodes=%[1]s SuspendTime=300\n", one.set)
				sets[one.set+".json"] = fmt.Appendf(nil, whySet, one.set)
				s.template(one.set, one.template)
			}
			s.prepare(conf, sets)
			s.start()
			s.machine()
			b.run([]story{
				{"pods that do not start", func(*bed) { s.neverStart() }},
				{"a quota refuses pods", func(*bed) { s.quotaRefuses() }},
				{"a job that nobody knows", func(*bed) { s.nobodyKnows() }},
			})
		})
	}
}

// template makes or changes the PodTemplate of a set; without a change there is none.
func (s *started) template(set string, change func(*corev1.PodTemplate)) {
	s.Helper()
	if change == nil {
		return
	}
	t := &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: benchCluster + "-" + set, Labels: map[string]string{"slurmlet.dev/cluster": benchCluster, "slurmlet.dev/elastic": set}},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(bool),
			Containers: []corev1.Container{{Name: "slurmd", Image: pulled, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("364Mi"),
			}}}},
		}},
	}
	change(t)
	all := s.kube.CoreV1().PodTemplates("hpc")
	_, err := all.Create(s.Context(), t, metav1.CreateOptions{})
	if !gone(err) {
		_, err = all.Update(s.Context(), t, metav1.UpdateOptions{})
	}
	require.NoError(s, err)
}

// neverStart has a job wait for each set, asks why while it has its node and after the node was given up, and mends it.
func (s *started) neverStart() {
	jobs := map[string]string{}
	for _, one := range startless {
		s.waitsForJob(one.set)
	}
	for _, one := range startless {
		jobs[one.set] = s.waits(one.set)
	}
	for _, one := range startless {
		s.says(jobs[one.set], "elastic", "Nodes of the elastic set "+one.set+" ", one.reason, one.cure)
	}
	for _, one := range startless {
		s.eventually(benchLimit, one.set+" is given up, and its job waits again", func() bool {
			return strings.HasPrefix(s.command("sinfo", "--noheader", "--partition="+one.set, "--format=%T"), "down") &&
				s.state(jobs[one.set]) == "PENDING"
		})
		answer := s.says(jobs[one.set], "elastic", "Nodes of the elastic set "+one.set+" have not started", one.reason, one.cure)
		one.mend(s)
		s.cure(answer)
	}
	for _, one := range startless {
		s.completes(jobs[one.set])
	}
}

// quotaRefuses: the job goes on when the quota lets its pod be made, and nobody does more.
func (s *started) quotaRefuses() {
	s.command("scontrol", "update", "nodename="+quotaSet+"-0", "state=power_down_force")
	s.waitsForJob(quotaSet)
	quotas, none := s.kube.CoreV1().ResourceQuotas("hpc"), corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	quota, err := quotas.Create(s.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: none}}, metav1.CreateOptions{})
	require.NoError(s, err)
	quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none} // as kube-controller-manager counts
	_, err = quotas.UpdateStatus(s.Context(), quota, metav1.UpdateOptions{})
	require.NoError(s, err)
	s.eventually(benchLimit, "the API server enforces the quota", func() bool {
		_, err := s.kube.CoreV1().Pods("hpc").Create(s.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "try-"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}, AutomountServiceAccountToken: new(bool)},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err)
	})
	id := s.waits(quotaSet)
	s.says(id, "elastic", "Nodes of the elastic set "+quotaSet+" do not start", "FailedCreate", "exceeded quota: none", "kubectl describe -n hpc resourcequota")
	require.NoError(s, quotas.Delete(s.Context(), "none", metav1.DeleteOptions{}))
	s.completes(id)
}

// nobodyKnows: a cluster without accounting says that it has none.
func (s *started) nobodyKnows() {
	_, err := why.Forgotten(s.Context(), ctldAsker{s}, "999999")
	require.ErrorIs(s, err, why.ErrNoJob)
	require.ErrorContains(s, err, "the cluster has no accounting that would know it")
}

// waitsForJob waits until the node of a set has no pod, and takes a job.
func (s *started) waitsForJob(set string) {
	s.Helper()
	s.eventually(benchLimit, set+"-0 waits for a job", func() bool {
		return s.command("sinfo", "--noheader", "--partition="+set, "--format=%T") == "idle~"
	})
}

// waits submits a job that waits for a node of a set.
func (s *started) waits(set string) (id string) {
	s.Helper()
	id = s.command("sbatch", "--parsable", "--partition="+set, "--mem=10", "--output=/dev/null", "--chdir=/", "--wrap=true")
	s.eventually(benchLimit, "job "+id+" has its node", func() bool { return s.state(id) == "CONFIGURING" })
	return id
}

func (s *started) state(id string) string {
	return s.command("squeue", "--noheader", "--states=all", "--jobs="+id, "--format=%T")
}

func (s *started) completes(id string) {
	s.Helper()
	saw := ""
	defer func() {
		if s.Failed() {
			s.Logf("job %s is %s", id, saw)
		}
	}()
	s.eventually(benchLimit, "job "+id+" has run", func() bool { saw = s.state(id); return saw == "COMPLETED" })
}

// says waits until the surest cause is of a kind, and the answer has some words.
func (s *started) says(id, kind string, words ...string) (answer why.Answer) {
	s.Helper()
	said := ""
	defer func() { s.Logf("job %s:\n%s", id, said) }()
	s.eventually(benchLimit, fmt.Sprintf("why says %s of job %s: %q", kind, id, words), func() bool {
		facts, err := s.facts(id)
		if said = fmt.Sprint(err); err != nil {
			return false // the API server may be slow
		}
		answer = why.Judge(facts)
		var text strings.Builder
		answer.WriteText(&text, why.Runner{Slurm: []string{"kubectl", "exec", "slurmctld", "--"}, Namespace: "hpc"})
		said = text.String()
		return len(answer.Causes) > 0 && len(answer.Unknown) == 0 && answer.Causes[0].Kind == kind && answer.Causes[0].Sure == why.Certain &&
			!slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(said, word) })
	})
	return answer
}

// facts are what kubectl slurm collects of Kubernetes and of slurmctld's pod, which has no kubelet to ask.
func (s *started) facts(id string) (why.Facts, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.file("admin"))
	require.NoError(s, err)
	client, err := kube.NewClient(config, "hpc")
	require.NoError(s, err)
	cluster, err := client.Find(s.Context(), "")
	if err != nil {
		return why.Facts{}, err
	}
	return why.GatherJob(s.Context(), cluster.World(ctldAsker{s}), id, time.Now())
}

// cure runs the first command of Slurm's among the cures of the surest cause.
func (s *started) cure(answer why.Answer) {
	s.Helper()
	for _, one := range answer.Causes[0].Cures {
		if one.Command != nil && one.Command.Slurm {
			s.command(one.Command.Args[0], one.Command.Args[1:]...)
			return
		}
	}
	s.Errorf("no cure of %q is a command of Slurm's", answer.Causes[0].Text)
}

// ctldAsker runs commands where slurmctld is.
type ctldAsker struct{ s *started }

func (a ctldAsker) Ask(_ context.Context, command ...string) (string, error) {
	cmd := a.s.slurm.Command("/usr/bin/"+command[0], command[1:]...)
	out, err := cmd.Output()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		err = &slurm.Refusal{Command: command, Status: ended.ExitCode(), Said: string(ended.Stderr)}
	}
	return string(out), err
}
