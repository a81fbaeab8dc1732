package series

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) slurm.Time { return slurm.Time(noon.Add(-d).Unix()) }

// told has a Reading of each family, at noon.
func told() map[clusterview.Family]clusterview.Reading {
	all := map[clusterview.Family]clusterview.Reading{}
	for i, f := range []clusterview.Family{
		clusterview.FamilyNodes, clusterview.FamilyJobs, clusterview.FamilyPartitions, clusterview.FamilyReservations,
		clusterview.FamilyLicenses, clusterview.FamilyScheduler, clusterview.FamilyShares,
	} {
		all[f] = clusterview.Reading{At: noon, Took: time.Duration(i+1) * 10 * time.Millisecond}
	}
	return all
}

// small is a cluster with something of everything. What tells of users has "secret" in it.
func small() *clusterview.View {
	node := func(name, state string, cpus int, flags ...string) slurm.Node {
		return slurm.Node{
			Name: name, State: append([]string{state}, flags...), Partitions: []string{"all"}, ActiveFeatures: []string{"cpu"}, CPUs: 16, CPUsEffective: 14, CPUsAlloc: cpus,
			RealMemory: 64 << 10, MemoryEffective: 60 << 10, MemoryAlloc: int64(cpus) * 2 << 10, MemoryFree: -1,
		}
	}
	nodes := []slurm.Node{
		node("n1", "ALLOCATED", 14), node("n2", "MIXED", 4, "DRAIN", "COMPLETING"), node("n3", "IDLE", 0, "DRAIN", "NOT_RESPONDING"), node("n4", "DOWN", 0, "POWERING_UP"),
		node("n5", "IDLE", 0, "PLANNED"), node("n6", "IDLE", 0, "CLOUD", "POWERED_DOWN"), node("n7", "FUTURE", 0), node("n8", "IDLE", 0, "POWERING_DOWN", "REBOOT_ISSUED"),
		node("n9", "IDLE", 0, "MAINTENANCE", "RESERVED"), node("n10", "UNKNOWN", 0, "INVALID_REG", "DYNAMIC_NORM"),
	}
	nodes[0].Partitions, nodes[0].ActiveFeatures, nodes[0].GPUs, nodes[0].GPUsAlloc, nodes[0].MemoryFree = []string{"all", "gpu"}, []string{"cpu", "other", "h\"200"}, 8, 6, 3<<10
	nodes[1].Reason, nodes[2].Reason = "slurmlet: a secret", "a secret"
	job := func(id int64, state string, more func(*slurm.Job)) slurm.Job {
		j := slurm.Job{ID: id, Tasks: 1, Name: "secret", User: "secret-a", UID: 1001, Account: "secret-x", QOS: "secret", Partitions: []string{"all"}, State: []string{state}, Priority: 1, Submit: ago(time.Hour), Eligible: ago(time.Hour), Nodes: 1, CPUs: 4}
		if more != nil {
			more(&j)
		}
		return j
	}
	runs := func(nodes string, cpus int) func(*slurm.Job) {
		return func(j *slurm.Job) {
			j.NodeList, j.CPUs, j.Memory, j.Start = nodes, cpus, int64(cpus)*2<<10, ago(30*time.Minute)
		}
	}
	jobs := []slurm.Job{
		job(1, "RUNNING", runs("n1", 6)),
		job(2, "RUNNING", func(j *slurm.Job) {
			runs("n[1-2]", 8)(j)
			j.GPUs, j.User, j.UID, j.Account, j.Partitions = 6, "secret-b", 1002, "secret-y", []string{"gpu"}
		}),
		job(3, "SUSPENDED", runs("n2", 4)),
		job(4, "PENDING", func(j *slurm.Job) {
			j.ArrayID, j.ArrayTask, j.Tasks, j.Reason, j.Nodes, j.MaxNodes = 4, "0-999", 1000, "Resources", 2, 5
		}),
		job(5, "PENDING", func(j *slurm.Job) {
			j.Partitions, j.Reason, j.Eligible = []string{"gpu", "all"}, "Priority", ago(5*time.Second)
		}),
		job(6, "PENDING", func(j *slurm.Job) {
			j.Reason, j.Held, j.Priority, j.Eligible, j.Nodes = "JobHeldUser", true, 0, 0, 30
		}),
		job(7, "PENDING", func(j *slurm.Job) {
			j.Reason, j.Eligible, j.Nodes = "ReqNodeNotAvail, UnavailableNodes:secret", ago(-time.Hour), 3
		}),
		job(8, "PENDING", func(j *slurm.Job) { j.Reason, j.Eligible = "PartitionNodeLimit", ago(400*24*time.Hour) }),
		job(9, "COMPLETED", nil), job(10, "CANCELLED", nil), job(11, "FAILED", nil), job(12, "TIMEOUT", nil), job(13, "NODE_FAIL", nil),
		job(14, "PREEMPTED", nil), job(15, "BOOT_FAIL", nil), job(16, "DEADLINE", nil), job(17, "OUT_OF_MEMORY", nil),
		job(18, "COMPLETED", func(j *slurm.Job) { j.State = append(j.State, "COMPLETING") }),
		job(19, "RUNNING", func(j *slurm.Job) {
			runs("n1", 0)(j)
			j.State = append(j.State, "CONFIGURING", "POWER_UP_NODE", "SIGNALING", "STAGE_OUT", "RESIZING", "REVOKED", "REQUEUED", "REQUEUE_FED", "EXPEDITING")
		}),
		job(20, "RUNNING", func(j *slurm.Job) { runs("n1", 2)(j); j.HetID, j.User, j.UID = 20, "other", 1003 }),
	}
	return &clusterview.View{
		Cluster: "small", Version: "26.05.3", Nodes: nodes, Jobs: clusterview.JobsOf(jobs...), Readings: told(),
		Partitions: []clusterview.Partition{{Name: "all", State: "UP", Nodes: 10, CPUs: 160, Default: true}, {Name: "gpu", State: "UP", Nodes: 1, CPUs: 16}, {Name: "empty", State: "DOWN"}},
		Reservations: []clusterview.Reservation{
			{Name: "secret_1", Start: ago(time.Hour), End: ago(-time.Hour), Nodes: 1, CPUs: 16},
			{Name: "secret_2", Start: ago(-time.Hour), End: ago(-2 * time.Hour), Nodes: 2, CPUs: 32},
			{Name: "secret_3", Start: ago(2 * time.Hour), End: ago(time.Hour), Nodes: 4, CPUs: 64},
			{Name: "secret_4", Start: ago(2 * time.Hour), Nodes: 8, CPUs: 128},
		},
		Licenses: []clusterview.License{{Name: "matlab", Total: 10, Used: 3, Free: 5, Reserved: 2}, {Name: "other", Total: 1, Free: 1}},
		Scheduler: &clusterview.Scheduler{
			At: ago(0), Since: ago(12 * time.Hour), Threads: 3, Agents: 1, AgentThreads: 2, AgentQueue: 4, DBDQueue: 5, TimeLatency: 16 * time.Microsecond,
			SchedulerJobs: clusterview.SchedulerJobs{Submitted: 20, Started: 14, Completed: 7, Canceled: 1, Failed: 2, Pending: 1004, Running: 4, StatesAt: ago(20 * time.Second)},
			Main: clusterview.MainScheduler{
				Cycles: 4, CycleLast: 120 * time.Microsecond, CycleMax: 2 * time.Millisecond, CycleSum: 5 * time.Millisecond, CyclesPerMinute: 2, DepthSum: 18, QueueLength: 5,
				MainExits: clusterview.MainExits{EndOfQueue: 1, DefaultQueueDepth: 2, Licenses: 3, MaxJobStart: 4, MaxRPCCount: 5, MaxSchedTime: 6},
			},
			Backfill: clusterview.BackfillScheduler{
				Active: true, Jobs: 9, LastJobs: 8, HetJobs: 7, Cycles: 8, CycleLast: 3 * time.Millisecond, CycleMax: 4 * time.Second, CycleSum: 10 * time.Second, LastCycleAt: ago(30 * time.Second),
				DepthLast: 5, DepthLastTry: 4, DepthSum: 42, DepthSumTry: 33, QueueLength: 6, QueueLengthSum: 50, TableSize: 2, TableSizeSum: 20,
				BackfillExits: clusterview.BackfillExits{EndOfQueue: 6, MaxJobStart: 5, MaxJobTest: 4, MaxTime: 3, NodeSpaceSize: 2, StateChanged: 1},
			},
			RPCs:        []clusterview.RPC{{Name: "REQUEST_PING", Count: 3, Sum: time.Millisecond}, {Name: "REQUEST_JOB_INFO", Count: 2, Sum: 2500 * time.Microsecond}},
			PendingRPCs: []clusterview.RPC{{Name: "REQUEST_PING", Count: 2}, {Name: "REQUEST_JOB_INFO", Count: 1}},
		},
		Shares: []clusterview.Share{{Account: "root", NormShares: 1, EffectiveUsage: 1, RawUsage: 90}, {Account: "secret-x", User: "secret-a", NormShares: .5, EffectiveUsage: .75, FairShare: .25, RawUsage: 80.5}, {Account: "secret-y", User: "secret-b", RawUsage: 1}},
	}
}

func text(v *clusterview.View, p Page, o Options) string {
	return string(NewTexts(o).Make(v, p, false).Body())
}

// TestPages compares with golden files, which a person has read.
func TestPages(t *testing.T) {
	away := small()
	for family, r := range away.Readings {
		r.Err = errors.New("a secret")
		away.Readings[family] = r
	}
	never := &clusterview.View{Readings: map[clusterview.Family]clusterview.Reading{clusterview.FamilyJobs: {Err: errors.New("a secret")}}}
	for name, c := range map[string]struct {
		view    *clusterview.View
		page    Page
		options Options
	}{
		"native": {small(), Native, Options{}}, "native-users": {small(), Native, Options{Users: 1}}, "native-away": {away, Native, Options{}}, "native-never": {never, Native, Options{Users: 5}},
		"exporter": {small(), Exporter, Options{}}, "exporter-users": {small(), Exporter, Options{Users: 5}}, "exporter-never": {never, Exporter, Options{Users: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			have := text(c.view, c.page, c.options)
			golden := filepath.Join("testdata", name+".prom")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(have), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), have)
			families(t, have)
			if c.options.Users == 0 {
				assert.NotContains(t, have, "secret", "a stranger learns nothing of users")
			}
			if c.page == Native {
				problems, err := promlint.New(strings.NewReader(have)).Lint()
				require.NoError(t, err)
				assert.Empty(t, problems)
			}
		})
	}
}

// families are what Prometheus' own parser reads. It refuses a metric that is there twice.
func families(t testing.TB, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	for name, family := range all {
		seen := map[string]bool{}
		for _, m := range family.GetMetric() {
			key := labelsOf(m, true)
			require.False(t, seen[key], "%s%s is there twice", name, key)
			seen[key] = true
		}
	}
	return all
}

func labelsOf(m *dto.Metric, values bool) string {
	var all []string
	for _, pair := range m.GetLabel() {
		if values {
			all = append(all, pair.GetName()+"="+pair.GetValue())
		} else {
			all = append(all, pair.GetName())
		}
	}
	if all == nil {
		return ""
	}
	return "{" + strings.Join(all, ",") + "}"
}

// TestNames: slurmctld's own names and slurm-exporter's are all there, with their labels, and the page
// of slurm-exporter has no others.
func TestNames(t *testing.T) {
	for list, page := range map[string]Page{"native.txt": Native, "exporter.txt": Exporter} {
		raw, err := os.ReadFile(filepath.Join("testdata", list))
		require.NoError(t, err)
		want := regexp.MustCompile(`(?m)^slurm_\S+`).FindAllString(string(raw), -1)
		var have []string
		for name, family := range families(t, text(small(), page, Options{Users: 3})) {
			have = append(have, name+labelsOf(family.GetMetric()[0], false))
		}
		assert.Empty(t, slices.DeleteFunc(slices.Clone(want), func(name string) bool { return slices.Contains(have, name) }), "names of %s that are missing", list)
		ours := slices.DeleteFunc(have, func(name string) bool {
			return slices.Contains(want, name) || strings.HasPrefix(name, "slurmlet_cluster_")
		})
		if page == Native {
			assert.Equal(t, []string{"slurm_nodes_powering_down"}, ours)
		} else {
			assert.Empty(t, ours)
		}
	}
}

// TestBounded: however many reasons, features, licenses, types of messages, users and accounts there
// are, and whatever their names, the series are few and none is there twice.
func TestBounded(t *testing.T) {
	v, n := small(), 500
	var jobs []slurm.Job
	for i := range n {
		name := "x" + strings.Repeat("y", i%7) + string(rune('a'+i%26)) + string(rune('a'+i/26))
		jobs = append(jobs, slurm.Job{ID: int64(i), State: []string{"PENDING"}, Reason: name, User: name, Account: name, Partitions: []string{"all"}})
		v.Nodes = append(v.Nodes, slurm.Node{Name: name, State: []string{"IDLE"}, ActiveFeatures: []string{name, "other"}})
		v.Licenses = append(v.Licenses, clusterview.License{Name: name, Total: i})
		v.Scheduler.RPCs = append(v.Scheduler.RPCs, clusterview.RPC{Name: name, Count: int64(i)})
		v.Shares = append(v.Shares, clusterview.Share{Account: name, RawUsage: float64(i)})
	}
	v.Jobs = clusterview.JobsOf(jobs...)
	all := families(t, text(v, Native, Options{Users: 10}))
	values := func(family, label string) map[string]float64 {
		sums := map[string]float64{}
		for _, m := range all[family].GetMetric() {
			for _, pair := range m.GetLabel() {
				if pair.GetName() == label {
					sums[pair.GetValue()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
				}
			}
		}
		return sums
	}
	for family, want := range map[string]struct {
		label string
		most  int
		other float64
	}{
		"slurmlet_cluster_jobs_waiting":     {"reason", mostReasons, float64(n - mostReasons)},
		"slurmlet_cluster_feature_nodes":    {"feature", mostFeatures, float64(n + 1 + n - mostFeatures + 2)}, // cpu has the most, and h"200 is the first of equals
		"slurmlet_cluster_licenses":         {"license", mostLicenses, float64((n-mostLicenses)*(n-mostLicenses-1)/2 + 1 + 10)},
		"slurmlet_cluster_rpcs_total":       {"type", mostRPCs, float64((n-mostRPCs)*(n-mostRPCs-1)/2 + 5)},
		"slurm_user_jobs":                   {"username", 10, float64(n - 10)},
		"slurm_account_jobs":                {"account", 10, float64(n - 10)},
		"slurmlet_cluster_share_fair_share": {"account", 9, 0},
	} {
		have := values(family, want.label)
		assert.LessOrEqual(t, len(have), want.most+1, family)
		assert.InDelta(t, want.other, have["other"], 0, family)
	}
}

// TestHistory: what happens between Views is counted once, and nothing of what was before the first.
func TestHistory(t *testing.T) {
	at, texts := noon, NewTexts(Options{})
	job := func(id int64, state string, restarts int, wait time.Duration, flags ...string) slurm.Job {
		j := slurm.Job{ID: id, State: append([]string{state}, flags...), Restarts: restarts, Partitions: []string{"all"}, Eligible: ago(time.Hour)}
		if wait > 0 {
			j.Start, j.NodeList = ago(time.Hour-wait), "n1"
		}
		return j
	}
	task := func(id int64, state string, restarts int, submitted time.Duration) slurm.Job {
		j := job(id, state, restarts, 0)
		j.ArrayID, j.Submit = 10, slurm.Time(noon.Add(submitted).Unix())
		return j
	}
	waiting := task(10, "PENDING", 0, -time.Hour) // it stands for all tasks that wait
	steps := []struct {
		what                 string
		jobs                 []slurm.Job
		waits, seconds, more float64
	}{
		{"the first View", []slurm.Job{job(1, "RUNNING", 5, time.Second), job(2, "PENDING", 0, 0), job(3, "PENDING", 1, 0)}, 0, 0, 0},
		{"the same again", []slurm.Job{job(1, "RUNNING", 5, time.Second), job(2, "PENDING", 0, 0), job(3, "PENDING", 1, 0)}, 0, 0, 0},
		{"a start", []slurm.Job{job(1, "RUNNING", 5, time.Second), job(2, "RUNNING", 0, 7*time.Second), job(3, "PENDING", 1, 0)}, 1, 7, 0},
		{"nodes that boot", []slurm.Job{job(2, "RUNNING", 0, 7*time.Second), job(3, "RUNNING", 1, 10*time.Second, "CONFIGURING")}, 1, 7, 0},
		{"they have booted", []slurm.Job{job(2, "RUNNING", 0, 7*time.Second), job(3, "RUNNING", 1, 30*time.Second)}, 2, 37, 0},
		{"a requeue", []slurm.Job{job(2, "PENDING", 1, 0), job(3, "RUNNING", 1, 30*time.Second)}, 2, 37, 1},
		{"a second start", []slurm.Job{job(2, "RUNNING", 1, 40*time.Second), job(3, "COMPLETED", 1, 30*time.Second)}, 3, 77, 1},
		{"two requeues and a start at once", []slurm.Job{job(2, "RUNNING", 3, 50*time.Second)}, 4, 127, 3},
		{"one that came and went", []slurm.Job{job(2, "RUNNING", 3, 50*time.Second), job(4, "COMPLETED", 0, 3*time.Second), job(5, "CANCELLED", 0, 0)}, 5, 130, 3},
		{"a task that was requeued before the first View", []slurm.Job{waiting, task(11, "RUNNING", 4, -time.Hour)}, 5, 130, 3},
		{"a task that was requeued between two Views", []slurm.Job{waiting, task(11, "RUNNING", 4, -time.Hour), task(12, "RUNNING", 1, time.Hour)}, 5, 130, 4},
		{"it waits again", []slurm.Job{waiting, task(11, "RUNNING", 4, -time.Hour)}, 5, 130, 4},
		{"and runs again", []slurm.Job{waiting, task(11, "RUNNING", 4, -time.Hour), task(12, "RUNNING", 2, time.Hour)}, 5, 130, 5},
		{"a requeue ends", []slurm.Job{waiting, task(11, "PENDING", 5, time.Hour), task(12, "RUNNING", 2, time.Hour)}, 5, 130, 6},
		{"that task waits", []slurm.Job{waiting, task(12, "RUNNING", 2, time.Hour)}, 5, 130, 6},
		{"and has counted", []slurm.Job{waiting, task(11, "RUNNING", 5, time.Hour), task(12, "RUNNING", 2, time.Hour)}, 5, 130, 6},
		{"one of which no View had the first restarts", []slurm.Job{waiting, task(13, "RUNNING", 3, time.Hour), task(14, "RUNNING", 0, time.Hour)}, 5, 130, 7},
		{"the array ends", []slurm.Job{job(6, "PENDING", 0, 0), job(7, "PENDING", 0, 0), job(8, "PENDING", 0, 0)}, 5, 130, 7},
	}
	for _, step := range steps {
		at = at.Add(time.Minute)
		v := small()
		v.Jobs, v.Readings[clusterview.FamilyJobs] = clusterview.JobsOf(step.jobs...), clusterview.Reading{At: at}
		all := families(t, string(texts.Make(v, Native, false).Body()))
		histogram := all["slurmlet_cluster_job_wait_seconds"].GetMetric()[0].GetHistogram()
		assert.InDelta(t, step.waits, float64(histogram.GetSampleCount()), 0, step.what)
		assert.InDelta(t, step.seconds, histogram.GetSampleSum(), 0, step.what)
		assert.InDelta(t, step.more, all["slurmlet_cluster_job_requeues_total"].GetMetric()[0].GetCounter().GetValue(), 0, step.what)
	}
	v := small() // the jobs' question has failed, and the others' has not
	v.Jobs, v.Readings[clusterview.FamilyJobs] = clusterview.JobsOf(), clusterview.Reading{At: at, Err: errors.New("no answer")}
	texts.Make(v, Native, false)
	assert.Len(t, texts.history.seen, 3)
	assert.Empty(t, texts.history.requeued)
}

func TestWords(t *testing.T) {
	for reason, want := range map[string]string{
		"slurmlet: pod is terminating": "slurmlet", "slurmlet drain: disk": "slurmlet", "Not responding": "not_responding", "Node unexpectedly rebooted": "not_responding",
		"Kill task failed": "kill_task", "Prolog error": "prolog_epilog", "Epilog error": "prolog_epilog", "Low RealMemory (reported:1 < 100.00% of configured:2)": "registration",
		"gres/gpu count reported lower than configured (0 < 2)": "registration", "NHC: check_fs_mount": "health_check", "reboot issued": "reboot", "ResumeTimeout reached": "power",
		"batch job complete failure": "job", "SlurmdSpoolDir is full": "disk", "": "none", "bob wants it": "other",
		"Could not unpack gres data": "registration", "Low socket*core*thread count, Low CPUs": "registration", "node unhealthy": "health_check", "check_power: no answer": "power",
		"firmware upgrade in progress": "other", "slow disk": "other", "below par": "other", "empowerment of bob": "other", "ask for congress": "other", "congress, gres": "registration",
	} {
		assert.Equal(t, want, drainKind(reason), reason)
	}
	for reason, want := range map[string]string{
		"Resources": "Resources", "ReqNodeNotAvail, UnavailableNodes:n1": "ReqNodeNotAvail", "": "", "(a)": "", requeuedAndHeld: "JobHeldUser",
		"Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions":            "NodesDownOrReserved",
		"Nodes required for job are DOWN, DRAINED, REBOOTING or reserved for jobs in higher priority partitions": "NodesDownOrReserved",
	} {
		assert.Equal(t, want, reasonOf(&job{Job: &slurm.Job{Reason: reason}}), reason)
	}
}

// FuzzNames: whatever people have named, Prometheus reads the pages.
func FuzzNames(f *testing.F) {
	f.Add("n1", "all", "cpu", "Resources", "alice")
	f.Add("n\"1\n", "{", "\xff\xfe", "a,b", "other")
	f.Add("\\", strings.Repeat("é", 300), "other", "\x00", "")
	f.Fuzz(func(t *testing.T, node, partition, feature, reason, user string) {
		v := small()
		v.Nodes = append(v.Nodes[:0:0], slurm.Node{Name: node, State: []string{reason, "DRAIN", feature}, Partitions: []string{partition}, ActiveFeatures: []string{feature, user}, Reason: reason})
		v.Partitions = []clusterview.Partition{{Name: partition}}
		v.Jobs = clusterview.JobsOf(
			slurm.Job{ID: 1, State: []string{"PENDING"}, Reason: reason, User: user, Account: feature, Partitions: []string{partition, node}},
			slurm.Job{ID: 2, State: []string{"RUNNING"}, Reason: feature, User: feature, Account: user, Partitions: []string{node}, NodeList: node + "," + partition},
		)
		v.Licenses, v.Cluster = []clusterview.License{{Name: feature}}, user
		v.Scheduler.RPCs = []clusterview.RPC{{Name: reason}, {Name: user}}
		v.Shares = []clusterview.Share{{Account: feature, User: user}}
		for _, o := range []Options{{}, {Users: 1}, {Users: 100}} {
			families(t, text(v, Native, o))
			families(t, text(v, Exporter, o))
		}
	})
}

// large has 10,000 nodes and 100,000 jobs in 20 partitions.
func large() *clusterview.View {
	v := small()
	v.Nodes, v.Partitions = nil, nil
	for i := range 20 {
		v.Partitions = append(v.Partitions, clusterview.Partition{Name: fmt.Sprintf("part%d", i), Nodes: 500, CPUs: 64000})
	}
	for i := range 10_000 {
		v.Nodes = append(v.Nodes, slurm.Node{
			Name: fmt.Sprintf("node-%05d", i), State: []string{[]string{"ALLOCATED", "MIXED", "IDLE"}[i%3]}, Partitions: []string{fmt.Sprintf("part%d", i%20)}, ActiveFeatures: []string{"cpu", "zen4"},
			CPUs: 128, CPUsEffective: 126, CPUsAlloc: i % 126, RealMemory: 512 << 10, MemoryEffective: 510 << 10, MemoryAlloc: int64(i%510) << 10, MemoryFree: int64(i%500)<<10 + 12,
		})
	}
	jobs := make([]slurm.Job, 100_000)
	for i := range jobs {
		jobs[i] = slurm.Job{ID: int64(i), State: []string{"PENDING"}, Reason: "Priority", Partitions: []string{fmt.Sprintf("part%d", i%20)}, User: fmt.Sprintf("user%d", i%900), Account: fmt.Sprintf("account%d", i%90), Eligible: ago(time.Duration(i) * time.Second), Nodes: 1}
		if i%3 == 0 {
			jobs[i].State, jobs[i].Reason, jobs[i].CPUs, jobs[i].Memory = []string{"RUNNING"}, "None", 4, 1<<10
			jobs[i].NodeList = fmt.Sprintf("node-%05d", i%10_000)
			if i%30 == 0 {
				jobs[i].NodeList = fmt.Sprintf("node-[%05d-%05d,%05d]", i%9_000, i%9_000+15, i%10_000)
			}
		}
	}
	v.Jobs = clusterview.JobsOf(jobs...)
	return v
}

// BenchmarkMake is one page of one new View.
func BenchmarkMake(b *testing.B) {
	v := large()
	for name, c := range map[string]struct {
		page    Page
		gzip    bool
		options Options
	}{"native": {Native, false, Options{}}, "native,gzip": {Native, true, Options{}}, "native,users": {Native, true, Options{Users: 100}}, "exporter,gzip": {Exporter, true, Options{}}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			texts, begin, n := NewTexts(c.options), cpuTime(b), 0
			for ; b.Loop(); n++ {
				again := *v
				again.Readings = told()
				b.ReportMetric(float64(len(texts.Make(&again, c.page, c.gzip).Body())), "B/text")
			}
			b.ReportMetric(float64(cpuTime(b)-begin)/float64(n), "cpu-ns/op")
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			texts.last.Store(nil)
			texts.history = history{}
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(before.HeapAlloc-after.HeapAlloc), "B/kept")
		})
	}
}

// cpuTime is what this process has had of the machine, which others may use as well.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
