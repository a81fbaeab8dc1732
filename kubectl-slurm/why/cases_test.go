package why

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
)

func number(n int64) slurm.Number { return slurm.Number{Set: true, Number: n} }

var now = time.Date(2026, 11, 28, 7, 0, 0, 0, time.UTC)

func waiting(reason string, change func(*slurm.Job)) *slurm.Job {
	j := &slurm.Job{ID: 5, Name: "a", User: "alice", Partition: "all", State: []string{"PENDING"}, Reason: reason, NodeCount: number(1), CPUs: number(1), Priority: number(1)}
	if change != nil {
		change(j)
	}
	return j
}

func group(state, reason string, change func(*slurm.Group)) slurm.Group {
	g := slurm.Group{Partition: "all", State: state, CPUs: 4, Memory: 4096, Count: 2, Nodes: "n[0-1]", Idle: 8, Reason: reason}
	if change != nil {
		change(&g)
	}
	return g
}

func record(state, reason string) *slurm.Node {
	return &slurm.Node{Name: "n0", State: strings.Split(state, "+"), Reason: reason, User: "root", Since: number(now.Unix())}
}

func nodePod(change func(*Pod)) map[string]*Pod {
	p := &Pod{Name: "n0", Role: "slurmd", Machine: "m0", Phase: "Running", Ready: true}
	change(p)
	return map[string]*Pod{"n0": p}
}

func refusedEdit() *slurm.Agent {
	var a slurm.Agent
	_ = json.Unmarshal([]byte(`{"role": "slurmctld", "conf": {"refused": {"since": "2026-11-28T07:00:00Z", "why": ["slurm.conf:1: no"]}}}`), &a) // it is JSON
	return &a
}

func agent(state, reason string) *slurm.Agent { return &slurm.Agent{State: state, Reason: reason} }

// failing is the elastic set burst (n[0-1]), of which n0 does not start.
func failing(reason, note string) *slurm.Agent {
	s := slurm.Set{Name: "burst", Nodes: "n[0-1]"}
	s.Failing = append(s.Failing, struct {
		Nodes  string    `json:"nodes"`
		Reason string    `json:"reason"`
		Note   string    `json:"note,omitempty"`
		Since  time.Time `json:"since,omitzero"`
	}{Nodes: "n0", Reason: reason, Note: note})
	return &slurm.Agent{Role: "slurmctld", Elastic: &slurm.Elastic{Sets: []slurm.Set{s}}}
}

// givenUp is the elastic set burst (n[0-1]), of which nodes are DOWN because they did not start.
func givenUp(nodes string) *slurm.Agent {
	s := slurm.Set{Name: "burst", Nodes: "n[0-1]", Failed: 1, FailedNodes: nodes, Retry: now.Add(time.Minute)}
	return &slurm.Agent{Role: "slurmctld", Elastic: &slurm.Elastic{Sets: []slurm.Set{s}}}
}

// bothFailing has a node that was given up, and of which the controller tells still.
func bothFailing(node string) *slurm.Agent {
	a := failing("Unschedulable", "x")
	a.Elastic.Sets[0].Failed, a.Elastic.Sets[0].FailedNodes = 1, node
	return a
}

// TestJudge: the surest cause, and a part of what is said of it.
func TestJudge(t *testing.T) {
	for _, one := range []struct {
		name  string
		facts Facts
		kind  string
		sure  Certainty
		says  string
	}{
		{"too much memory", Facts{Job: waiting("Resources", func(j *slurm.Job) { j.Memory = number(8192) }), Groups: []slurm.Group{group("idle", "", nil)}}, "too large", Certain, "4 GiB, and the job wants 8 GiB on a node"},
		{"too many CPUs on a node", Facts{Job: waiting("BadConstraints", func(j *slurm.Job) { j.MinCPUs, j.CPUs = number(8), number(8) }), Groups: []slurm.Group{group("idle", "", nil)}}, "too large", Certain, "4 CPUs, and the job wants 8"},
		{"a feature that no node has", Facts{Job: waiting("Resources", func(j *slurm.Job) { j.Features = "a&b" }), Groups: []slurm.Group{group("idle", "", func(g *slurm.Group) { g.Features = "a,c" })}}, "too large", Certain, "no feature b"},
		{"too many GPUs", Facts{Job: waiting("Resources", func(j *slurm.Job) { j.Gres = "gres/gpu:h200:4" }), Groups: []slurm.Group{group("idle", "", func(g *slurm.Group) { g.Gres = "gpu:h200:2(S:0-1)" })}}, "too large", Certain, "2 of gpu:h200, and the job wants 4"},
		{"GPUs of any type", Facts{Job: waiting("Resources", func(j *slurm.Job) { j.Gres = "gres/gpu:2" }), Groups: []slurm.Group{group("mixed", "", func(g *slurm.Group) { g.Gres, g.Idle = "gpu:h200:2(S:0-1)", 0 })}}, "resources", Certain, "0 CPUs are free"},
		{"cordoned", Facts{Job: waiting("Resources", nil), Groups: []slurm.Group{group("drained", "slurmlet cordon: the machine m0 is cordoned", nil)}, Pods: nodePod(func(*Pod) {}), Machines: map[string]*Machine{"m0": {Name: "m0", Cordoned: true}}}, "machine", Certain, "kubectl uncordon m0"},
		{"tainted", Facts{Job: waiting("Resources", nil), Groups: []slurm.Group{group("drained", "slurmlet cordon: taint a", nil)}, Pods: nodePod(func(*Pod) {}), Machines: map[string]*Machine{"m0": {Name: "m0", Taints: []string{"a=b:NoSchedule"}}}}, "machine", Certain, "kubectl taint node m0 a=b:NoSchedule-"},
		{"a machine that is not Ready", Facts{Job: waiting("Resources", nil), Groups: []slurm.Group{group("drained", "slurmlet cordon: machine m0 is not Ready", nil)}, Pods: nodePod(func(*Pod) {}), Machines: map[string]*Machine{"m0": {Name: "m0", Unready: "NodeStatusUnknown: x", Taints: []string{"node.kubernetes.io/unreachable:NoSchedule"}}}}, "machine", Certain, "kubectl describe node m0"},
		{"a disk that is full", Facts{Job: waiting("Resources", nil), Groups: []slurm.Group{group("drained", "slurmlet cordon: taint", nil)}, Pods: nodePod(func(*Pod) {}), Machines: map[string]*Machine{"m0": {Name: "m0", Taints: []string{"node.kubernetes.io/disk-pressure:NoSchedule"}}}}, "machine", Certain, "kubectl describe node m0"},
		{"down", Facts{Job: waiting("Resources", nil), Groups: []slurm.Group{group("down", "Not responding", func(g *slurm.Group) { g.Mark = "*" })}}, "down", Certain, "kubectl slurm why -n slurm n0"},
		{"slurmlet drains one of two, and the other suffices", Facts{Job: waiting("Resources", nil), Groups: []slurm.Group{group("drained", "slurmlet: pod is terminating", func(g *slurm.Group) { g.Count, g.Nodes = 1, "n0" }), group("allocated", "", func(g *slurm.Group) { g.Count, g.Nodes, g.Idle = 1, "n1", 0 })}}, "resources", Certain, "No jobs get n0: drained"},
		{"nothing is known of the nodes", Facts{Job: waiting("Resources", nil)}, "", "", "I do not know why."},
		{"an elastic set alone, by a quota", Facts{Job: waiting("Resources", nil), Groups: []slurm.Group{group("idle", "", func(g *slurm.Group) { g.Mark = "#" })}, Controller: failing("FailedCreate", "exceeded quota: none")}, "elastic", Certain, "kubectl describe -n slurm resourcequota"},
		{"an elastic set, and other nodes would do", Facts{Job: waiting("Resources", nil), Groups: []slurm.Group{group("down", "", nil), group("idle", "", func(g *slurm.Group) { g.Nodes, g.Idle = "other", 0 })}, Controller: failing("Unschedulable", "")}, "resources", Certain, "elastic set burst do not start"},
		{"an elastic set of another partition", Facts{Job: waiting("Resources", nil), Groups: []slurm.Group{group("idle", "", func(g *slurm.Group) { g.Nodes, g.Idle = "other", 0 })}, Controller: failing("Unschedulable", "")}, "resources", Certain, "0 CPUs are free"},
		{"an elastic set, and the job has other nodes", Facts{Job: &slurm.Job{ID: 5, State: []string{"RUNNING", "CONFIGURING"}, Nodes: "m1"}, Groups: []slurm.Group{group("idle", "", nil)}, Controller: failing("Unschedulable", "")}, "configuring", Likely, "I do not know for certain why."},
		{"an elastic set whose other nodes would do", Facts{Job: waiting("Resources", nil), Groups: []slurm.Group{group("down", "slurmlet: Unschedulable: none", func(g *slurm.Group) { g.Count, g.Nodes = 1, "n0" }), group("allocated", "", func(g *slurm.Group) { g.Count, g.Nodes, g.Idle = 1, "n1", 0 })}, Controller: givenUp("n0")}, "resources", Certain, "have not started (n0): Unschedulable: none (likely)"},
		{"an elastic node that was given up", Facts{Job: waiting("Resources", nil), Groups: []slurm.Group{group("down", "slurmlet: FailedCreate: exceeded quota: none", nil)}, Controller: givenUp("n[0-1]")}, "elastic", Certain, "scontrol update 'nodename=n[0-1]' state=resume"},
		{"an elastic node that was given up a moment ago", Facts{Job: waiting("Cleaning", nil), Groups: []slurm.Group{group("down", "slurmlet: Unschedulable: x", func(g *slurm.Group) { g.Count, g.Nodes = 1, "n0" })}, Controller: bothFailing("n0")}, "elastic", Certain, "Nodes of the elastic set burst have not started (n0): Unschedulable: x\n"},
		{"requeued, because its elastic node was given up", Facts{Job: waiting("BeginTime", func(j *slurm.Job) { j.Restarts = 1 }), Groups: []slurm.Group{group("down", "slurmlet: ErrImagePull: none", nil)}, Controller: givenUp("n[0-1]")}, "elastic", Certain, "have not started (n[0-1]): ErrImagePull: none\n"},
		{"configuring, and the image is missing", Facts{Job: &slurm.Job{ID: 5, State: []string{"RUNNING", "CONFIGURING"}, Nodes: "n0"}, Pods: nodePod(func(p *Pod) { p.Ready, p.Phase, p.Waits, p.Image = false, "Pending", "ErrImagePull", "x:y" })}, "image", Certain, "n0: The image x:y cannot be pulled"},
		{"a dependency that waits itself", Facts{Job: waiting("Dependency", func(j *slurm.Job) { j.Dependency = "afterok:4(unfulfilled)" }), Others: []slurm.Job{{ID: 4, State: []string{"PENDING"}, Reason: "JobHeldUser"}}}, "dependency", Certain, "kubectl slurm why -n slurm 4"},
		{"more nodes than there are", Facts{Job: waiting("PartitionConfig", func(j *slurm.Job) { j.NodeCount = number(3) }), Partitions: []slurm.Partition{partitionOf(2)}}, "too few nodes", Certain, "wants 3 nodes, and the partition all has 2"},
		{"a limit that is not shown", Facts{Job: waiting("AssocGrpCpuLimit", func(j *slurm.Job) { j.Account = "physics" })}, "limit", Certain, "sacctmgr -i modify account where name=physics set GrpTRES=cpu=-1"},
		{"a limit of the account above", Facts{Job: waiting("AssocGrpCpuLimit", func(j *slurm.Job) { j.Account = "optics" }), Limits: []slurm.Limit{
			{Entity: "account", Name: "optics", Cluster: "c", Key: "GrpTRES", TRES: "cpu", Most: 9, Used: 3},
			{Entity: "account", Name: "physics", Cluster: "c", Key: "GrpTRES", TRES: "cpu", Most: 4, Used: 4},
			{Entity: "account", Name: "physics", Cluster: "c", Key: "GrpTRES", TRES: "mem", Most: 4, Used: 4},
		}}, "limit", Certain, "sacctmgr -i modify account where name=physics cluster=c set GrpTRES=cpu=5"},
		{"a limit of each job", Facts{Job: waiting("QOSMaxMemoryPerJob", func(j *slurm.Job) { j.Memory = number(80) }), Limits: []slurm.Limit{
			{Entity: "qos", Name: "normal", Key: "MaxTRESPJ", TRES: "mem", Most: 64, Used: -1},
		}}, "limit", Certain, "The job wants more than the QOS normal lets a job have"},
		{"a limit of minutes", Facts{Job: waiting("AssocGrpCPUMinutesLimit", nil), Limits: []slurm.Limit{
			{Entity: "user", Name: "alice", Account: "optics", Key: "GrpTRESMins", TRES: "cpu", Most: 64, Used: 64},
		}}, "limit", Certain, "sacctmgr -i modify user where name=alice account=optics set GrpTRESMins=cpu=-1"},
		{"launch failed", Facts{Job: waiting("JobHeldAdmin", func(j *slurm.Job) { j.Description = "launch failed requeued held" })}, "held", Certain, "its launch has failed"},
		{"requeued", Facts{Job: waiting("BeginTime", func(j *slurm.Job) { j.Restarts, j.Eligible = 1, number(now.Unix()+60) })}, "begin time", Certain, "has requeued it 1 times"},
		{"out of memory", Facts{Job: &slurm.Job{ID: 5, State: []string{"OUT_OF_MEMORY"}, Memory: number(50)}}, "over", Certain, "more memory than it asked for (50 MiB on each node)"},
		{"forgotten, and well", Facts{Forgotten: true, Job: &slurm.Job{ID: 5, State: []string{"COMPLETED"}, Nodes: "n0", Start: number(now.Unix()), End: number(now.Unix() + 60)}}, "", "", "is COMPLETED on n0. slurmctld has forgotten it, and accounting has it from 2026-11-28T07:00:00Z until 2026-11-28T07:01:00Z.\n"},
		{"forgotten, and cancelled", Facts{Forgotten: true, Job: &slurm.Job{ID: 5, State: []string{"CANCELLED"}, End: number(now.Unix())}}, "over", Certain, "Somebody has cancelled the job."},
		{"forgotten, and its end was lost", Facts{Forgotten: true, Job: &slurm.Job{ID: 5, State: []string{"RUNNING"}, Nodes: "n0", Start: number(now.Unix())}}, "runaway", Certain, "sacctmgr -i show runawayjobs"},
		{"runs", Facts{Job: &slurm.Job{ID: 5, State: []string{"RUNNING"}, Nodes: "n0"}}, "", "", "There is nothing to mend."},
		{"a reason of a later Slurm", Facts{Job: waiting("NewReason", nil), Groups: []slurm.Group{group("idle", "", nil)}}, "", "", "I do not know why."},

		{"node fine", Facts{Name: "n0", Node: record("IDLE", ""), Pods: nodePod(func(*Pod) {})}, "", "", "There is nothing to mend."},
		{"node drained by a person", Facts{Name: "n0", Node: record("IDLE+DRAIN", "disk"), Pods: nodePod(func(*Pod) {})}, "drained", Certain, "kubectl slurm resume -n slurm n0"},
		{"node of a cordoned machine", Facts{Name: "n0", Node: record("MIXED+DRAIN", "slurmlet cordon: m0 is cordoned"), Pods: nodePod(func(*Pod) {}), Machines: map[string]*Machine{"m0": {Name: "m0", Cordoned: true}}}, "machine", Certain, "The machine m0 is cordoned."},
		{"node whose pod is gone", Facts{Name: "n0", Node: record("DOWN+NOT_RESPONDING", "Not responding"), Pods: map[string]*Pod{}}, "no pod", Certain, "The node's pod is gone"},
		{"node whose pods a quota refuses", Facts{Name: "n0", Node: record("DOWN+NOT_RESPONDING", "Not responding"), NotMade: []Event{{Object: "StatefulSet n", Message: "exceeded quota: none"}}}, "not made", Certain, "Kubernetes refuses pods of StatefulSet n"},
		{"node unknown to all", Facts{Name: "n0"}, "no pod", Certain, "Neither Slurm nor Kubernetes knows"},
		{"pod without a machine", Facts{Name: "n0", Pods: nodePod(func(p *Pod) {
			p.Machine, p.Ready, p.Phase, p.Unscheduled = "", false, "Pending", "Unschedulable: 0/2 nodes are available: 2 Insufficient cpu."
		})}, "unschedulable", Certain, "free or add a machine of that size"},
		{"pod whose image is missing", Facts{Name: "n0", Pods: nodePod(func(p *Pod) {
			p.Ready, p.Phase, p.Waits, p.WaitsFor, p.Image = false, "Pending", "ImagePullBackOff", "Back-off", "x:y"
		})}, "image", Certain, "The image x:y cannot be pulled"},
		{"pod that crashes by memory", Facts{Name: "n0", Pods: nodePod(func(p *Pod) {
			p.Ready, p.Waits, p.LastEnd, p.LastStatus, p.Restarts = false, "CrashLoopBackOff", "OOMKilled", 137, 4
		})}, "out of memory", Certain, "give the node set more memory"},
		{"pod that crashes", Facts{Name: "n0", Pods: nodePod(func(p *Pod) {
			p.Ready, p.Waits, p.LastEnd, p.LastStatus, p.Restarts, p.LastWords = false, "CrashLoopBackOff", "Error", 78, 4, []string{"slurmlet: cannot run a node: too little memory"}
		})}, "crash", Certain, "  slurmlet: cannot run a node: too little memory\n"},
		{"pod evicted", Facts{Name: "n0", Node: record("DOWN+NOT_RESPONDING", ""), Pods: nodePod(func(p *Pod) {
			p.Ready, p.Phase, p.Reason, p.Message = false, "Failed", "Evicted", "The node was low on resource: memory."
		})}, "evicted", Certain, "low on resource: memory"},
		{"a pod whose predecessor was evicted", Facts{Name: "n0", Node: record("IDLE", ""), Pods: nodePod(func(p *Pod) {
			p.Events = []Event{{Reason: "Evicted", Message: "Pod ephemeral local storage usage exceeds the total limit of containers 40Mi. ", Last: now}}
		})}, "evicted", Possible, "It works. What may matter besides:\n\nThe kubelet has evicted an earlier pod"},
		{"a pod that is being evicted", Facts{Name: "n0", Node: record("ALLOCATED+DRAIN", "slurmlet: pod is terminating"), Pods: nodePod(func(p *Pod) {
			p.Events = []Event{{Reason: "Evicted", Message: "Pod ephemeral local storage usage exceeds the total limit of containers 40Mi. ", Last: now}}
		})}, "evicted", Certain, "resources.limits.ephemeral-storage"},
		{"a node that works, and a refused edit", Facts{Name: "n0", Node: record("IDLE", ""), Pods: nodePod(func(*Pod) {}), Controller: refusedEdit()}, "refused edit", Possible, "It works. What may matter besides:"},
		{"a pod whose deletion waits for its machine", Facts{Name: "n0", Pods: nodePod(func(p *Pod) { p.Deleting, p.Ready = now, false }), Machines: map[string]*Machine{"m0": {Name: "m0", Unready: "x"}}}, "machine", Certain, "kubectl taint node m0 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"},
		{"a login pod deleted", Facts{Name: "l", Pods: map[string]*Pod{"l": {Name: "l", Role: "login", Phase: "Running", Deleting: now, Grace: 60}}}, "deleted", Certain, "waits for its users' sessions"},
		{"slurmctld's pod deleted", Facts{Name: "c", Pods: map[string]*Pod{"c": {Name: "c", Role: "slurmctld", Phase: "Running", Deleting: now, Grace: 60}}}, "deleted", Certain, "slurmctld ends in order"},
		{"pod deleted", Facts{Name: "n0", Node: record("MIXED+DRAIN", "slurmlet: pod is terminating"), Pods: nodePod(func(p *Pod) { p.Deleting, p.Grace = now, 60 })}, "deleted", Certain, "Kubernetes ends it at 2026-11-28T07:01:00Z"},
		{"machine gone", Facts{Name: "n0", Node: record("DOWN+NOT_RESPONDING", "Not responding"), Pods: nodePod(func(p *Pod) { p.Ready = false }), Machines: map[string]*Machine{"m0": {Name: "m0", Missing: true}}}, "machine", Certain, "Kubernetes has no node m0 any more"},
		{"not ready, by its agent", Facts{Name: "n0", Pods: nodePod(func(p *Pod) { p.Ready = false }), Agent: agent("Starting", "cannot reach slurmctld at slurmctld:6817")}, "not ready", Certain, "kubectl slurm status -n slurm"},
		{"silent", Facts{Name: "n0", Node: record("IDLE+NOT_RESPONDING", "Not responding"), Pods: nodePod(func(*Pod) {})}, "silent", Certain, "hears nothing of the node's slurmd"},
		{"suspended", Facts{Name: "n0", Node: record("IDLE+CLOUD+POWERED_DOWN", "")}, "suspended", Certain, "It starts when a job needs it."},
		{"elastic, and fails", Facts{Name: "n0", Node: record("DOWN+CLOUD+POWERED_DOWN", "slurmlet: Unschedulable: x"), Controller: failing("Unschedulable", "x")}, "elastic", Certain, "bring a machine of that kind"},
		{"registration refused", Facts{Name: "n0", Node: record("IDLE+DRAIN+INVALID_REG", "gres/gpu count too low (0 < 2)"), Pods: nodePod(func(*Pod) {})}, "registration", Certain, "gres/gpu count too low"},
		{"a daemon's pod that is well", Facts{Name: "c", Pods: map[string]*Pod{"c": {Name: "c", Role: "slurmctld", Phase: "Running", Ready: true, Machine: "m0"}}}, "", "", "There is nothing to mend."},
	} {
		t.Run(one.name, func(t *testing.T) {
			one.facts.Now = now
			a := Judge(one.facts)
			var text strings.Builder
			a.WriteText(&text, runner)
			assert.Contains(t, text.String(), one.says)
			if one.kind == "" {
				assert.Empty(t, a.Causes, text.String())
				return
			}
			if assert.NotEmpty(t, a.Causes, text.String()) {
				assert.Equal(t, one.kind, a.Causes[0].Kind, text.String())
				assert.Equal(t, one.sure, a.Causes[0].Sure, text.String())
			}
		})
	}
}

func partitionOf(nodes int64) (p slurm.Partition) {
	p.Name, p.Nodes.Total, p.State.State = "all", nodes, []string{"UP"}
	return p
}

func TestSacctmgrKey(t *testing.T) {
	for reason, want := range map[string]string{
		"QOSMaxJobsPerUserLimit": "MaxJobsPerUser", "QOSMaxCpuPerUserLimit": "MaxTRESPerUser=cpu", "QOSGrpCpuLimit": "GrpTRES=cpu",
		"AssocGrpJobsLimit": "GrpJobs", "AssocMaxJobsLimit": "MaxJobs", "QOSMaxWallDurationPerJobLimit": "MaxWall", "QOSMaxMemoryPerJob": "MaxTRESPerJob=mem",
		"AssocGrpCPUMinutesLimit": "GrpTRESMins=cpu", "AssocGrpCPURunMinutesLimit": "GrpTRESRunMins=cpu", "QOSMaxNodePerUserLimit": "MaxTRESPerUser=node",
		"QOSMaxSubmitJobPerUserLimit": "MaxSubmitJobsPerUser", "QOSGrpGRES": "GrpTRES=gres/gpu", "Priority": "",
	} {
		assert.Equal(t, want, sacctmgrKey(reason), reason)
	}
}

func TestDependencies(t *testing.T) {
	assert.Equal(t, []string{"5", "6_2", "7", "8"}, dependencies("afterok:5(unfulfilled),afterany:6_2(failed)?aftercorr:7_*(unfulfilled),after:8+5,singleton"))
}

// TestLine: a command can be copied into a shell, whatever is in it.
func TestLine(t *testing.T) {
	r := Runner{Slurm: []string{"kubectl", "exec", "c", "--"}, Namespace: "hpc", Cluster: "a"}
	for want, c := range map[string]Command{
		`kubectl exec c -- scontrol update nodename=n 'reason=it'\''s $x'`: {Slurm: true, Args: []string{"scontrol", "update", "nodename=n", "reason=it's $x"}},
		"kubectl slurm why -n hpc --cluster a n0":                          {Args: []string{"kubectl", "slurm", "why", "n0"}},
		"kubectl exec -n hpc n0 -- slurmlet status":                        {Args: []string{"kubectl", "exec", "n0", "--", "slurmlet", "status"}},
		"kubectl get nodes":   {Args: []string{"kubectl", "get", "nodes"}},
		"kubectl uncordon m0": {Args: []string{"kubectl", "uncordon", "m0"}},
	} {
		assert.Equal(t, want, r.Line(c))
	}
}
