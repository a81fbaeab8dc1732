package clusterview

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// versions are those of the recorded answers in testdata, which real slurmctlds have given.
var versions = []string{"24.11", "26.05"}

func recorded(t testing.TB, name string) string {
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return string(text)
}

// recordedMark ends the columns in testdata.
const recordedMark = "\x1fnonce"

func TestNodes(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			nodes, err := readNodes(strings.NewReader(recorded(t, "nodes-"+version+".txt")))
			require.NoError(t, err)
			named := map[string]slurm.Node{}
			for _, n := range nodes {
				named[n.Name] = n
			}
			require.Len(t, named, 7)
			n4, cloud, gpu := named["n4"], named["c-2"], named["g-1"]
			assert.Equal(t, []any{slurm.NodeState{"IDLE", "DRAIN", "DYNAMIC_NORM"}, 1, 1, 0}, []any{n4.State, n4.CPUs, n4.CPUsEffective, n4.CPUsAlloc})
			assert.Equal(t, []any{`it's "odd"; Comment=none [root@5] of a kind`, "root", `{"a": "b c"}`}, []any{n4.Reason, n4.ReasonUser, n4.Extra})
			assert.True(t, n4.ReasonAt > 1795000000 && n4.BootAt > 1795000000 && n4.SlurmdStartAt > 1795000000 && n4.LastBusyAt > 1795000000)
			assert.Equal(t, []int64{300, 300, 0}, []int64{n4.RealMemory, n4.MemoryEffective, n4.MemoryAlloc})
			assert.Positive(t, n4.MemoryFree)
			assert.Regexp(t, version, n4.Version)
			assert.Equal(t, []any{"DOWN", []string{"blue", "big"}, int64(-1), slurm.Time(0), 7, "broken"}, []any{cloud.State.Base(), cloud.Features, cloud.MemoryFree, cloud.BootAt, cloud.Weight, cloud.Reason})
			assert.Contains(t, cloud.State, "POWERED_DOWN")
			assert.Equal(t, []int{2, 0}, []int{gpu.GPUs, gpu.GPUsAlloc})
			assert.Equal(t, []string{"all", "many", "closed", "limited", "drained", "dark"}, gpu.Partitions)
			assert.Same(t, &gpu.Partitions[0], &n4.Partitions[0], "equal lists are one in memory")
			assert.Positive(t, named["n3"].CPUsAlloc)
		})
	}
}

func TestJobs(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			p, err := readJobs(strings.NewReader(recorded(t, "jobs-"+version+".txt")), recordedMark)
			require.NoError(t, err)
			named := map[string]slurm.Job{}
			for j := range p.jobs.All() {
				named[j.Name+" "+j.State.Base()] = *j
			}
			for name, want := range map[string]func(slurm.Job) bool{
				"runs RUNNING": func(j slurm.Job) bool {
					return j.Memory == 5 && j.Start > 0 && j.End == 0 && j.NodeList != "" && j.Tasks == 1 && j.ArrayID == 0 && j.HetID == 0
				},
				"held by its user PENDING": func(j slurm.Job) bool { return j.Held && j.Reason == "JobHeldUser" },
				"held by root PENDING": func(j slurm.Job) bool {
					return j.Held && j.Reason == "JobHeldAdmin" && j.User == "cem" && j.UID == 2003
				},
				"begins later PENDING": func(j slurm.Job) bool {
					return !j.Held && j.TimeLimit == 26*time.Hour+3*time.Minute && j.Eligible > j.Submit
				},
				"limited PENDING": func(j slurm.Job) bool { return j.TimeLimit == 10*time.Minute && j.Reason == "PartitionTimeLimit" },
				"many partitions PENDING": func(j slurm.Job) bool {
					return strings.Join(j.Partitions, "+") == "all+many" && j.Features == "blue&big" && j.CPUs == 4 && j.Nodes == 3 && j.MaxNodes == 3
				},
				"gpus PENDING":                           func(j slurm.Job) bool { return j.GPUs == 1 },
				"licenses RUNNING":                       func(j slurm.Job) bool { return j.Licenses == "fluent:3" },
				"reserved PENDING":                       func(j slurm.Job) bool { return j.Reservation == "later" && j.Reason == "Reservation" },
				"array PENDING":                          func(j slurm.Job) bool { return j.ArrayTask == "4-30%3" && j.Tasks == 27 && j.ArrayID == j.ID },
				"array RUNNING":                          func(j slurm.Job) bool { return j.Tasks == 1 && j.ArrayID > 0 && j.ArrayID < j.ID },
				"steps of two PENDING":                   func(j slurm.Job) bool { return j.Tasks == 12 },
				"parts PENDING":                          func(j slurm.Job) bool { return j.HetID > 0 },
				"fails FAILED":                           func(j slurm.Job) bool { return j.Reason == "NonZeroExitCode" && j.End >= j.Start },
				"completes COMPLETED":                    func(j slurm.Job) bool { return j.Reason == "" && j.End >= j.Start },
				"suspended SUSPENDED":                    func(j slurm.Job) bool { return !j.Held && j.Priority == 0 },
				"stopped RUNNING":                        func(j slurm.Job) bool { return strings.Join(j.State.Flags(), "") == "STOPPED" },
				"configures RUNNING":                     func(j slurm.Job) bool { return strings.Join(j.State.Flags(), "") == "CONFIGURING" },
				"special exit PENDING":                   func(j slurm.Job) bool { return strings.Join(j.State.Flags(), "") == "SPECIAL_EXIT" && j.Restarts == 1 },
				"<script>alert(1)</script> PENDING":      func(j slurm.Job) bool { return j.Held },
				"a|b,c:d\te \x1f\x1e ü\nRUNNING PENDING": func(j slurm.Job) bool { return j.Held },
				"1\n2 PENDING":                           func(j slurm.Job) bool { return j.Held },
			} {
				j, is := named[name]
				if assert.True(t, is, name) {
					assert.True(t, want(j), "%s: %+v", name, j)
				}
			}
		})
	}
}

// TestSettled: the whole states are slurmctld's, and a job that it has forgotten goes.
func TestSettled(t *testing.T) {
	var text strings.Builder
	columns := strings.Split(recorded(t, "jobs-26.05.txt"), recordedMark)[:len(jobFields)]
	for id, state := range map[string]string{"1": "RUNNING", "2": "COMPLETING", "3": "COMPLETING", "4": "CONFIGURING", "5": "CONFIGURING", "6": "COMPLETING"} {
		columns[colJobID], columns[colState] = "\n"+id, state
		text.WriteString(strings.Join(columns, recordedMark) + recordedMark)
	}
	p, err := readJobs(strings.NewReader(text.String()), recordedMark)
	require.NoError(t, err)
	assert.ElementsMatch(t, []int64{2, 3, 4, 5, 6}, p.flagged())
	p.settle(map[int64]slurm.JobState{2: {"COMPLETING", "FAILED"}, 4: {"RUNNING", "CONFIGURING", "POWER_UP_NODE"}})
	states := map[int64]string{}
	for j := range p.jobs.All() {
		states[j.ID] = strings.Join(j.State, " ")
	}
	assert.Equal(t, map[int64]string{1: "RUNNING", 2: "FAILED COMPLETING", 4: "RUNNING CONFIGURING POWER_UP_NODE", 5: "RUNNING CONFIGURING"}, states)
}

func TestSmallFamilies(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			partitions, err := readPartitions(strings.NewReader(recorded(t, "partitions-"+version+".txt")))
			require.NoError(t, err)
			states := map[string]string{}
			for _, p := range partitions {
				states[p.Name] = p.State
				assert.Equal(t, []any{25, 88, p.Name == "all"}, []any{p.Nodes, p.CPUs, p.Default}, p.Name)
			}
			assert.Equal(t, map[string]string{"all": "UP", "many": "UP", "closed": "DOWN", "limited": "UP", "drained": "DRAIN", "dark": "INACTIVE"}, states)
			reservations, err := readReservations(strings.NewReader(recorded(t, "reservations-"+version+".txt")))
			require.NoError(t, err)
			require.Len(t, reservations, 2)
			now, later := reservations[0], reservations[1]
			assert.Equal(t, []any{"now", "ACTIVE", 1, 1, "n3"}, []any{now.Name, now.State, now.Nodes, now.CPUs, now.NodeList})
			assert.Equal(t, []any{"later", "INACTIVE", 2, 8, "c-[18-19]", slurm.Time(3600)}, []any{later.Name, later.State, later.Nodes, later.CPUs, later.NodeList, later.End - later.Start})
			assert.Contains(t, now.Flags, "OVERLAP")
			licenses, err := readLicenses(strings.NewReader(recorded(t, "licenses-"+version+".txt")))
			require.NoError(t, err)
			assert.Equal(t, []License{{"fluent", 4, 3, 1, 0}, {"matlab", 10, 0, 10, 0}}, licenses)
			s, cluster, full, err := readScheduler(strings.NewReader(recorded(t, "sdiag-"+version+".json")))
			require.NoError(t, err)
			assert.Equal(t, "native", cluster)
			assert.Regexp(t, "^"+version, full)
			assert.Positive(t, s.SchedulerJobs.Submitted)
			assert.Positive(t, s.Main.CycleSum)
			assert.Greater(t, s.Main.CycleMax, time.Microsecond)
			assert.Less(t, s.Main.CycleMax, time.Minute)
			assert.True(t, s.At >= s.Since && s.Since > 1795000000)
			counts := map[string]int64{}
			for _, r := range s.RPCs {
				counts[r.Name] = r.Count
				assert.Positive(t, r.Sum, r.Name)
			}
			assert.Positive(t, counts["REQUEST_SUBMIT_BATCH_JOB"])
			states2, err := readStates(strings.NewReader(recorded(t, "states-"+version+".json")))
			require.NoError(t, err)
			assert.Equal(t, slurm.JobState{"RUNNING"}, states2[1])
		})
	}
}

// TestNothing: a cluster that has none of something says so.
func TestNothing(t *testing.T) {
	nodes, err := readNodes(strings.NewReader("No nodes in the system\n"))
	require.NoError(t, err)
	reservations, err := readReservations(strings.NewReader("No reservations in the system\n"))
	require.NoError(t, err)
	licenses, err := readLicenses(strings.NewReader("No licenses configured in Slurm.\n"))
	require.NoError(t, err)
	p, err := readJobs(strings.NewReader(""), recordedMark)
	require.NoError(t, err)
	assert.Empty(t, nodes)
	assert.Empty(t, reservations)
	assert.Empty(t, licenses)
	assert.Zero(t, p.jobs.Len())
}

// TestOtherAnswers: an answer of another shape is an error, and gives no zeros.
func TestOtherAnswers(t *testing.T) {
	node := strings.SplitAfter(recorded(t, "nodes-26.05.txt"), "\n")[0]
	job := recorded(t, "jobs-26.05.txt")
	sdiag := recorded(t, "sdiag-26.05.json")
	nodes := func(text string) error { _, err := readNodes(strings.NewReader(text)); return err }
	jobs := func(text string) error { _, err := readJobs(strings.NewReader(text), recordedMark); return err }
	stats := func(text string) error { _, _, _, err := readScheduler(strings.NewReader(text)); return err }
	states := func(text string) error { _, err := readStates(strings.NewReader(text)); return err }
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no node":                {nodes(""), "unexpected EOF"},
		"other words":            {nodes("There is nothing\n"), `want NodeName=, not "There is nothing"`},
		"a field less":           {nodes(strings.Replace(node, "CPUAlloc=", "CPUAllocated=", 1)), "there is no CPUAlloc in it"},
		"a state that is new":    {nodes(strings.Replace(node, "State=", "State=NEW_", 1)), "there is no known state in"},
		"a number that is none":  {nodes(strings.Replace(node, "RealMemory=", "RealMemory=x", 1)), "cannot read RealMemory="},
		"gres of a new form":     {nodes(strings.Replace(node, "Gres=(null)", "Gres=gpu:a:b", 1)), `cannot read the gres "gpu:a:b"`},
		"jobs: cut":              {jobs(job[:len(job)/2]), "unexpected EOF"},
		"jobs: no columns":       {jobs("squeue: no such field\n"), "unexpected EOF"},
		"jobs: a column more":    {jobs(strings.Replace(job, recordedMark, recordedMark+"x"+recordedMark, 1)), "cannot read"},
		"jobs: a new state":      {jobs(strings.Replace(job, "CANCELLED", "CANCELED", 1)), `cannot read State="CANCELED"`},
		"jobs: a time as a date": {jobs(strings.Replace(job, "1795394686", "2026-11-23T00:44:46", 1)), "cannot read SubmitTime="},
		"sdiag: nothing":         {stats(""), "unexpected EOF"},
		"sdiag: cut":             {stats(sdiag[:len(sdiag)/2]), "unexpected end of JSON input"},
		"sdiag: another object":  {stats("{}"), `there is no "statistics" in it`},
		"sdiag: a field less":    {stats(strings.Replace(sdiag, `"jobs_started"`, `"jobs_begun"`, 1)), "jobs_started: there is no such field"},
		"sdiag: another type":    {stats(strings.Replace(sdiag, `"agent_count": `, `"agent_count": null, "x": `, 1)), "agent_count: want a number, not null"},
		"sdiag: told in JSON":    {stats(`{"errors": [{"description": "Slurmctld", "error": "is starting"}]}`), "Slurmctld is starting"},
		"states: no list":        {states("{}"), `there is no list "jobs" in it`},
		"states: no number":      {states(`{"jobs": [{"job_id": "x"}]}`), `cannot read job_id="x"`},
	} {
		t.Run(name, func(t *testing.T) { require.ErrorContains(t, c.err, c.want) })
	}
}

// TestTolerated: what other versions may have does not matter.
func TestTolerated(t *testing.T) {
	node := strings.SplitAfter(recorded(t, "nodes-26.05.txt"), "\n")[0]
	for name, text := range map[string]string{
		"a field more":             strings.Replace(node, "CPUAlloc=", "New=5 CPUAlloc=", 1),
		"a comment of two lines":   strings.TrimSuffix(node, "\n") + " Comment=one\nNode two\n",
		"a field between the last": strings.TrimSuffix(node, "\n") + " InstanceId=i-1 InstanceType=large\n",
	} {
		t.Run(name, func(t *testing.T) {
			nodes, err := readNodes(strings.NewReader(text))
			require.NoError(t, err)
			require.Len(t, nodes, 1)
			assert.Positive(t, nodes[0].CPUs)
		})
	}
	sdiag := recorded(t, "sdiag-24.11.json")
	s, _, _, err := readScheduler(strings.NewReader(strings.Replace(sdiag, `"agent_count": `, `"new": {"a": []}, "agent_count": `, 1)))
	require.NoError(t, err)
	assert.NotNil(t, s)
}

func TestReasons(t *testing.T) {
	for text, want := range map[string][3]any{
		"broken [root@1795394667]":      {"broken", "root", slurm.Time(1795394667)},
		"a [b@1] c [d@2]":               {"a [b@1] c", "d", slurm.Time(2)},
		"no time":                       {"no time", "", slurm.Time(0)},
		"ends with [brackets]":          {"ends with [brackets]", "", slurm.Time(0)},
		"":                              {"", "", slurm.Time(0)},
		"slurmlet: drained [root@17] x": {"slurmlet: drained [root@17] x", "", slurm.Time(0)},
	} {
		reason, user, at := splitReason(text)
		assert.Equal(t, want, [3]any{reason, user, at}, text)
	}
}

func TestGPUs(t *testing.T) {
	for gres, want := range map[string]int{
		"gpu:1k": 1024, "gpu:a100:2K": 2048, "gpu:1g.10gb": 1, "gpu:1g.10gb:2": 2,
		"": 0, "gpu:4": 4, "gpu": 1, "gpu:a100:4(S:0-1)": 4, "gpu:a100:2(IDX:0-1)": 2, "gpu:(null):0(IDX:N/A)": 0,
		"gpu:a100:1(IDX:0,2),gpu:h100:3(IDX:0-2),shard:8": 4, "shard:8,gpus:2": 0, "gpu:a100": 1, "bandwidth:lustre:no_consume:4G": 0,
	} {
		t.Run(gres, func(t *testing.T) {
			count, err := gpus(gres)
			require.NoError(t, err)
			assert.Equal(t, want, count)
		})
	}
}

func TestColumns(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10:00": 10 * time.Minute, "1:00:00": time.Hour, "1-02:03:04": 26*time.Hour + 3*time.Minute + 4*time.Second,
		"365-00:00:00": 365 * 24 * time.Hour, "UNLIMITED": 0, "0:30": 30 * time.Second,
	} {
		var r columnReader
		assert.Equal(t, want, r.duration("TimeLimit", text), text)
		assert.NoError(t, r.err)
	}
	for text, want := range map[string]int{"7": 1, "1-9": 9, "1-9,12%3": 10, "1-21:2,40": 12, "0-4%2": 5} {
		var r columnReader
		assert.Equal(t, want, r.tasks(text), text)
		assert.NoError(t, r.err)
	}
	for text, want := range map[string]int64{"10M": 10, "1.50G": 1536, "512": 512, "2T": 2 << 20, "8K": 0, "8192K": 8} {
		memory, err := parseMemory(text)
		require.NoError(t, err)
		assert.Equal(t, want, memory, text)
	}
	for _, bad := range []string{"", "x", "9-1", "1-x", "1:x"} {
		var r columnReader
		r.tasks(bad)
		assert.Error(t, r.err, bad)
	}
}

// TestPacked: what comes out is what went in.
func TestPacked(t *testing.T) {
	all := []slurm.Job{
		{ID: 1, Tasks: 1, Name: "a", State: []string{"RUNNING", "STOPPED"}, Partitions: []string{"p", "q"}, Memory: 5 << 20, TimeLimit: time.Hour, Priority: 7},
		{ID: 67108862, ArrayID: 5, HetID: 6, Tasks: 100000, ArrayTask: "1-100000", State: []string{"PENDING"}, Held: true, UID: 4294967294, Submit: 1, Eligible: 2, Start: 3, End: 4294967295},
		{ID: 3, Nodes: 65536, CPUs: 1 << 24, GPUs: 9, Restarts: 8, NodeList: "n[1-9]", Features: "f", Reservation: "r", Licenses: "l", Account: "acc", QOS: "q", User: "u", Reason: "why", State: []string{"PENDING"}, Priority: 4294967295},
	}
	packed := JobsOf(all...)
	require.Equal(t, len(all), packed.Len())
	for i, want := range all {
		assert.Equal(t, want, packed.Get(i))
	}
	many := make([]slurm.Job, 3*chunk+1)
	for i := range many {
		many[i] = slurm.Job{ID: int64(i), Tasks: 1, State: []string{"RUNNING"}}
	}
	i := int64(0)
	for j := range JobsOf(many...).All() {
		require.Equal(t, i, j.ID)
		i++
	}
}

// TestTextsOfUsers: no job's request for GPUs, which its user has written, keeps the other jobs from being told.
func TestTextsOfUsers(t *testing.T) {
	columns := make([]string, len(jobFields))
	for request, want := range map[string]int{
		"gres/gpu:t:1": 2, "gpu": 2, "gres:gpu:1k": 2048, "gres/gpu:1g.10gb": 2, "gres/gpu:a:b": 0, "gres/gpu:": 2, "gpu:-": 2, "gpux": 0,
	} {
		for i := range columns {
			columns[i] = "1"
		}
		for _, i := range []int{colArrayTaskID, colHetJobID, colTRES, colTRESPerJob, colTRESPerTask} {
			columns[i] = none
		}
		columns[colState], columns[colTimeLimit], columns[colNodes], columns[colTRESPerNode] = "PENDING", "UNLIMITED", "2", request
		columns[colUserID], columns[colTasks] = "-2", "4294967294" // a uid above the signed numbers, and NO_VAL
		columns[colComment] = "slurmlet.dev/group=4f6c hpc/train"
		j, err := jobOf(columns)
		require.NoError(t, err, request)
		assert.Equal(t, want, j.GPUs, request)
		assert.Equal(t, 4294967294, j.UID)
		assert.Equal(t, "hpc/train", j.Pods)
	}
}
