//go:build e2e

package controller

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// timeLimit: a pod whose job is over its limit is ended by Slurm, and the node waits for its end.
func timeLimit(q *queueBed) {
	p := q.runs("limited", time.Hour, map[string]string{"slurmjob.slinky.slurm.net/timelimit": "1", endsAfter: "8s"})
	now := q.phase(p, corev1.PodRunning)
	target := make(chan string, 1)
	go func() { target <- q.condition(p) }()
	q.disrupted(now)
	job := now.Labels["slurmlet.dev/job"]
	q.becomes(job, "TIMEOUT")
	assert.Contains(q, <-target, "Slurm job "+job)
}

// plainJob makes a Kubernetes Job of one pod after the other.
func (q *queueBed) plainJob(name string, backoff int32, annotations map[string]string) {
	q.Helper()
	_, err := q.kube.BatchV1().Jobs("team").Create(q.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{BackoffLimit: &backoff, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
			Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "busybox"}}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(q, err)
}

// podsOf are those of a Job, once there are so many.
func (q *queueBed) podsOf(job string, n int) (pods []corev1.Pod) {
	q.Helper()
	q.eventually(patience, fmt.Sprintf("%s has %d pods", job, n), func() bool {
		list, err := q.kube.CoreV1().Pods("team").List(q.Context(), metav1.ListOptions{LabelSelector: "job-name=" + job})
		require.NoError(q, err)
		pods = list.Items
		return len(pods) == n
	})
	return pods
}

// failingPods: each pod of a Job has a job of Slurm's, which has its exit status.
func failingPods(q *queueBed) {
	q.plainJob("fails", 1, map[string]string{runFor: "1s", exitWith: "3"})
	for _, p := range q.podsOf("fails", 2) {
		job := q.job(p.Name)
		q.becomes(job, "FAILED")
		assert.Contains(q, q.command("scontrol", "show", "job", job), "ExitCode=3:0")
	}
	q.eventually(patience, "the Job has failed", func() bool {
		j, err := q.kube.BatchV1().Jobs("team").Get(q.Context(), "fails", metav1.GetOptions{})
		return err == nil && j.Status.Failed == 2
	})
	require.NoError(q, q.kube.BatchV1().Jobs("team").Delete(q.Context(), "fails", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}))
}

// suspendedJob: a Kubernetes Job that is suspended leaves the queue, and comes anew.
func suspendedJob(q *queueBed) {
	suspend := func(yes bool) {
		_, err := q.kube.BatchV1().Jobs("team").Patch(q.Context(), "paused", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"suspend":%t}}`, yes), metav1.PatchOptions{})
		require.NoError(q, err)
	}
	q.plainJob("paused", 0, map[string]string{runFor: "1h"})
	first := q.phase(q.podOf("paused"), corev1.PodRunning)
	suspend(true)
	q.becomes(first.Labels["slurmlet.dev/job"], "FAILED") // as the pod, which was killed
	q.podsOf("paused", 0)
	suspend(false)
	next := q.phase(q.podOf("paused"), corev1.PodRunning)
	assert.NotEqual(q, first.Labels["slurmlet.dev/job"], next.Labels["slurmlet.dev/job"])
	q.kubelet.end(next)
	q.complete("paused")
	q.becomes(next.Labels["slurmlet.dev/job"], "COMPLETED")
}

// alteredComment: a job that runs is its pods', whatever its user writes into its comment.
func alteredComment(q *queueBed) {
	p := q.phase(q.runs("altered", time.Hour, map[string]string{endsAfter: "6s"}), corev1.PodRunning)
	job, node := p.Labels["slurmlet.dev/job"], p.Annotations["slurmlet.dev/slurm-node"]
	q.command("scontrol", "update", "jobid="+job, "comment=mine")
	other := q.sbatch("true", "--nodelist="+node, "--exclusive")
	q.stays(4*time.Second, func() bool {
		now := q.podNow(p)
		return now != nil && now.DeletionTimestamp == nil
	})
	q.command("scancel", job)
	q.disrupted(p)
	q.becomes(job, "CANCELLED")
	q.becomes(other, "COMPLETED")
}

// stays looks for some time that something is the case.
func (q *queueBed) stays(long time.Duration, is func() bool) {
	q.Helper()
	for end := time.Now().Add(long); time.Now().Before(end); <-time.After(long / 20) {
		require.True(q, is(), "it is no longer so")
	}
}

// suspendedBySlurm: scontrol suspend leaves the pods as they are.
func suspendedBySlurm(q *queueBed) {
	p := q.phase(q.runs("held", time.Hour, nil), corev1.PodRunning)
	job := p.Labels["slurmlet.dev/job"]
	q.command("scontrol", "suspend", job)
	q.becomes(job, "SUSPENDED")
	q.stays(4*time.Second, func() bool {
		now := q.podNow(p)
		return now != nil && now.Status.Phase == corev1.PodRunning && now.DeletionTimestamp == nil
	})
	q.command("scontrol", "resume", job)
	q.becomes(job, "RUNNING")
	q.kubelet.end(p)
	q.becomes(job, "COMPLETED")
}

// evictions: a pod of its own leaves the queue with its job, and one of a gang has a successor, which takes its task.
func evictions(q *queueBed) {
	evict := func(p *corev1.Pod) {
		require.NoError(q, q.kube.PolicyV1().Evictions("team").Evict(q.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: p.Name}}))
	}
	alone := q.phase(q.runs("evicted", time.Hour, nil), corev1.PodRunning)
	evict(alone)
	q.becomes(alone.Labels["slurmlet.dev/job"], "FAILED")

	q.gang("evicts", 2, time.Hour)
	pods := q.podsOf("evicts", 2)
	first, other := q.phase(&pods[0], corev1.PodRunning), q.phase(&pods[1], corev1.PodRunning)
	job := first.Labels["slurmlet.dev/job"]
	evict(first)
	var next *corev1.Pod
	q.eventually(patience, "the gang has another pod", func() bool {
		for _, p := range q.podsOf("evicts", 2) {
			if p.UID != first.UID && p.UID != other.UID {
				next = &p
			}
		}
		return next != nil
	})
	next = q.phase(next, corev1.PodRunning)
	assert.Equal(q, job, next.Labels["slurmlet.dev/job"])
	assert.Equal(q, first.Spec.NodeName, next.Spec.NodeName)
	assert.Equal(q, other.UID, q.podNow(other).UID)
	q.kubelet.end(next)
	q.kubelet.end(other)
	q.complete("evicts")
	q.becomes(job, "COMPLETED")
}

// slurmdEnds: slurmd's pod that is deleted waits for the pods on its node as for jobs.
func slurmdEnds(q *queueBed) {
	p := q.phase(q.runs("outlasts", time.Hour, nil), corev1.PodRunning)
	name := p.Annotations["slurmlet.dev/slurm-node"]
	at := slices.IndexFunc(q.nodes, func(n *native.Node) bool { return n.Name == name })
	n := q.nodes[at]
	require.NoError(q, n.Terminate())
	q.stays(5*time.Second, func() bool {
		now := q.podNow(p)
		return !n.Ended() && now != nil && now.DeletionTimestamp == nil && q.state(p.Labels["slurmlet.dev/job"]) == "RUNNING"
	})
	q.kubelet.end(p)
	q.becomes(p.Labels["slurmlet.dev/job"], "COMPLETED")
	<-n.Exited
	q.nodes[at] = q.anew(n)
	q.nodeIs(name, "idle")
}

// lostState: jobs that slurmctld has forgotten are ended on their nodes, and their pods with them. slurmctld knows nothing of
// them, so it would give a node to another job at once.
func lostState(q *queueBed) {
	p := q.phase(q.runs("forgotten", time.Hour, map[string]string{endsAfter: "8s"}), corev1.PodRunning)
	q.command("scontrol", "update", "partitionname=low", "state=down")
	waits := q.runs("asks-again", time.Second, map[string]string{"slurmjob.slinky.slurm.net/partition": "low"})
	q.job(waits.Name)
	back := q.slurmctldAway()
	state := filepath.Join(q.slurm.Root, "run/slurmctld/state")
	for _, name := range []string{"job_state", "job_state.old", "last_config_lite"} {
		if err := os.Remove(filepath.Join(state, name)); !os.IsNotExist(err) {
			require.NoError(q, err)
		}
	}
	back()
	q.command("scontrol", "update", "partitionname=low", "state=up")
	q.disrupted(p)
	q.phase(waits, corev1.PodSucceeded)
}
