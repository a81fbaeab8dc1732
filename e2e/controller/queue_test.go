//go:build e2e

package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/daemon"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// TestQueue has pods wait in the queue of a real Slurm, beside Slurm's own jobs. kube-apiserver, kube-scheduler, the Job
// controller, slurmlet's controller, slurmctld, four slurmds with their agents and a gateway are real. The test is the kubelets.
// It runs beside no other test, because the end of a cluster of e2e/testbed/native is that of all processes.
func TestQueue(t *testing.T) {
	versions := slices.Sorted(maps.Keys(given.Roots))
	if named := slices.DeleteFunc(slices.Clone(versions), func(version string) bool { return !asked(version) }); len(named) > 0 {
		versions = named
	} else if !given.Full {
		versions = versions[len(versions)-1:]
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			q := newQueueBed(t, version)
			for _, one := range []struct {
				name string
				play func(*queueBed)
				long bool // only with SLURMLET_E2E_FULL=1, or where -run names it
			}{
				{"gangs beside Slurm's jobs", gangsBesideJobs, false},
				{"slurmctld is away", func(q *queueBed) { q.outage(q.slurmctldAway, true) }, false},
				{"the gateway is away", func(q *queueBed) { q.outage(q.gatewayAway, true) }, false},
				{"the API server is away", func(q *queueBed) { q.outage(q.apiAway, true) }, false},
				{"the controller is away", func(q *queueBed) { q.outage(q.controllerAway, given.Full) }, false},
				{"a Slurm job preempts a pod", slurmPreempts, false},
				{"a pod preempts a Slurm job", podPreempts, false},
				{"a reservation", reservation, false},
				{"only nodes that fit", onlyFitting, false},
				{"an elastic node that is off", startsElastic, false},
				{"a pod that its kubelet refuses", kubeletRefuses, false},
				{"a pod that is not bound", notBound, true},
				{"a late pod of a gang", latePod, true},
				{"a time limit", timeLimit, true},
				{"pods of a Job that fail", failingPods, true},
				{"a Job that is suspended", suspendedJob, true},
				{"a comment that its user alters", alteredComment, true},
				{"a job that Slurm suspends", suspendedBySlurm, true},
				{"pods that are evicted", evictions, true},
				{"a pod of slurmd's that is deleted", slurmdEnds, true},
				{"a slurmctld without its jobs", lostState, true},
				{"many pods", manyPods, true},
				{"fair share", fairShare, true}, // the last one, because Slurm has accounting from there on
			} {
				if one.long && !given.Full && !asked(strings.ReplaceAll(one.name, " ", "_")) {
					continue
				}
				if !t.Run(one.name, func(t *testing.T) {
					q.T = t
					one.play(q)
					q.rests()
				}) {
					break // the rest would fail for the same reason
				}
			}
			q.T = t
		})
	}
}

const (
	// queueNodes is how many nodes there are: n1 on m1 and so on.
	queueNodes = 4
	// queueConf has preemption by partitions. Slurm looks for jobs to start at once. The site's prolog and epilog tell when
	// a job has a node: slurmlet's epilog is before the site's. Nodes with the feature burst may be off.
	queueConf = `SlurmctldParameters=enable_configless,power_save_interval=0
MaxNodeCount=10
MinJobAge=7200
KillWait=5
PrologFlags=Alloc
Prolog=site.sh
Prolog=slurmlet-prolog.sh
Epilog=slurmlet-epilog.sh
Epilog=site.sh
SchedulerParameters=sched_min_interval=100000,bf_interval=5
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=high Nodes=ALL State=UP PriorityTier=10
PartitionName=low Nodes=ALL State=UP PriorityTier=0
ResumeProgram=/etc/slurm/resume.sh
SuspendProgram=/usr/bin/true
SuspendTimeout=5
ResumeTimeout=120
SuspendTime=900000000
NodeSet=burst Feature=burst
PartitionName=burst Nodes=burst State=UP SuspendTime=300
`
	resume = "#!/bin/sh\necho \"$1\" >>/run/slurmctld/resumed\n"
	site   = "#!/bin/sh\necho \"$(date +%s.%N) $SLURM_SCRIPT_CONTEXT $SLURM_JOB_ID $SLURMD_NODENAME\" >>/srv/site\n"
)

// asked says whether -run names something.
func asked(what string) bool {
	return slices.ContainsFunc(given.Args, func(arg string) bool {
		return strings.HasPrefix(arg, "-test.run") && strings.Contains(strings.ReplaceAll(arg, `\`, ""), what)
	})
}

// queueBed is a bed with a Slurm cluster.
type queueBed struct {
	*bed
	version string
	slurm   *native.Cluster
	nodes   []*native.Node
	login   *native.Node
	kubelet *playedKubelet
	environ map[string][]string // of the agents
	count   int                 // of outages

	lock sync.Mutex
	log  []string
}

func newQueueBed(t *testing.T, version string) *queueBed {
	values := []string{"--set", "bridge.enabled=true"}
	b := newBedWith(t, []string{home, "hpc", "team"}, values...)
	b.apply("bridge", values...)
	b.annotate("team", `{"slurmlet.dev/cluster":"hpc/slurm","slurmlet.dev/user":"alice"}`)
	q := &queueBed{bed: b, version: version, environ: map[string][]string{}}
	b.replica("SLURMLET_BRIDGE=true", "SLURMLET_LOG_LEVEL=debug").ready()
	for _, name := range []string{"kube-scheduler", "kube-controller-manager"} {
		config := b.file("admin")
		d := &daemon.Daemon{Name: name, Args: []string{
			"--kubeconfig", config, "--authentication-kubeconfig", config, "--authorization-kubeconfig", config, "--bind-address", b.host,
			"--leader-elect=false", "--cert-dir", b.file(name),
		}}
		if name == "kube-controller-manager" {
			d.Args = append(d.Args, "--controllers=job-controller")
		}
		b.start(d, filepath.Join(given.Programs, name))
	}
	for i := range queueNodes {
		q.machine(fmt.Sprintf("m%d", i+1))
	}
	q.startSlurm()
	q.kubelet = q.playKubelet()
	b.eventually(patience, "the policies hold", func() bool {
		p, err := b.kube.CoreV1().Pods("team").Create(b.Context(), userPod("gated", nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(b, err)
		return len(p.Spec.SchedulingGates) > 0
	})
	return q
}

// machine makes a Kubernetes node that is ready.
func (q *queueBed) machine(name string) {
	q.node(name)
	all := q.kube.CoreV1().Nodes()
	const status = `{"status":{"capacity":{"cpu":"8","memory":"8Gi","pods":"110"},"allocatable":{"cpu":"8","memory":"8Gi","pods":"110"},"conditions":[{"type":"Ready","status":"True"}]}}`
	_, err := all.Patch(q.Context(), name, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status")
	require.NoError(q, err)
	_, err = all.Patch(q.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{"kubernetes.io/hostname":"`+name+`"}},"spec":{"taints":null}}`), metav1.PatchOptions{})
	require.NoError(q, err)
}

func (q *queueBed) heard(line string) {
	q.lock.Lock()
	defer q.lock.Unlock()
	q.log = append(q.log, line)
}

const (
	service     = home + "." + home + ".svc"
	servicePort = "8443"
)

func (q *queueBed) startSlurm() {
	c, err := native.NewCluster(native.Options{
		Lower: given.Roots[q.version], Slurmlet: filepath.Join(given.Binaries, "slurmlet"), Nodes: queueNodes + 1, SlurmConf: queueConf, Aliases: []string{service},
	})
	require.NoError(q, err)
	q.slurm, q.nodes, q.login = c, c.Nodes[:queueNodes], c.Nodes[queueNodes]
	q.whole.Cleanup(func() {
		if q.whole.Failed() {
			q.explain()
		}
		assert.NoError(q.whole, c.Close())
	})
	scripts := map[string][]byte{"site.sh": []byte(site), "resume.sh": []byte(resume)}
	for _, name := range []string{"slurmlet-prolog.sh", "slurmlet-epilog.sh"} {
		scripts[name], err = os.ReadFile("../../charts/slurm/scripts/" + name)
		require.NoError(q, err)
	}
	for name, text := range scripts {
		require.NoError(q, os.WriteFile(filepath.Join(c.Root, "etc/slurm", name), text, 0o755))
	}
	hosts, err := os.ReadFile(filepath.Join(c.Root, "etc/hosts"))
	require.NoError(q, err)
	require.NoError(q, os.WriteFile(filepath.Join(c.Root, "etc/hosts.pod"), hosts, 0o644))
	q.door()
	q.login.Role = "login"
	var all sync.WaitGroup
	require.NoError(q, c.Control(q.heard))
	for i, n := range c.Nodes {
		s := spec{"hpc", n.Name, "slurm", "slurmd", "cpu", "", fmt.Sprintf("m%d", i+1), []string{n.IP.String()}}
		own := []string{"SLURMLET_HOLDS=on"}
		if n == q.login {
			s = spec{"hpc", n.Name, "slurm", "login", "", "", "m1", []string{n.IP.String()}}
			own = []string{
				"SLURMLET_GATEWAY_USERS=alice,nobody", "SLURMLET_GATEWAY_MIN_UID=1000", "SLURMLET_SSH_HOST_KEYS=/srv/keys", "SLURMLET_SSH_AUTHORIZED_KEYS=/srv/authorized",
			}
		}
		pod := q.pod(s)
		q.status(pod, `{"conditions":[{"type":"Ready","status":"True"}]}`)
		if n == q.login {
			_, err := q.kube.CoreV1().Pods("hpc").Patch(q.Context(), n.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"slurmlet.dev/gateway":"true"}}}`), metav1.PatchOptions{})
			require.NoError(q, err)
		}
		q.environ[n.Name] = append(q.admit(pod), own...)
		all.Go(func() {
			if assert.NoError(q, c.Start(n, q.environ[n.Name]...)) {
				assert.NoError(q, n.AwaitReady(patience))
			}
		})
	}
	all.Wait()
	require.False(q, q.Failed())
}

// admit gives a pod's agent its token, and returns its settings.
func (q *queueBed) admit(p *corev1.Pod) []string {
	dir := "/etc/slurmlet/peers-" + p.Name
	at := filepath.Join(q.slurm.Root, dir)
	authority, err := os.ReadFile(q.bundle(p.Namespace))
	require.NoError(q, err)
	require.NoError(q, errors.Join(os.MkdirAll(at, 0o755), os.WriteFile(filepath.Join(at, "ca.crt"), authority, 0o644),
		os.WriteFile(filepath.Join(at, "token"), []byte(q.token(p.Namespace, "default", p, wire.Audience)), 0o400)))
	return []string{"SLURMLET_PEERS=" + service + ":" + servicePort, "SLURMLET_PEERS_DIR=" + dir}
}

// door is the Service: it leads to the replica.
func (q *queueBed) door() {
	l, err := net.Listen("tcp", native.Address+":"+servicePort)
	require.NoError(q, err)
	q.whole.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				to, err := net.Dial("tcp", q.replicas[0].peers)
				if err != nil {
					return
				}
				defer to.Close()
				go func() {
					_, _ = io.Copy(to, from) // until one of them leaves
					_ = to.Close()
				}()
				_, _ = io.Copy(from, to)
			}()
		}
	}()
}

func (q *queueBed) explain() {
	q.lock.Lock()
	q.whole.Logf("the end of slurmctld's log:\n%s", strings.Join(q.log[max(0, len(q.log)-60):], "\n"))
	q.lock.Unlock()
	for _, n := range append(slices.Clone(q.nodes), q.login) {
		if n.Started() {
			log := n.Log()
			q.whole.Logf("%s:\n%s", n.Name, strings.Join(log[max(0, len(log)-25):], "\n"))
		}
	}
	text, _ := os.ReadFile(filepath.Join(q.slurm.Root, "srv/site"))
	q.whole.Logf("the site's prologs and epilogs:\n%s", text[max(0, len(text)-3000):])
	for _, args := range [][]string{{"squeue", "--states=all", "--format=%i %P %u %j %t %r %N %k"}, {"sinfo", "-N", "--format=%N %T %E"}} {
		out, _ := q.slurm.Command("/usr/bin/"+args[0], args[1:]...).CombinedOutput()
		q.whole.Logf("%s", out)
	}
}

// command is one of Slurm's, and what it prints.
func (q *queueBed) command(program string, args ...string) string {
	q.Helper()
	out, err := q.slurm.Command("/usr/bin/"+program, args...).CombinedOutput()
	require.NoError(q, err, "%s %v: %s", program, args, out)
	return strings.TrimSpace(string(out))
}

// sbatch submits a job of Slurm's own, and returns its number.
func (q *queueBed) sbatch(script string, args ...string) string {
	q.Helper()
	return q.command("sbatch", append([]string{"--parsable", "--mem=10", "--output=/dev/null", "--chdir=/", "--wrap=" + script}, args...)...)
}

// state is a job's, and why it waits.
func (q *queueBed) state(job string) string {
	out, err := q.slurm.Command("/usr/bin/squeue", "--noheader", "--states=all", "--jobs="+job, "--format=%T").Output()
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(out))
}

func (q *queueBed) becomes(job, state string) {
	q.Helper()
	saw := ""
	defer func() {
		if saw != state {
			q.Errorf("job %s is %s", job, saw)
		}
	}()
	q.eventually(patience, "job "+job+" is "+state, func() bool {
		saw = q.state(job)
		return saw == state
	})
}

// jobsOf are the jobs of a group, by its name, the oldest first.
func (q *queueBed) jobsOf(name string) (jobs []string) {
	out, err := q.slurm.Command("/usr/bin/squeue", "--noheader", "--states=all", "--sort=i", "--format=%i %k").Output()
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		id, comment, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, group := wire.GroupOf(comment); group == "team/"+name {
			jobs = append(jobs, id)
		}
	}
	return jobs
}

// job waits for a group's job.
func (q *queueBed) job(name string) (job string) {
	q.Helper()
	q.eventually(patience, name+" has a job", func() bool {
		if jobs := q.jobsOf(name); len(jobs) > 0 {
			job = jobs[len(jobs)-1]
		}
		return job != ""
	})
	return job
}

// runs makes a pod that runs for a time, and ends well.
func (q *queueBed) runs(name string, long time.Duration, annotations map[string]string) *corev1.Pod {
	q.Helper()
	all := map[string]string{runFor: long.String()}
	maps.Copy(all, annotations)
	p := userPod(name, all)
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	made, err := q.kube.CoreV1().Pods("team").Create(q.Context(), p, metav1.CreateOptions{})
	require.NoError(q, err)
	return made
}

// phase waits for a pod's.
func (q *queueBed) phase(p *corev1.Pod, want corev1.PodPhase) (now *corev1.Pod) {
	q.Helper()
	q.eventually(patience, p.Name+" is "+string(want), func() bool {
		now = q.podNow(p)
		require.NotNil(q, now, p.Name+" is gone")
		return now.Status.Phase == want
	})
	return now
}

// rests waits until no job is there and all nodes are idle, and looks at who has had which node: no pod was there without its
// job, and no other job beside a pod.
func (q *queueBed) rests() {
	q.Helper()
	q.eventually(patience, "all nodes are idle, and no job is left", func() bool {
		states, err := q.slurm.Command("/usr/bin/sinfo", "--noheader", "--Node", "--partition=all", "--format=%T").Output()
		jobs, also := q.slurm.Command("/usr/bin/squeue", "--noheader").Output()
		return err == nil && also == nil && string(states) == strings.Repeat("idle\n", queueNodes) && len(jobs) == 0
	})
	q.check()
	require.NoError(q, q.kube.CoreV1().Pods("team").DeleteCollection(q.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	q.eventually(patience, "no pod is left", func() bool {
		list, err := q.kube.CoreV1().Pods("team").List(q.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
}

// allocation is a job's on a node, from its prolog to the end of slurmlet's epilog.
type allocation struct {
	job, node  string
	begin, end float64
}

// allocations are those that the site's scripts have told of. A job that was requeued has several.
func (q *queueBed) allocations() (all []*allocation) {
	text, err := os.ReadFile(filepath.Join(q.slurm.Root, "srv/site"))
	require.NoError(q, err)
	open := map[[2]string]*allocation{}
	for line := range strings.Lines(string(text)) {
		var at float64
		var what, job, node string
		_, err := fmt.Sscan(line, &at, &what, &job, &node)
		require.NoError(q, err, line)
		key := [2]string{job, node}
		if what == "prolog_slurmd" {
			open[key] = &allocation{job, node, at, 0}
			all = append(all, open[key])
		} else if one := open[key]; one != nil {
			one.end = at
		}
	}
	return all
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// check holds the stays of pods to the allocations of jobs.
func (q *queueBed) check() {
	q.Helper()
	all := q.allocations()
	pods := map[*allocation][]stay{}
	for _, s := range q.kubelet.stays() {
		require.False(q, s.end.IsZero(), "pod %s runs on", s.pod)
		begin, end := seconds(s.begin), seconds(s.end)
		var own *allocation
		for _, a := range all {
			if a.node != s.node {
				continue
			}
			if a.job == s.job && a.begin <= begin && end <= a.end {
				own = a
			} else if a.begin < end && (a.end == 0 || begin < a.end) {
				assert.Failf(q, "a job is beside a pod", "job %s had %s from %f to %f, and pod %s of job %s was there from %f to %f", a.job, a.node, a.begin, a.end, s.pod, s.job, begin, end)
			}
		}
		if assert.NotNil(q, own, "pod %s was on %s from %f to %f, without its job %s", s.pod, s.node, begin, end, s.job) {
			pods[own] = append(pods[own], s)
		}
	}
	var before, after []time.Duration
	for a, stays := range pods {
		first, last := seconds(stays[0].begin), 0.0
		for _, s := range stays {
			first, last = min(first, seconds(s.begin)), max(last, seconds(s.end))
		}
		before = append(before, time.Duration((first-a.begin)*1e9))
		after = append(after, time.Duration((a.end-last)*1e9))
	}
	if len(before) > 0 {
		q.Logf("%d allocations of pods so far; from the prolog to the pod: %s; from the pod's end to the epilog's: %s", len(before), quantiles(before), quantiles(after))
	}
}

// slurmctldAway ends slurmctld, and returns what brings it back.
func (q *queueBed) slurmctldAway() (back func()) {
	require.NoError(q, q.slurm.Slurmctld.Process.Signal(unix.SIGTERM))
	_ = q.slurm.Slurmctld.Wait() // its status does not matter
	return func() { require.NoError(q, q.slurm.Control(q.heard)) }
}

// gatewayAway kills the login pod's container.
func (q *queueBed) gatewayAway() (back func()) {
	require.NoError(q, unix.Kill(q.login.PID(), unix.SIGKILL))
	<-q.login.Exited
	return func() {
		q.login = q.anew(q.login)
	}
}

// anew starts a pod's container again, which has ended.
func (q *queueBed) anew(old *native.Node) *native.Node {
	q.Helper()
	n := &native.Node{Name: old.Name, IP: old.IP, Role: old.Role, Ready: make(chan struct{}), Waiting: make(chan struct{}), Exited: make(chan struct{})}
	require.NoError(q, q.slurm.Start(n, q.environ[n.Name]...))
	require.NoError(q, n.AwaitReady(patience))
	return n
}

func (q *queueBed) apiAway() (back func()) {
	require.NoError(q, q.apiserver.Stop(10*time.Second))
	return func() {
		require.NoError(q, q.apiserver.Start())
		q.awaitAPI()
	}
}

func (q *queueBed) controllerAway() (back func()) {
	r := q.replicas[0]
	require.NoError(q, r.Stop(20*time.Second))
	return func() {
		require.NoError(q, r.Start())
		r.ready()
	}
}

// Annotations for the played kubelet: how long a pod runs, its exit status, how long it takes to end when it is deleted, and the
// Slurm node whose kubelet refuses the pod.
const runFor, exitWith, endsAfter, refusedOn = "test/run-for", "test/exit-with", "test/ends-after", "test/refused-on"

// refusal is the status of a pod for which the kubelet has no room.
const refusal = `{"phase":"Failed","reason":"OutOfcpu","message":"Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 8000, capacity: 8000"}`

// playedKubelet runs the pods of team: a pod begins when it has a machine, and ends after its time, or when it is deleted.
type playedKubelet struct {
	q    *queueBed
	lock sync.Mutex
	seen map[types.UID]*stay
	all  []*stay
}

// stay is how long a pod was on a node.
type stay struct {
	pod, job, node string
	begin, end     time.Time
	deleted        time.Time // when the kubelet has seen it first
	refused        bool
	told           string
}

func (q *queueBed) playKubelet() *playedKubelet {
	k := &playedKubelet{q: q, seen: map[types.UID]*stay{}}
	ctx, stop := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			k.look(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	q.whole.Cleanup(func() {
		stop()
		working.Wait()
	})
	return k
}

// look does what is next for each pod. What the API server does not take, it gets again.
func (k *playedKubelet) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	list, err := k.q.kube.CoreV1().Pods("team").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return
	}
	for i := range list.Items {
		k.lookAt(ctx, &list.Items[i])
	}
}

// end ends a pod's container with 0, without any API server.
func (k *playedKubelet) end(p *corev1.Pod) {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.seen[p.UID].end = time.Now()
}

func (k *playedKubelet) lookAt(ctx context.Context, p *corev1.Pod) {
	if p.Spec.NodeName == "" {
		return
	}
	k.lock.Lock()
	defer k.lock.Unlock()
	s := k.seen[p.UID]
	if s == nil {
		refused := p.Annotations[refusedOn] != "" && p.Annotations[refusedOn] == p.Annotations["slurmlet.dev/slurm-node"]
		if p.DeletionTimestamp != nil || refused { // it never ran
			s = &stay{}
		} else {
			s = &stay{pod: p.Name, job: p.Labels["slurmlet.dev/job"], node: p.Annotations["slurmlet.dev/slurm-node"], begin: time.Now()}
			k.all = append(k.all, s)
		}
		k.seen[p.UID] = s
		s.refused = refused
	}
	status := `{"phase":"Running"}`
	long, err := time.ParseDuration(p.Annotations[runFor])
	if err != nil {
		long = time.Hour
	}
	over := s.refused || !s.end.IsZero() || !s.begin.IsZero() && time.Since(s.begin) >= long
	if p.DeletionTimestamp != nil && s.deleted.IsZero() {
		s.deleted = time.Now()
	}
	slow, _ := time.ParseDuration(p.Annotations[endsAfter]) // none is 0
	if !over && p.DeletionTimestamp != nil && time.Since(s.deleted) < slow {
		return
	}
	if over || p.DeletionTimestamp != nil {
		if s.end.IsZero() {
			s.end = time.Now()
		}
		status = `{"phase":"Succeeded"}`
		if code := p.Annotations[exitWith]; code != "" || !over {
			status = `{"phase":"Failed","containerStatuses":[{"name":"c","image":"x","imageID":"","ready":false,"restartCount":0,"state":{"terminated":{"exitCode":` + code + `}}}]}`
			if code == "" {
				status = `{"phase":"Failed"}`
			}
		}
	}
	if s.refused {
		status = refusal
	}
	all := k.q.kube.CoreV1().Pods(p.Namespace)
	if s.told != status && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
		if _, err := all.Patch(ctx, p.Name, types.StrategicMergePatchType, []byte(`{"metadata":{"uid":"`+string(p.UID)+`"},"status":`+status+`}`), metav1.PatchOptions{}, "status"); err != nil {
			return
		}
		s.told = status
	}
	if p.DeletionTimestamp != nil {
		_ = all.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &p.UID}}) // again at the next look
	}
}

// stays are those of all pods so far.
func (k *playedKubelet) stays() (all []stay) {
	k.lock.Lock()
	defer k.lock.Unlock()
	for _, s := range k.all {
		all = append(all, *s)
	}
	return all
}
