//go:build e2e

package controller

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// gang makes a Job of so many pods that are one group.
func (q *queueBed) gang(name string, size int32, long time.Duration) {
	q.Helper()
	_, err := q.kube.BatchV1().Jobs("team").Create(q.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"slurmlet.dev/gang": "true"}},
		Spec: batchv1.JobSpec{Parallelism: &size, Completions: &size, CompletionMode: new(batchv1.IndexedCompletion), Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{runFor: long.String()}},
			Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "busybox"}}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(q, err)
}

// complete waits until a Job is Complete, and deletes it.
func (q *queueBed) complete(name string) {
	q.Helper()
	all := q.kube.BatchV1().Jobs("team")
	q.eventually(patience, "the Job "+name+" is Complete", func() bool {
		j, err := all.Get(q.Context(), name, metav1.GetOptions{})
		require.NoError(q, err)
		return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
		})
	})
	require.NoError(q, all.Delete(q.Context(), name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}))
}

// gangsBesideJobs: gangs of four pods and Slurm's jobs of four nodes take turns. Each gang has one job, which ends well.
func gangsBesideJobs(q *queueBed) {
	rounds, atOnce := 4, 2
	if given.Full {
		rounds, atOnce = 200, 10
	}
	began := time.Now()
	for first := 0; first < rounds; first += atOnce {
		var gangs, jobs []string
		for i := first; i < min(first+atOnce, rounds); i++ {
			gangs = append(gangs, fmt.Sprintf("gang-%d", i))
			q.gang(gangs[len(gangs)-1], queueNodes, 200*time.Millisecond)
			jobs = append(jobs, q.sbatch("srun -N4 true", "--nodes=4", "--exclusive"))
		}
		for _, name := range gangs {
			q.complete(name)
			assert.Len(q, q.jobsOf(name), 1, "jobs of %s", name)
			q.becomes(q.job(name), "COMPLETED")
		}
		for _, job := range jobs {
			q.becomes(job, "COMPLETED")
		}
		if given.Full {
			q.rests() // and who has had which node
		}
	}
	q.Logf("%d gangs of 4 pods beside %d jobs of 4 nodes in %v", rounds, rounds, since(began))
}

// outage: somebody is away in the middle of all that pods do. No pod is lost, and no allocation stays. With deletes, a pod that
// waits is deleted meanwhile: a new leader leaves its job alone for 30 s.
func (q *queueBed) outage(away func() (back func()), deletes bool) {
	q.count++
	long := 4 * time.Second
	if given.Full {
		long = 5 * time.Minute
	}
	name := func(what string) string { return fmt.Sprintf("%s-%d", what, q.count) }
	stays := q.runs(name("stays"), time.Hour, nil)
	ends := q.runs(name("ends"), time.Hour, nil)
	q.phase(stays, corev1.PodRunning)
	q.phase(ends, corev1.PodRunning)
	hog := q.sbatch("sleep 1000", "--nodes=2", "--exclusive")
	q.becomes(hog, "RUNNING")
	waits, cancelled := q.runs(name("waits"), time.Second, nil), q.runs(name("goes"), time.Second, nil)
	q.job(waits.Name)
	gone := q.job(cancelled.Name)
	q.job(stays.Name)
	ended := q.job(ends.Name)

	back := away()
	after := time.Now().Add(long)
	q.kubelet.end(ends)
	_ = q.slurm.Command("/usr/bin/scancel", hog).Run() // slurmctld may be away
	made := make(chan struct{})
	late := userPod(name("late"), map[string]string{runFor: "1s"})
	late.Spec.RestartPolicy = corev1.RestartPolicyNever
	go func() { // as soon as there is an API server
		defer close(made)
		for end := time.Now().Add(long + patience); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
			if _, err := q.kube.CoreV1().Pods("team").Create(q.Context(), late, metav1.CreateOptions{}); err == nil {
				break
			}
		}
		for end := time.Now().Add(long + patience); deletes && time.Now().Before(end); <-time.After(100 * time.Millisecond) {
			if err := q.kube.CoreV1().Pods("team").Delete(q.Context(), cancelled.Name, metav1.DeleteOptions{}); err == nil {
				break
			}
		}
	}()
	<-time.After(time.Until(after))
	back()
	began := time.Now()
	<-made
	_ = q.slurm.Command("/usr/bin/scancel", hog).Run() // it may have been cancelled before
	q.becomes(ended, "COMPLETED")
	late.Namespace = "team"
	for _, p := range []*corev1.Pod{waits, late} {
		now := q.phase(p, corev1.PodSucceeded)
		q.becomes(now.Labels["slurmlet.dev/job"], "COMPLETED")
		assert.Len(q, q.jobsOf(p.Name), 1, "jobs of %s", p.Name)
	}
	if deletes {
		q.becomes(gone, "CANCELLED")
	} else {
		q.becomes(gone, "COMPLETED")
	}
	q.Logf("all was done %v after %v of an outage", since(began), long)
	now := q.podNow(stays)
	if assert.NotNil(q, now, "the pod is lost") {
		assert.Equal(q, stays.UID, now.UID)
		assert.Equal(q, corev1.PodRunning, now.Status.Phase)
		assert.Nil(q, now.DeletionTimestamp)
		assert.Equal(q, "RUNNING", q.state(now.Labels["slurmlet.dev/job"]))
	}
	q.kubelet.end(stays)
	q.becomes(q.job(stays.Name), "COMPLETED")
}

// disrupted waits until a pod is deleted, as one that Slurm has ended.
func (q *queueBed) disrupted(p *corev1.Pod) {
	q.Helper()
	var last *corev1.Pod
	q.eventually(patience, p.Name+" is gone", func() bool {
		now := q.podNow(p)
		if now != nil && now.UID == p.UID {
			last = now
		}
		return now == nil || now.UID != p.UID
	})
	require.NotNil(q, last)
	assert.Contains(q, q.said(p, "Ended"), "Slurm ")
}

// slurmPreempts: a job of a higher partition takes the node of a pod, once the pod has ended. That takes longer than KillWait.
func slurmPreempts(q *queueBed) {
	p := q.runs("preempted", time.Hour, map[string]string{"slurmjob.slinky.slurm.net/partition": "low", endsAfter: "8s"})
	now := q.phase(p, corev1.PodRunning)
	node, job := now.Annotations["slurmlet.dev/slurm-node"], now.Labels["slurmlet.dev/job"]
	target := make(chan string, 1)
	go func() { target <- q.condition(p) }()
	mine := q.sbatch("true", "--partition=high", "--nodelist="+node, "--exclusive")
	q.disrupted(now)
	q.becomes(mine, "COMPLETED")
	q.becomes(job, "PREEMPTED")
	assert.Contains(q, <-target, "Slurm job "+job)
}

// condition is the message of a pod's DisruptionTarget.
func (q *queueBed) condition(p *corev1.Pod) string {
	w, err := q.kube.CoreV1().Pods(p.Namespace).Watch(q.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + p.Name})
	if err != nil {
		return err.Error()
	}
	defer w.Stop()
	late := time.After(patience)
	for {
		select {
		case <-late:
			return "no condition"
		case e, open := <-w.ResultChan():
			if !open {
				return "the watch has ended"
			}
			now, is := e.Object.(*corev1.Pod)
			if !is {
				continue
			}
			for _, c := range now.Status.Conditions {
				if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
					return c.Message
				}
			}
		}
	}
}

// podPreempts: a pod of a higher partition takes the node of a Slurm job, which is requeued.
func podPreempts(q *queueBed) {
	var jobs []string
	for range queueNodes {
		jobs = append(jobs, q.sbatch("sleep 1000", "--partition=low", "--requeue", "--nodes=1", "--exclusive"))
	}
	for _, job := range jobs {
		q.becomes(job, "RUNNING")
	}
	p := q.runs("preempts", time.Second, map[string]string{"slurmjob.slinky.slurm.net/partition": "high"})
	now := q.phase(p, corev1.PodSucceeded)
	q.becomes(now.Labels["slurmlet.dev/job"], "COMPLETED")
	requeued := 0
	for _, job := range jobs {
		if strings.Contains(q.command("scontrol", "show", "job", job), "Restarts=1") {
			requeued++
		}
	}
	assert.Equal(q, 1, requeued, "jobs that were requeued")
	q.command("scancel", jobs...)
}

// reservation: a pod that names one runs on its node, and one that names none does not.
func reservation(q *queueBed) {
	q.command("scontrol", "create", "reservation", "reservationname=week", "starttime=now", "duration=60", "users=alice", "nodes=n2")
	defer q.command("scontrol", "delete", "reservationname=week")
	hog := q.sbatch("sleep 1000", "--nodelist=n1,n3,n4", "--nodes=3", "--exclusive")
	q.becomes(hog, "RUNNING")
	outside := q.runs("outside", time.Second, nil)
	inside := q.runs("inside", time.Second, map[string]string{"slurmjob.slinky.slurm.net/reservation": "week"})
	now := q.phase(inside, corev1.PodSucceeded)
	assert.Equal(q, "n2", now.Annotations["slurmlet.dev/slurm-node"])
	assert.Equal(q, "PENDING", q.state(q.job("outside")), "the reservation is not its own")
	assert.NotEmpty(q, q.podNow(outside).Spec.SchedulingGates)
	q.command("scancel", hog)
	now = q.phase(outside, corev1.PodSucceeded)
	assert.NotEqual(q, "n2", now.Annotations["slurmlet.dev/slurm-node"])
}

// label marks a machine with one, or takes it away.
func (q *queueBed) label(machine, value string) {
	_, err := q.kube.CoreV1().Nodes().Patch(q.Context(), machine, types.MergePatchType, []byte(`{"metadata":{"labels":{"disk":`+value+`}}}`), metav1.PatchOptions{})
	require.NoError(q, err)
}

// wants makes a pod that wants a machine with a label.
func (q *queueBed) wants(name, disk string) *corev1.Pod {
	q.Helper()
	p := userPod(name, map[string]string{runFor: "1s"})
	p.Spec.RestartPolicy, p.Spec.NodeSelector = corev1.RestartPolicyNever, map[string]string{"disk": disk}
	made, err := q.kube.CoreV1().Pods("team").Create(q.Context(), p, metav1.CreateOptions{})
	require.NoError(q, err)
	return made
}

// onlyFitting: Slurm gives a pod no node on which its node selector does not hold, and refuses the job where none is left.
func onlyFitting(q *queueBed) {
	q.label("m3", `"ssd"`)
	defer q.label("m3", "null")
	fits := q.wants("fits", "ssd")
	job := q.job("fits") // submitted again where the watch of nodes had not told of the label
	assert.Contains(q, q.command("scontrol", "show", "job", job), "ExcNodeList=n[1-2,4]")
	now := q.phase(fits, corev1.PodSucceeded)
	assert.Equal(q, "n3", now.Annotations["slurmlet.dev/slurm-node"])
	p := q.wants("fits-nowhere", "tape")
	assert.Contains(q, q.said(p, "NoNodeFits"), "No node that is there fits the pod's node selector, affinity and tolerations.")
	assert.Contains(q, q.said(p, "Refused"), "The job is refused: Requested node configuration is not available. It is submitted again in 1m0s.")
	assert.NotEmpty(q, q.podNow(p).Spec.SchedulingGates)
	q.delete(p, 0)
}

// startsElastic: a pod that fits none of the nodes that are there has Slurm start one of an elastic set. The record is as
// slurmctld's agent makes it, and the test is what makes the set's pods.
func startsElastic(q *queueBed) {
	const name = "e1"
	n := &native.Node{Name: name, IP: net.IPv4(10, 88, 20, 1), Ready: make(chan struct{}), Waiting: make(chan struct{}), Exited: make(chan struct{})}
	hosts, err := os.OpenFile(filepath.Join(q.slurm.Root, "etc/hosts"), os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(q, err)
	_, err = fmt.Fprintf(hosts, "%s %s\n", n.IP, name)
	require.NoError(q, errors.Join(err, hosts.Close()))
	q.command("scontrol", "create", "nodename="+name, "CPUs=1", "RealMemory=300", "TmpDisk=100", "Feature=burst", "State=CLOUD")
	q.nodeIs(name, "idle~")
	q.machine("m5")
	q.label("m5", `"cloud"`)

	p := q.wants("starts-a-node", "cloud")
	assert.Contains(q, q.said(p, "NoNodeFits"), "Slurm is asked for one that is off, as an elastic set has them.")
	q.eventually(patience, "Slurm starts the node", func() bool {
		text, _ := os.ReadFile(filepath.Join(q.slurm.Root, "run/slurmctld/resumed"))
		return string(text) == name+"\n"
	})
	pod := q.pod(spec{"hpc", name, "slurm", "slurmd", "burst", "", "m5", []string{n.IP.String()}})
	environ := append(q.admit(pod), "SLURMLET_HOLDS=on", "SLURMLET_ELASTIC=yes", "SLURMLET_STORAGE_LIMIT=100Mi", "SLURMLET_GRACE_PERIOD=20s")
	require.NoError(q, q.slurm.Start(n, environ...))
	require.NoError(q, n.AwaitReady(patience))
	q.status(pod, `{"conditions":[{"type":"Ready","status":"True"}]}`)
	now := q.phase(p, corev1.PodSucceeded)
	assert.Equal(q, name, now.Annotations["slurmlet.dev/slurm-node"])
	assert.Equal(q, "m5", now.Spec.NodeName)
	q.becomes(now.Labels["slurmlet.dev/job"], "COMPLETED")
	assert.Len(q, q.jobsOf(p.Name), 1, "jobs")
	q.nodeIs(name, "idle")

	require.NoError(q, n.Terminate())
	<-n.Exited
	q.delete(pod, 0)
	q.nodeIs(name, "idle~")
	q.command("scontrol", "delete", "nodename="+name)
	require.NoError(q, q.kube.CoreV1().Nodes().Delete(q.Context(), "m5", metav1.DeleteOptions{}))
}

// nodeIs waits for the state of a Slurm node.
func (q *queueBed) nodeIs(name, state string) {
	q.Helper()
	saw := ""
	defer func() {
		if saw != state {
			q.Errorf("node %s is %s", name, saw)
		}
	}()
	q.eventually(patience, name+" is "+state, func() bool {
		saw = q.command("sinfo", "--noheader", "--Node", "--partition=all", "--nodes="+name, "--format=%T")
		return saw == state
	})
}

// podOf waits for a pod of a Job.
func (q *queueBed) podOf(job string) (p *corev1.Pod) {
	q.Helper()
	q.eventually(patience, "a pod of "+job+" is there", func() bool {
		list, err := q.kube.CoreV1().Pods("team").List(q.Context(), metav1.ListOptions{LabelSelector: "job-name=" + job})
		require.NoError(q, err)
		if len(list.Items) > 0 {
			p = &list.Items[0]
		}
		return p != nil
	})
	return p
}

// kubeletRefuses: a pod that its kubelet does not run has failed, and the next pod of its Job gets another node.
func kubeletRefuses(q *queueBed) {
	hog := q.sbatch("sleep 1000", "--nodelist=n2,n3,n4", "--nodes=3", "--exclusive")
	q.becomes(hog, "RUNNING")
	q.plainJob("refused", 1, map[string]string{runFor: "1s", refusedOn: "n1"})
	first := q.podOf("refused")
	assert.Equal(q, "The kubelet of the node n1 does not run the pod: OutOfcpu: Node didn't have enough resource: cpu, requested: 1000, used: 8000, capacity: 8000. "+
		"The next jobs of the pod's owner do not ask for that node for 10m0s.", q.said(first, "NotRun"))
	q.becomes(q.job(first.Name), "FAILED")
	var next *corev1.Pod
	q.eventually(patience, "the Job makes another pod", func() bool {
		list, err := q.kube.CoreV1().Pods("team").List(q.Context(), metav1.ListOptions{LabelSelector: "job-name=refused"})
		require.NoError(q, err)
		for i := range list.Items {
			if list.Items[i].UID != first.UID {
				next = &list.Items[i]
			}
		}
		return next != nil
	})
	assert.Contains(q, q.command("scontrol", "show", "job", q.job(next.Name)), "ExcNodeList=n1")
	q.command("scancel", hog)
	q.complete("refused")
	assert.NotEqual(q, "n1", q.podNow(next).Annotations["slurmlet.dev/slurm-node"])
}

// withPort is a pod that has a port of its machine.
func withPort(name string) corev1.PodSpec {
	return corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: name, Image: "busybox", Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}}}}
}

// takePort has a machine's port taken.
func (q *queueBed) takePort(machine string) (holder *corev1.Pod) {
	q.Helper()
	holder = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "port", Namespace: "hpc"}, Spec: withPort("port")}
	holder.Spec.NodeName = machine
	holder, err := q.kube.CoreV1().Pods("hpc").Create(q.Context(), holder, metav1.CreateOptions{})
	require.NoError(q, err)
	return holder
}

// latePod: a gang's pod that comes late, and whose node has not what it needs, waits for that while another pod of the job runs.
func latePod(q *queueBed) {
	two := int32(2)
	_, err := q.kube.BatchV1().Jobs("team").Create(q.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "late", Annotations: map[string]string{"slurmlet.dev/gang": "true"}},
		Spec: batchv1.JobSpec{Parallelism: &two, Completions: &two, CompletionMode: new(batchv1.IndexedCompletion), Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{runFor: "1h"}}, Spec: withPort("c"),
		}},
	}, metav1.CreateOptions{})
	require.NoError(q, err)
	pods := func() map[string]*corev1.Pod {
		list, err := q.kube.CoreV1().Pods("team").List(q.Context(), metav1.ListOptions{LabelSelector: "job-name=late"})
		require.NoError(q, err)
		all := map[string]*corev1.Pod{}
		for i := range list.Items {
			if p := &list.Items[i]; p.DeletionTimestamp == nil {
				all[p.Labels["batch.kubernetes.io/job-completion-index"]] = p
			}
		}
		return all
	}
	q.eventually(patience, "both pods are there", func() bool { return len(pods()) == 2 })
	stays, first := q.phase(pods()["0"], corev1.PodRunning), q.phase(pods()["1"], corev1.PodRunning)
	job := stays.Labels["slurmlet.dev/job"]
	holder := q.takePort(first.Spec.NodeName)
	q.delete(first, 0)
	var next *corev1.Pod
	q.eventually(patience, "another pod follows", func() bool {
		next = pods()["1"]
		return next != nil && next.UID != first.UID
	})
	note := q.said(next, "NotBound")
	assert.Contains(q, note, "didn't have free ports")
	assert.Contains(q, note, "Other pods of Slurm job "+job+" run, and it stays.")
	assert.Equal(q, "RUNNING", q.state(job))
	assert.Equal(q, corev1.PodRunning, q.podNow(stays).Status.Phase)
	q.delete(holder, 0)
	now := q.phase(next, corev1.PodRunning)
	assert.Equal(q, first.Spec.NodeName, now.Spec.NodeName)
	assert.Equal(q, job, now.Labels["slurmlet.dev/job"])
	q.kubelet.end(stays)
	q.kubelet.end(now)
	q.complete("late")
	q.becomes(job, "COMPLETED")
}

// notBound: a pod that kube-scheduler cannot bind gives its node back, and the next pod of its Job gets another one.
func notBound(q *queueBed) {
	holder := q.takePort("m1")
	defer q.delete(holder, 0)
	hog := q.sbatch("sleep 1000", "--nodelist=n2,n3,n4", "--nodes=3", "--exclusive")
	q.becomes(hog, "RUNNING")
	one := int32(1)
	_, err := q.kube.BatchV1().Jobs("team").Create(q.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "bound-late"},
		Spec: batchv1.JobSpec{BackoffLimit: &one, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{runFor: "1s"}}, Spec: withPort("c"),
		}},
	}, metav1.CreateOptions{})
	require.NoError(q, err)
	first := q.podOf("bound-late")
	note := q.said(first, "NotBound")
	q.command("scancel", hog)
	assert.Contains(q, note, "kube-scheduler has not bound the pod to its node n1 within 1m0s: ")
	assert.Contains(q, note, "didn't have free ports")
	q.complete("bound-late")
	list, err := q.kube.CoreV1().Pods("team").List(q.Context(), metav1.ListOptions{LabelSelector: "job-name=bound-late"})
	require.NoError(q, err)
	require.Len(q, list.Items, 1)
	assert.NotEqual(q, first.UID, list.Items[0].UID)
	assert.NotEqual(q, "n1", list.Items[0].Annotations["slurmlet.dev/slurm-node"])
}
