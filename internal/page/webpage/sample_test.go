package webpage

import (
	"fmt"
	"time"

	"github.com/slurmlet/slurmlet/internal/page/pagefacts"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

// sampleTime is when the samples were told.
var sampleTime = time.Date(2026, 3, 4, 15, 6, 7, 0, time.UTC)

func ago(d time.Duration) slurm.Time { return slurm.Time(sampleTime.Add(-d).Unix()) }

// sample is a cluster with so many nodes and jobs, of all conditions.
func sample(nodes, jobs int) *pagefacts.Facts {
	v := &clusterview.View{Cluster: "lyra", Version: "26.05.5", Readings: map[clusterview.Family]clusterview.Reading{
		clusterview.FamilyNodes: {At: sampleTime.Add(-2 * time.Second)}, clusterview.FamilyJobs: {At: sampleTime.Add(-2 * time.Second)},
		clusterview.FamilyPartitions: {At: sampleTime.Add(-2 * time.Second)},
	}}
	f := &pagefacts.Facts{
		At: sampleTime, View: v,
		Agent: pagefacts.Agent{Version: "v0.1.0", State: "Ready", Since: sampleTime.Add(-50 * time.Hour)},
		Conf: &reconfig.Status{
			Sources: []string{"/etc/slurm"}, Live: "5d41402abc4b2a76b9719d911017c592", Reloads: reconfig.Reloads{Taken: 2, Refused: 1, RolledBack: 1},
			Refused: &reconfig.Refusal{Since: sampleTime.Add(-7 * time.Minute), Why: []string{`/etc/slurm/slurm.conf:41: PartitionName=gpu: Nodes=gpu-[00: the bracket is not closed`}},
			History: []reconfig.Edit{
				{At: sampleTime.Add(-50 * time.Hour), Outcome: reconfig.OutcomeStarted, Hash: "0cc175b9c0f1b6a831c399e269772661"},
				{At: sampleTime.Add(-26 * time.Hour), Outcome: reconfig.OutcomeRolledBack, Hash: "92eb5ffee6ae2fec3ad71c777531578f", Files: []string{"job_submit.lua"}, Why: []string{"slurmctld: job_submit.lua:12: unexpected symbol near 'end'"}},
				{At: sampleTime.Add(-3 * time.Hour), Outcome: reconfig.OutcomeLive, Hash: "4a8a08f09d37b73795649038408b5f33", Files: []string{"slurm.conf", "topology.yaml"}, Nodes: nodes, Seconds: 1.42},
				{At: sampleTime.Add(-41 * time.Minute), Outcome: reconfig.OutcomeLive, Hash: "5d41402abc4b2a76b9719d911017c592", Files: []string{"slurm.conf"}, Nodes: nodes - 1, Seconds: 2.1},
				{At: sampleTime.Add(-7 * time.Minute), Outcome: reconfig.OutcomeRefused, Hash: "8277e0910d750195b448797616e091ad", Files: []string{"slurm.conf"}, Why: []string{`/etc/slurm/slurm.conf:41: PartitionName=gpu: Nodes=gpu-[00: the bracket is not closed`}},
			},
		},
	}
	sets := []struct {
		name      string
		share     int // in percent
		cpus, gpu int
	}{{"cpu", 70, 64, 0}, {"gpu", 20, 96, 8}, {"highmem", 10, 128, 0}}
	parts := map[string]*clusterview.Partition{}
	for _, s := range sets {
		parts[s.name] = &clusterview.Partition{Name: s.name, State: "UP"}
	}
	all := &clusterview.Partition{Name: "all", State: "UP", Default: true}
	for i := range nodes {
		s := sets[0]
		switch at := i * 100 / max(1, nodes); {
		case at >= 90:
			s = sets[2]
		case at >= 70:
			s = sets[1]
		}
		n := slurm.Node{
			Name: fmt.Sprintf("%s-%04d", s.name, i), State: []string{"IDLE"}, Partitions: []string{"all", s.name}, CPUs: s.cpus, CPUsEffective: s.cpus,
			RealMemory: int64(s.cpus) << 12, MemoryEffective: int64(s.cpus) << 12, GPUs: s.gpu,
		}
		condition(&n, i)
		parts[s.name].Nodes++
		parts[s.name].CPUs += s.cpus
		all.Nodes++
		all.CPUs += s.cpus
		v.Nodes = append(v.Nodes, n)
		if i%50 != 49 {
			f.Followers = append(f.Followers, n.Name)
		}
	}
	f.Followers = append(f.Followers, "at 10.0.0.7")
	v.Partitions = []clusterview.Partition{*all, *parts["cpu"], *parts["gpu"], *parts["highmem"]}
	v.Jobs = sampleJobs(jobs, v.Nodes)
	v.Reservations = []clusterview.Reservation{
		{Name: "maintenance", Start: ago(-20 * time.Hour), End: ago(-26 * time.Hour), Nodes: nodes, NodeList: "ALL", Flags: []string{"MAINT", "IGNORE_JOBS"}},
		{Name: "course", Start: ago(time.Hour), End: ago(-2 * time.Hour), Nodes: 1, NodeList: "cpu-0001"},
	}
	v.Licenses = []clusterview.License{{Name: "matlab", Total: 40, Used: 31, Free: 9}, {Name: "ansys@flex", Total: 10, Used: 10}}
	return f
}

// condition gives each node another one.
func condition(n *slurm.Node, i int) {
	busy := func(part int) {
		n.CPUsAlloc, n.MemoryAlloc, n.GPUsAlloc = n.CPUs*part/100, n.RealMemory*int64(part)/100, n.GPUs*part/100
	}
	switch k := i % 97; {
	case k == 5:
		n.State, n.Reason, n.ReasonUser, n.ReasonAt = []string{"DOWN", "NOT_RESPONDING"}, "Not responding", "slurm", ago(80*time.Minute)
	case k == 11:
		n.State, n.Reason, n.ReasonUser, n.ReasonAt = []string{"MIXED", "DRAIN"}, "slurmlet: pod is terminating", "slurm", ago(4*time.Minute)
		busy(50)
	case k == 2:
		n.State, n.Reason, n.ReasonUser, n.ReasonAt = []string{"IDLE", "DRAIN"}, "fan 3 is loud, ticket 4711", "ada", ago(28*time.Hour)
	case k == 40:
		n.State = []string{"IDLE", "RESERVED"}
	case k > 88:
		n.State = []string{"IDLE", "CLOUD", "POWERED_DOWN"}
	case k%3 == 1:
		n.State = []string{"ALLOCATED"}
		busy(100)
	case k%3 == 0 && k%2 == 0:
		n.State = []string{"MIXED"}
		busy(37)
	}
}

func sampleJobs(jobs int, nodes []slurm.Node) clusterview.Jobs {
	reasons := []string{"Priority", "Priority", "Priority", "Resources", "Dependency", "QOSMaxCpuPerUserLimit", "JobHeldUser", "BeginTime", "ReqNodeNotAvail, UnavailableNodes:gpu-0002"}
	users, names := []string{"alice", "bob", "chen", "dora", "emre"}, []string{"train-resnet", "wrf-3km", "blast_all", "interactive", "vasp relax"}
	var all []slurm.Job
	for i := range jobs {
		j := slurm.Job{
			ID: int64(1000 + i), Tasks: 1, Name: names[i%5], User: users[i%5], UID: 1000 + i%5, Account: []string{"physics", "bio"}[i%2], QOS: "normal",
			Partitions: []string{[]string{"cpu", "cpu", "gpu", "highmem", "all"}[i%5]}, State: []string{"PENDING"}, Submit: ago(time.Duration(i%700) * time.Minute),
			Eligible: ago(time.Duration(i%700) * time.Minute), Nodes: 1 + i%4, CPUs: 8 << (i % 4), Memory: int64(4+i%60) << 10, TimeLimit: time.Hour, Reason: reasons[i%len(reasons)], Priority: int64(5000 - i%1000),
		}
		switch {
		case i%10 < 4 && len(nodes) > 0:
			j.State, j.Reason, j.NodeList = []string{"RUNNING"}, "None", nodes[(i*7+11)%len(nodes)].Name
			j.Start, j.End = ago(time.Duration(1+i%300)*time.Minute), ago(-time.Duration(10+i%900)*time.Minute)
			j.GPUs = i % 3
		case i%10 == 9:
			j.State, j.Reason, j.Start, j.End = [][]string{{"COMPLETED"}, {"FAILED"}, {"TIMEOUT"}}[i/10%3], "None", ago(40*time.Minute), ago(time.Duration(i%5)*time.Minute)
		case i%10 == 8:
			j.ArrayID, j.ArrayTask, j.Tasks = j.ID, "8-20%4", 13
		}
		if i%10 == 7 {
			j.Pods = "hpc/" + j.Name
		}
		if j.Reason == "JobHeldUser" {
			j.Held, j.Priority = true, 0
		}
		all = append(all, j)
	}
	return clusterview.JobsOf(all...)
}
