//go:build e2e

package cluster

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// samples are values by name and labels, as Prometheus writes them.
type samples map[string]float64

// scrape reads a page as Prometheus does.
func scrape(url string) (samples, error) {
	answer, err := http.Get(url) //nolint:noctx // the world ends with its context
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, answer.Status)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	all := samples{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			all[name+labelsOf(m)] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all, nil
}

func labelsOf(m *dto.Metric) string {
	var all []string
	for _, pair := range m.GetLabel() {
		all = append(all, fmt.Sprintf("%s=%q", pair.GetName(), pair.GetValue()))
	}
	if all == nil {
		return ""
	}
	return "{" + strings.Join(all, ",") + "}"
}

// compareSeries compares each metric of the agent's with what Slurm's commands print, and, where
// slurmctld has metrics itself, with those. Nothing happens in the world meanwhile. Values that
// change by themselves must lie between those before and after.
func (w *world) compareSeries() error {
	var faults []string
	for _, compare := range []struct {
		what string
		with func() (samples, error)
		page string
	}{
		{"Slurm's commands", w.byCommands, "/metrics"},
		{"Slurm's commands", w.byCommandsAsExporter, "/metrics/slurm-exporter"},
		{"slurmctld's own metrics", w.bySlurmctld, "/metrics"},
	} {
		var last []string
		err := native.Within(limit, "they differ", func() bool {
			last = w.differences(compare.with, "http://"+native.Address+":8817"+compare.page)
			return last == nil
		})
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s beside %s: %s", compare.page, compare.what, strings.Join(last, "\n  ")))
		}
	}
	if faults != nil {
		return errors.New(strings.Join(faults, "\n"))
	}
	return nil
}

func (w *world) differences(with func() (samples, error), url string) []string {
	before, err := with()
	if err != nil {
		return []string{err.Error()}
	}
	have, err := fresh(url)
	if err != nil {
		return []string{err.Error()}
	}
	after, err := with()
	if err != nil {
		return []string{err.Error()}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		low, high := min(before[name], after[name]), max(before[name], after[name])
		value, there := have[name]
		if near := 1e-9 * math.Abs(high); !there || value < low-near || value > high+near {
			all = append(all, fmt.Sprintf("%s: the agent has %v (%v), and it should be %v to %v", name, value, there, low, high))
		}
	}
	if len(before) > 0 {
		fmt.Println(len(before), "values compared,", len(all), "differ")
	}
	return all
}

// fresh waits for a View that was begun after now.
func fresh(url string) (have samples, err error) {
	now := float64(time.Now().UnixMilli()) / 1000
	waited := native.Within(limit, "no View is new", func() bool {
		have, err = scrape("http://" + native.Address + ":8817/metrics")
		return err == nil && have[`slurmlet_cluster_read_timestamp_seconds{family="scheduler"}`] > now
	})
	if err == nil {
		err = waited
	}
	if err == nil {
		have, err = scrape(url)
	}
	return have, err
}

// bySlurmctld are slurmctld's own metrics in true units, without those that are wrong there.
func (w *world) bySlurmctld() (samples, error) {
	all := samples{}
	if !w.metrics {
		return all, nil
	}
	for _, page := range []string{"jobs", "nodes", "partitions", "scheduler", "jobs-users-accts"} {
		some, err := scrape("http://" + native.Address + ":6817/metrics/" + page)
		if err != nil {
			return nil, err
		}
		for name, value := range some {
			switch family, labels, _ := strings.Cut(name, "{"); {
			case family == "slurm_nodes_powering_up", family == "slurm_partition_jobs_wait_part_node_limit":
				// wrong there
			case severalPartitions.MatchString(family):
				// a job that waits for several partitions is in one that nobody can know
			case gpus.MatchString(family):
				// slurmctld counts them only with AccountingStorageTRES=gres/gpu
			case strings.HasPrefix(family, "slurm_account_") && labels == "":
				// the jobs without an account, for which slurmctld leaves the label out
			case strings.HasPrefix(family, "slurm_user_"):
				// a job that root submits for a user (--uid) is root's there, and the user's for squeue
			case means.MatchString(family) || counters.MatchString(family):
				// the agent's is not rounded; sdiag asked in between counts as well
			case bytes.MatchString(family):
				all[name] = value * (1 << 20)
			case micros.MatchString(family):
				all[name] = value / 1e6
			default:
				all[name] = value
			}
		}
	}
	return all, nil
}

var (
	gpus              = regexp.MustCompile(`gpus`)
	severalPartitions = regexp.MustCompile(`^slurm_partition_jobs(_pending|_hold|_(min|max)_job_nodes(_nohold)?)?$`)
	means             = regexp.MustCompile(`mean`)
	counters          = regexp.MustCompile(`^slurm_(server_thread_cnt|agent_|sched_stats_timestamp|sdiag_job_states_ts|sdiag_jobs_(pending|running))`)
	bytes             = regexp.MustCompile(`_mem_|memory`)
	micros            = regexp.MustCompile(`cycle_(last|max|tot)$|sdiag_latency`)
)

// states are Slurm's words for jobs' base states, and those of the metrics.
var states = map[string][2]string{
	"BOOT_FAIL": {"bootfail", "bootfail"}, "CANCELLED": {"cancelled", "cancelled"}, "COMPLETED": {"completed", "completed"}, "DEADLINE": {"deadline", "deadline"},
	"FAILED": {"failed", "failed"}, "NODE_FAIL": {"node_failed", "nodefail"}, "OUT_OF_MEMORY": {"outofmemory", "outofmemory"}, "PREEMPTED": {"preempted", "preempted"},
	"RUNNING": {"running", "running"}, "SUSPENDED": {"suspended", "suspended"}, "TIMEOUT": {"timeout", "timeout"},
}

// row is a line of squeue's.
type row struct {
	state, reason, user, account, priority string
	partitions                             []string
	cpus, memory                           float64
}

// queue asks squeue for all jobs; array has a line for each task.
func (w *world) queue(array bool) (rows []row, err error) {
	args := []string{"--noheader", "--all", "--local", "--states=all", "--Format=StateCompact:\x1f,Reason:\x1f,UserName:\x1f,Account:\x1f,PriorityLong:\x1f,Partition:\x1f,NumCPUs:\x1f,tres-alloc:\x1f"}
	if array {
		args = append(args, "--array")
	}
	out, err := w.slurm("squeue", args...)
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(out, "\n") {
		f := strings.Split(line, "\x1f")
		if len(f) < 8 {
			return nil, fmt.Errorf("cannot read squeue's %q", line)
		}
		if f[1] == "job requeued in held state" { // squeue shows what scontrol has noted in the reason's place
			f[1] = "JobHeldUser"
		}
		r := row{state: compact[f[0]], reason: f[1], user: f[2], account: f[3], priority: f[4], partitions: strings.Split(f[5], ",")}
		r.cpus, _ = strconv.ParseFloat(f[6], 64)
		if m := memoryOf.FindStringSubmatch(f[7]); m != nil {
			n, _ := strconv.ParseFloat(m[1], 64)
			r.memory = n * map[string]float64{"M": 1 << 20, "G": 1 << 30, "K": 1 << 10, "": 1 << 20}[m[2]]
		}
		rows = append(rows, r)
	}
	return rows, nil
}

var memoryOf = regexp.MustCompile(`mem=([0-9.]+)([KMG]?)`)

// compact are squeue's short words. A flag, such as CG or RQ, hides the base state.
var compact = map[string]string{
	"PD": "PENDING", "R": "RUNNING", "S": "SUSPENDED", "CD": "COMPLETED", "CA": "CANCELLED", "F": "FAILED", "TO": "TIMEOUT", "NF": "NODE_FAIL", "PR": "PREEMPTED", "BF": "BOOT_FAIL",
	"DL": "DEADLINE", "OOM": "OUT_OF_MEMORY", "CG": "COMPLETING", "CF": "RUNNING", "SE": "PENDING", "RH": "PENDING", "RQ": "PENDING", "ST": "RUNNING", "RS": "RUNNING", "SI": "RUNNING", "SO": "COMPLETED",
}

func (r row) occupies() bool { return r.state == "RUNNING" || r.state == "SUSPENDED" }

func (r row) heldBySlurm() bool { return r.reason == "JobHeldUser" || r.reason == "JobHeldAdmin" }

// byCommands is what the metrics of Slurm's names should be, and those of slurmlet_cluster.
func (w *world) byCommands() (samples, error) {
	all := samples{}
	rows, err := w.queue(true)
	if err != nil {
		return nil, err
	}
	partitions, err := w.lines("scontrol", "--all", "--oneliner", "show", "partitions")
	if err != nil {
		return nil, err
	}
	for _, line := range partitions {
		name, total := word(line, "PartitionName"), number(word(line, "TotalNodes"))
		all[of("slurm_partition_nodes", "partition", name)] = total
		all[of("slurm_partition_cpus", "partition", name)] = number(word(line, "TotalCPUs"))
		all["slurm_partitions"]++
		for _, one := range states {
			all[of("slurm_partition_jobs_"+one[0], "partition", name)] = 0
		}
		for _, zero := range []string{"pending", "hold", "cpus_alloc", "memory_alloc"} {
			all[of("slurm_partition_jobs_"+zero, "partition", name)] = 0
		}
	}
	for _, one := range states {
		all["slurm_jobs_"+one[0]] = 0
	}
	for _, r := range rows {
		all["slurm_jobs"]++
		add := func(name string, n float64) {
			all["slurm_jobs_"+name] += n
			all[of("slurm_partition_jobs_"+name, "partition", r.partitions[0])] += n
			all[of("slurm_user_jobs_"+name, "username", r.user)] += n
		}
		if one, base := states[r.state]; base {
			add(one[0], 1)
		}
		if r.state == "PENDING" {
			add("pending", 1)
			reason, _, _ := strings.Cut(r.reason, ",")
			switch {
			case reason == "None":
				reason = ""
			case strings.HasPrefix(reason, "Nodes required for job are DOWN"): // squeue shows a sentence in the reason's place
				reason = "NodesDownOrReserved"
			}
			all[fmt.Sprintf("slurmlet_cluster_jobs_waiting{partition=%q,reason=%q}", r.partitions[0], reason)]++
			if r.heldBySlurm() {
				add("hold", 1)
			}
		}
		if r.occupies() {
			add("cpus_alloc", r.cpus)
			add("memory_alloc", r.memory)
		}
	}
	if err := w.nodesByCommands(all); err != nil {
		return nil, err
	}
	return all, w.restByCommands(all)
}

// nodesByCommands is what metrics of nodes should be by sinfo.
func (w *world) nodesByCommands(all samples) error {
	lines, err := w.lines("sinfo", "--noheader", "--all", "--Node", "--Format=NodeHost:\x1f,CPUsState:\x1f,Memory:\x1f,AllocMem:\x1f,FreeMem:\x1f,CPUs:\x1f")
	if err != nil {
		return err
	}
	for _, line := range lines { // a node has a line for each of its partitions
		f := strings.Split(line, "\x1f")
		cpus := strings.Split(f[1], "/") // allocated, idle, other, total
		set := func(name string, value float64) { all[of("slurm_node_"+name, "node", f[0])] = value }
		set("cpus", number(f[5]))
		set("cpus_alloc", number(cpus[0]))
		set("memory_bytes", number(f[2])*(1<<20))
		set("memory_alloc_bytes", number(f[3])*(1<<20))
	}
	records, err := w.lines("scontrol", "--all", "--oneliner", "show", "nodes")
	if err != nil {
		return err
	}
	all["slurm_nodes_alloc"], all["slurm_nodes_mixed"] = 0, 0
	for _, line := range records {
		switch base, _, _ := strings.Cut(word(line, "State"), "+"); base { // sinfo --states=alloc tells nodes that complete as well
		case "ALLOCATED":
			all["slurm_nodes_alloc"]++
		case "MIXED":
			all["slurm_nodes_mixed"]++
		}
	}
	for metric, filter := range map[string]string{
		"drained": "drained", "draining": "draining", "fail": "fail", "completing": "comp", "noresp": "no_respond", "resv": "resv",
		"maint": "maint", "cloud": "cloud", "powered_down": "powered_down", "powering_up": "powering_up", "powering_down": "powering_down", "planned": "planned",
	} {
		names, err := w.lines("sinfo", "--noheader", "--all", "--Node", "--states="+filter, "--format=%N")
		if err != nil {
			return err
		}
		slices.Sort(names)
		all["slurm_nodes_"+metric] = float64(len(slices.Compact(names)))
	}
	return nil
}

// restByCommands is what metrics of the scheduler, licenses and reservations should be.
func (w *world) restByCommands(all samples) error {
	out, err := w.slurm("sdiag")
	if err != nil {
		return err
	}
	for name, title := range map[string]string{
		"slurm_sdiag_jobs_submitted": "Jobs submitted", "slurm_sdiag_jobs_started": "Jobs started", "slurm_sdiag_jobs_completed": "Jobs completed", "slurm_sdiag_jobs_canceled": "Jobs canceled",
		"slurm_sdiag_jobs_failed": "Jobs failed", "slurm_slurmdbd_queue_size": "DBD Agent queue size", "slurm_schedule_cycle_cnt": "Total cycles",
	} {
		found := regexp.MustCompile(`(?m)^\s*` + title + `:\s+([0-9]+)`).FindStringSubmatch(out)
		if found == nil {
			return fmt.Errorf("sdiag does not tell %q", title)
		}
		all[name] = number(found[1])
	}
	licenses, err := w.lines("scontrol", "--oneliner", "show", "licenses")
	if err != nil {
		return err
	}
	for _, line := range licenses {
		name := word(line, "LicenseName")
		all[of("slurmlet_cluster_licenses", "license", name)] = number(word(line, "Total"))
		all[of("slurmlet_cluster_licenses_used", "license", name)] = number(word(line, "Used"))
		all[of("slurmlet_cluster_licenses_free", "license", name)] = number(word(line, "Free"))
	}
	reservations, err := w.lines("scontrol", "--oneliner", "show", "reservations")
	if err != nil {
		return err
	}
	for _, line := range reservations {
		state := map[string]string{"ACTIVE": "active", "INACTIVE": "planned"}[word(line, "State")]
		all[of("slurmlet_cluster_reservations", "state", state)]++
		all[of("slurmlet_cluster_reservation_nodes", "state", state)] += number(word(line, "NodeCnt"))
	}
	return nil
}

// byCommandsAsExporter is what slurm-exporter would make of it: an array is one job, and a job counts
// in each of its partitions.
func (w *world) byCommandsAsExporter() (samples, error) {
	rows, err := w.queue(false)
	if err != nil {
		return nil, err
	}
	all := samples{}
	for _, r := range rows {
		all["slurm_jobs_total"]++
		for _, p := range r.partitions {
			all[of("slurm_partition_jobs_total", "partition", p)]++
			if one, base := states[r.state]; base {
				all[of("slurm_partition_jobs_"+one[1]+"_total", "partition", p)]++
			}
			if r.occupies() {
				all[of("slurm_partition_jobs_cpus_alloc_total", "partition", p)] += r.cpus
				all[of("slurm_partition_jobs_memory_alloc_bytes", "partition", p)] += r.memory / (1 << 20)
			}
			if r.state == "PENDING" {
				all[of("slurm_partition_jobs_pending_total", "partition", p)]++
				if r.priority == "0" {
					all[of("slurm_partition_hold_jobs", "partition", p)]++
				} else {
					all[of("slurm_partition_pending_jobs", "partition", p)]++
				}
			}
		}
	}
	return all, nil
}

// lines are those that a command of Slurm's prints.
func (w *world) lines(program string, args ...string) ([]string, error) {
	out, err := w.slurm(program, args...)
	if err != nil || out == "" {
		return nil, err
	}
	return strings.Split(out, "\n"), nil
}

func of(name, label, value string) string { return fmt.Sprintf("%s{%s=%q}", name, label, value) }

// word is the value of a key in a line of scontrol's.
func word(line, key string) string {
	for one := range strings.FieldsSeq(line) {
		if value, found := strings.CutPrefix(one, key+"="); found {
			return value
		}
	}
	return ""
}

func number(text string) float64 {
	n, _ := strconv.ParseFloat(text, 64)
	return n
}
