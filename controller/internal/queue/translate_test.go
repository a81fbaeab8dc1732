package queue

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

func resources(pairs ...string) corev1.ResourceList {
	all := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		all[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return all
}

func podWith(requests, limits corev1.ResourceList, marks map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a", UID: "u", Annotations: marks},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}}},
	}
}

func TestTranslate(t *testing.T) {
	tenant := Tenant{Cluster: "hpc/slurm", User: "alice", Account: "science", Partition: "main", Users: []string{"bob"}}
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		size   int
		sets   map[string]bool
		owners []Owner
		want   string
		fault  string
	}{
		"a bare pod has a machine of its own": {
			pod:  podWith(resources("cpu", "1500m", "memory", "1Gi"), resources("memory", "2Gi"), nil),
			want: "--account=science --partition=main --ntasks=1 --cpus-per-task=2 --nodes=1 --ntasks-per-node=1 --exclusive --mem=2048M",
		},
		"nothing asked": {pod: podWith(nil, nil, nil), want: "--account=science --partition=main --ntasks=1 --cpus-per-task=1 --nodes=1 --ntasks-per-node=1 --exclusive"},
		"shared": {
			pod:  podWith(resources("cpu", "3", "memory", "1000Mi"), nil, map[string]string{slinky + "exclusive": "false"}),
			want: "--account=science --partition=main --ntasks=1 --cpus-per-task=3 --nodes=1 --mem-per-cpu=334M",
		},
		"beside other pods": {
			pod:  podWith(resources("cpu", "3", "memory", "1000Mi"), nil, nil),
			sets: map[string]bool{"main": true, "cpu": false},
			want: "--account=science --partition=main --ntasks=1 --cpus-per-task=3 --nodes=1 --exclusive=mcs --mcs-label=kubernetes --mem-per-cpu=334M",
		},
		"a gang beside other pods": {
			pod: podWith(resources("cpu", "1", "memory", "10Mi"), resources("nvidia.com/gpu", "1"), nil), size: 4,
			sets: map[string]bool{"main": true},
			want: "--account=science --partition=main --ntasks=4 --cpus-per-task=1 --exclusive=mcs --mcs-label=kubernetes --mem-per-cpu=10M --gpus-per-task=1",
		},
		"alone where others share": {
			pod:  podWith(nil, nil, map[string]string{slinky + "exclusive": "true"}),
			sets: map[string]bool{"main": true},
			want: "--account=science --partition=main --ntasks=1 --cpus-per-task=1 --nodes=1 --ntasks-per-node=1 --exclusive",
		},
		"never beside Slurm's jobs where pods share": {
			pod:  podWith(nil, nil, map[string]string{slinky + "exclusive": "false"}),
			sets: map[string]bool{"main": true},
			want: "--account=science --partition=main --ntasks=1 --cpus-per-task=1 --nodes=1 --exclusive=mcs --mcs-label=kubernetes",
		},
		"a gang of four with GPUs": {
			pod: podWith(nil, resources("nvidia.com/gpu", "2"), nil), size: 4,
			want: "--account=science --partition=main --ntasks=4 --cpus-per-task=1 --nodes=4 --ntasks-per-node=1 --exclusive --gpus-per-task=2",
		},
		"the Job's annotations count": {
			pod: podWith(nil, nil, map[string]string{slinky + "partition": "pods"}),
			owners: []Owner{{Kind: "Job", Annotations: map[string]string{
				slinky + "partition": "gpu", slinky + "account": "a2", slinky + "qos": "high", slinky + "timelimit": "30", slinky + "constraints": "a100&nvme",
				slinky + "licenses": "matlab:2", slinky + "reservation": "r", slinky + "wckey": "w", slinky + "min-nodes": "1", slinky + "max-nodes": "2",
				slinky + "mem-per-node": "4Gi", slinky + "cpu-per-task": "2500m", slinky + "gres": "gpu:h100:1", slinky + "user-id": "bob",
			}}},
			want: "--account=a2 --partition=gpu --qos=high --constraint=a100&nvme --licenses=matlab:2 --reservation=r --wckey=w --time=30 --ntasks=1 --cpus-per-task=3 --nodes=1-2 --exclusive --mem=4096M --gres=gpu:h100:1",
		},
		"a deadline":            {pod: podWith(nil, nil, nil), owners: []Owner{{Kind: "Job", Deadline: 61}}, want: "--account=science --partition=main --time=2 --ntasks=1 --cpus-per-task=1 --nodes=1 --ntasks-per-node=1 --exclusive"},
		"a wrong value":         {pod: podWith(nil, nil, map[string]string{slinky + "timelimit": "soon"}), fault: `the annotation slurmjob.slinky.slurm.net/timelimit is "soon", and a whole number from 1 is allowed`},
		"no annotation":         {pod: podWith(nil, nil, map[string]string{slinky + "colour": "red"}), fault: "is none of slurm-bridge's: account, constraints,"},
		"a flag in a value":     {pod: podWith(nil, nil, map[string]string{slinky + "account": "--uid=0"}), fault: "one of Slurm's names is allowed"},
		"another user":          {pod: podWith(nil, nil, map[string]string{slinky + "user-id": "root"}), fault: `the annotation slurmjob.slinky.slurm.net/user-id is "root", and alice or bob is allowed`},
		"another group":         {pod: podWith(nil, nil, map[string]string{slinky + "group-id": "wheel"}), fault: "group-id"},
		"a priority of its own": {pod: podWith(nil, nil, map[string]string{slinky + "priority": "7"}), fault: "priority"},
	} {
		t.Run(name, func(t *testing.T) {
			g := Group{UID: "u", Name: "team/a", Size: max(c.size, 1), Gang: c.size > 1}
			tenant.Sets = c.sets
			user, args, err := Translate(g, tenant, []*corev1.Pod{c.pod}, c.owners)
			if c.fault != "" {
				require.ErrorContains(t, err, c.fault)
				return
			}
			require.NoError(t, err)
			assert.NotEmpty(t, user)
			requeue := "--no-requeue "
			if g.Gang {
				requeue = "--requeue "
			}
			head := "--comment=slurmlet.dev/group=u team/a --job-name=a --chdir=/ --output=/dev/null --error=/dev/null --export=NIL " + requeue
			assert.Equal(t, head+c.want, strings.Join(args, " "))
		})
	}
}

func TestTogether(t *testing.T) {
	sets := map[string]bool{"pods": true, "more": true, "cpu": false}
	for partitions, want := range map[string]bool{"pods": true, "pods,more": true, "pods,cpu": false, "cpu": false, "": false, "all": false, "pods,all": false} {
		assert.Equal(t, want, Tenant{Sets: sets}.together(partitions), partitions)
	}
	delete(sets, "cpu")
	for _, partitions := range []string{"", "all", "pods,all", "more"} {
		assert.True(t, Tenant{Sets: sets}.together(partitions), partitions)
	}
	assert.False(t, Tenant{}.together(""))
	assert.False(t, Tenant{}.together("pods"))
}

func TestNeeds(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	one := func(cpu string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: resources("cpu", cpu)}}
	}
	sidecar := one("1")
	sidecar.RestartPolicy = &always
	p := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{sidecar, one("6")}, Containers: []corev1.Container{one("2"), one("2")}, Overhead: resources("cpu", "1"),
	}}
	need := Needs(p)
	assert.Equal(t, int64(8), need.Cpu().Value(), "the init container beside the sidecar, and the overhead")
}

func TestTenantOf(t *testing.T) {
	marks := map[string]string{wellknown.Cluster: "hpc/slurm", wellknown.User: "alice", wellknown.Allow: "user-id=bob;carol,priority"}
	tenant, err := TenantOf("team", map[string]string{wellknown.Account: "science"}, marks)
	require.NoError(t, err)
	assert.Equal(t, Tenant{Cluster: "hpc/slurm", User: "alice", Account: "science", Users: []string{"bob", "carol"}}, tenant)
	_, err = TenantOf("team", nil, map[string]string{wellknown.Cluster: "hpc/slurm"})
	require.ErrorContains(t, err, `the namespace team names no Slurm user: its label or annotation slurmlet.dev/user is ""`)
	_, err = TenantOf("team", nil, map[string]string{wellknown.Cluster: "slurm", wellknown.User: "alice"})
	require.ErrorContains(t, err, `"slurm", and namespace/name is allowed`)
	_, err = TenantOf("team", nil, map[string]string{wellknown.Cluster: "hpc/slurm", wellknown.User: "-x"})
	require.Error(t, err)
}

func TestGroupOf(t *testing.T) {
	name := "pg"
	for title, c := range map[string]struct {
		change func(p *corev1.Pod)
		owners []Owner
		want   Group
		fault  string
	}{
		"a bare pod":   {want: Group{UID: "u", Name: "team/a", Size: 1, Slot: -1}},
		"a plain Job":  {owners: []Owner{{Kind: "Job", Name: "j", UID: "ju", Size: 5}}, want: Group{UID: "u", Name: "team/a", Size: 1, Slot: -1}},
		"a ReplicaSet": {owners: []Owner{{Kind: "ReplicaSet"}, {Kind: "Deployment"}}, want: Group{UID: "u", Name: "team/a", Size: 1, Slot: -1}},
		"a Job as a gang": {
			change: func(p *corev1.Pod) { p.Annotations = map[string]string{completionIndex: "3"} },
			owners: []Owner{{Kind: "Job", Name: "j", UID: "ju", Size: 5, Whole: 9, Annotations: map[string]string{wellknown.Gang: "true"}}},
			want:   Group{UID: "ju", Name: "team/j", Size: 5, Whole: 9, Gang: true, Slot: 3, Watched: "ju"},
		},
		"a JobSet": {
			owners: []Owner{{Kind: "Job", Name: "j", UID: "ju", Size: 2}, {Kind: "JobSet", Name: "s", UID: "su", Size: 6}},
			want:   Group{UID: "su", Name: "team/s", Size: 6, Gang: true, Slot: -1, Watched: "su"},
		},
		"a JobSet's pod has its place among all": {
			change: func(p *corev1.Pod) {
				p.Labels, p.Annotations = map[string]string{jobSetJobs: "workers", jobSetJob: "1"}, map[string]string{completionIndex: "2"}
			},
			owners: []Owner{{Kind: "JobSet", Name: "s", UID: "su", Size: 10, Jobs: []ReplicatedJob{{"driver", 2, 1, 1}, {"workers", 2, 4, 4}}}},
			want:   Group{UID: "su", Name: "team/s", Size: 10, Gang: true, Slot: 8, Watched: "su"},
		},
		"a JobSet whose pods are no gang": {
			owners: []Owner{{Kind: "Job", Size: 2}, {Kind: "JobSet", Size: 6, Annotations: map[string]string{wellknown.Gang: "false"}}},
			want:   Group{UID: "u", Name: "team/a", Size: 1, Slot: -1},
		},
		"a LeaderWorkerSet": {
			change: func(p *corev1.Pod) {
				p.Labels, p.Annotations = map[string]string{lwsName: "lws", lwsGroup: "1", lwsIndex: "2"}, map[string]string{lwsSize: "4"}
			},
			owners: []Owner{{Kind: "LeaderWorkerSet", Name: "lws", UID: "lu", Replicas: 2}},
			want:   Group{UID: "lu.1", Name: "team/lws-1", Size: 4, Whole: 4, Gang: true, Slot: 2, Watched: "lu", Index: 1},
		},
		"a LeaderWorkerSet that is gone": {
			change: func(p *corev1.Pod) {
				p.Labels, p.Annotations = map[string]string{lwsName: "lws", lwsGroup: "1", lwsIndex: "0"}, map[string]string{lwsSize: "4"}
			},
			want: Group{UID: "lws.lws-1", Name: "team/lws-1", Size: 4, Whole: 4, Gang: true, Slot: 0, Index: 1},
		},
		"a LeaderWorkerSet without a size": {change: func(p *corev1.Pod) { p.Labels = map[string]string{lwsName: "lws", lwsGroup: "0"} }, fault: lwsSize},
		"a PodGroup": {
			change: func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name} },
			owners: []Owner{{Kind: "PodGroup", Name: "pg", UID: "pu", Size: 3}, {Kind: "Job", Size: 3}},
			want:   Group{UID: "pu", Name: "team/pg", Size: 3, Whole: 3, Gang: true, Slot: -1, Open: true},
		},
		"a PodGroup of a JobSet's pods": {
			owners: []Owner{{Kind: "PodGroup", Name: "pg", UID: "pu", Size: 3}, {Kind: "Job", UID: "ju", Size: 3}, {Kind: "JobSet", UID: "su"}, {Kind: "Workload", UID: "wu"}},
			want:   Group{UID: "pu", Name: "team/pg", Size: 3, Gang: true, Slot: -1, Open: true, Watched: "su"},
		},
		"a PodGroup of nobody": {owners: []Owner{{Kind: "PodGroup", Name: "pg", UID: "pu"}}, fault: "the PodGroup pg has 0 pods at once"},
	} {
		t.Run(title, func(t *testing.T) {
			p := podWith(nil, nil, nil)
			if c.change != nil {
				c.change(p)
			}
			g, err := GroupOf(p, c.owners)
			if c.fault != "" {
				require.ErrorContains(t, err, c.fault)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, g)
		})
	}
}

// TestPlace: what is written to a pod is read again.
func TestPlace(t *testing.T) {
	p := podWith(nil, nil, nil)
	place := Place{Job: 7, Run: Run{Restarts: 2, Start: 1_800_000_000}, Node: "w3", Rank: 5}
	p.Labels = map[string]string{wellknown.Job: "7"}
	p.Annotations = map[string]string{wellknown.JobRun: place.String(), wellknown.SlurmNode: "w3"}
	assert.Equal(t, place, PodOf(p, Group{}).Place)
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: wellknown.Gate}}
	assert.Zero(t, PodOf(p, Group{}).Place, "a pod with the gate has no place, whatever it says")
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		phase           corev1.PodPhase
		reason, message string
		want            string
	}{
		"no room":                   {corev1.PodFailed, "OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu, requested: 8, used: 4, capacity: 4", "OutOfcpu: Node didn't have enough resource: cpu, requested: 8, used: 4, capacity: 4"},
		"another label":             {corev1.PodFailed, "NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed: no match", "NodeAffinity: Predicate NodeAffinity failed: no match"},
		"a device":                  {corev1.PodFailed, "UnexpectedAdmissionError", "Pod was rejected: Allocate failed", "UnexpectedAdmissionError: Allocate failed"},
		"a reason of a later year":  {corev1.PodFailed, "NotToday", "Pod was rejected: ", "NotToday"},
		"for a critical pod":        {corev1.PodFailed, "Preempting", "Preempted in order to admit critical pod", "Preempting: Preempted in order to admit critical pod"},
		"it wrote too much":         {corev1.PodFailed, "Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.", ""},
		"a container failed":        {corev1.PodFailed, "", "", ""},
		"its time was over":         {corev1.PodFailed, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline", ""},
		"it runs, whatever it says": {corev1.PodRunning, "OutOfcpu", "Pod was rejected: x", ""},
	} {
		p := &corev1.Pod{Status: corev1.PodStatus{Phase: c.phase, Reason: c.reason, Message: c.message}}
		assert.Equal(t, c.want, PodOf(p, Group{}).Refused, name)
	}
}
