package webpage

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

// Filter is which jobs the table has: what the query of the page's address says.
type Filter struct {
	State, Partition, User string
	Page                   int // from 1
}

// mostQuery is the longest word of a filter.
const mostQuery = 100

func filterOf(query url.Values) Filter {
	word := func(name string) string {
		return shown(strings.TrimSpace(query.Get(name)))
	}
	page, _ := strconv.Atoi(query.Get("page"))
	return Filter{State: strings.ToUpper(word("state")), Partition: word("partition"), User: word("user"), Page: min(max(page, 1), 1<<20)}
}

// address is the page with this filter.
func (f Filter) address(page int) string {
	q := url.Values{}
	for name, value := range map[string]string{"state": f.State, "partition": f.Partition, "user": f.User} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if page > 1 {
		q.Set("page", strconv.Itoa(page))
	}
	if len(q) == 0 {
		return "./#jobs"
	}
	return "?" + q.Encode() + "#jobs"
}

func (f Filter) wants(j *slurm.Job) bool {
	return (f.State == "" || shown(j.State.Base()) == f.State) &&
		(f.Partition == "" || slices.ContainsFunc(j.Partitions, func(p string) bool { return shown(p) == f.Partition })) &&
		(f.User == "" || shown(j.User) == f.User)
}

// shown is a name as the form and the address have it.
func shown(name string) string { return plain(name, mostQuery) }

// jobsOnPage is how many jobs the table shows at a time.
const jobsOnPage = 25

// JobRow is a job in the table.
type JobRow struct {
	ID, Name, User, Account, Partition string
	Pods                               string // which wait in Slurm's queue by the job, NAMESPACE/NAME
	State, Class, Flags                string
	Nodes, CPUs, GPUs, Memory          string
	// Time is how long it runs or waits, and Until when it ends or is expected to start.
	Time  string
	Until Moment
	Where string // nodes, or why it waits
}

// JobTable is one page of jobs.
type JobTable struct {
	Filter
	Rows            []JobRow
	From, To, Total string
	Previous, Next  string // addresses, empty for none
	// States and Partitions are those to choose from; Narrow: some are chosen.
	States, Partitions []string
	Narrow             bool
}

// order: those that run, then those that wait, then those that have ended; within these the newest
// and the most urgent first.
var order = map[string]int{"RUNNING": 0, "SUSPENDED": 1, "PENDING": 2}

func rank(state string) int {
	if n, found := order[state]; found {
		return n
	}
	return len(order)
}

// jobTable is made anew for each filter.
func (c *cluster) jobTable(f Filter) JobTable {
	t := JobTable{Filter: f, States: c.states, Partitions: c.shownPartitions, Narrow: f.State+f.Partition+f.User != ""}
	var chosen []int
	for _, at := range c.sorted {
		if j := c.view.Jobs.Get(at); f.wants(&j) {
			chosen = append(chosen, at)
		}
	}
	pages := max(1, (len(chosen)+jobsOnPage-1)/jobsOnPage)
	t.Page = min(max(1, f.Page), pages)
	from := (t.Page - 1) * jobsOnPage
	to := min(from+jobsOnPage, len(chosen))
	for _, at := range chosen[from:to] {
		j := c.view.Jobs.Get(at)
		t.Rows = append(t.Rows, c.jobRow(&j))
	}
	t.From, t.To, t.Total = count(min(from+1, to)), count(to), count(len(chosen))
	if t.Page > 1 {
		t.Previous = f.address(t.Page - 1)
	}
	if t.Page < pages {
		t.Next = f.address(t.Page + 1)
	}
	return t
}

// sortJobs gives the order of the table, as indexes.
func sortJobs(jobs clusterview.Jobs) []int {
	type key struct{ at, rank, priority, id int64 }
	keys := make([]key, 0, jobs.Len())
	i := int64(0)
	for j := range jobs.All() {
		keys = append(keys, key{i, int64(rank(j.State.Base())), j.Priority, j.ID})
		if !j.State.Pending() {
			keys[i].priority = int64(j.Start)
		}
		i++
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.priority, a.priority), cmp.Compare(a.id, b.id))
	})
	all := make([]int, len(keys))
	for i, k := range keys {
		all[i] = int(k.at)
	}
	return all
}

// jobID is as squeue writes it.
func jobID(j *slurm.Job) string {
	switch {
	case j.ArrayID != 0 && j.ArrayTask != "" && j.State.Pending():
		return fmt.Sprintf("%d_[%s]", j.ArrayID, plain(j.ArrayTask, 40))
	case j.ArrayID != 0 && j.ArrayTask != "":
		return fmt.Sprintf("%d_%s", j.ArrayID, plain(j.ArrayTask, 40))
	}
	return strconv.FormatInt(j.ID, 10)
}

func (c *cluster) jobRow(j *slurm.Job) JobRow {
	state := j.State.Base()
	row := JobRow{
		ID: jobID(j), Name: plain(j.Name, 60), Pods: plain(j.Pods, 120), User: plain(cmp.Or(j.User, strconv.Itoa(j.UID)), 40), Account: plain(j.Account, 40),
		Partition: plain(strings.Join(j.Partitions, ","), 60), State: plain(strings.ToLower(state), 30), Class: "s-" + jobClass(state),
		Flags: plain(strings.ToLower(strings.Join(j.State.Flags(), ", ")), 60), Nodes: count(j.Nodes), CPUs: count(j.CPUs),
		Memory: size(j.Memory << 20), Where: plain(j.NodeList, 60),
	}
	if j.GPUs > 0 {
		row.GPUs = count(j.GPUs)
	}
	switch {
	case j.State.Pending():
		row.Time, row.Until, row.Where = waits(j, c.now), moment(j.Start.Time(), c.now), plain(j.Reason, 60)
	case j.Start.IsZero():
	case j.End.IsZero() || j.End.Time().After(c.now):
		row.Time, row.Until = span(c.now.Sub(j.Start.Time())), moment(j.End.Time(), c.now)
	default:
		row.Time, row.Until = span(j.End.Time().Sub(j.Start.Time())), moment(j.End.Time(), c.now)
	}
	return row
}

// waits is how long a job has been waiting since it may start.
func waits(j *slurm.Job, now time.Time) string {
	since := max(j.Eligible, j.Submit)
	if since.IsZero() || since.Time().After(now) {
		return ""
	}
	return span(now.Sub(since.Time()))
}

// jobClass is the colour of a job's state.
func jobClass(state string) string {
	switch state {
	case "RUNNING":
		return "run"
	case "PENDING", "SUSPENDED":
		return "wait"
	case "COMPLETED":
		return "done"
	}
	return "fail"
}

// Reason is why jobs wait, in Slurm's word and in plain ones.
type Reason struct {
	Name, Means string
	Jobs        string
	Share       int // in percent
	jobs        int
}

// mostReasons is how many rows the reasons have.
const mostReasons = 12

// reasons counts the jobs that wait by their reason. A reason of Slurm's is one word; what a plugin
// has written counts as "other" for strangers.
func reasons(counts map[string]int, named bool) []Reason {
	total, other := 0, 0
	var all []Reason
	for name, n := range counts {
		total += n
		if isWord(name) || named {
			all = append(all, Reason{Name: plain(name, 60), Means: meanings[name], jobs: n})
		} else {
			other += n
		}
	}
	slices.SortFunc(all, func(a, b Reason) int { return cmp.Or(cmp.Compare(b.jobs, a.jobs), cmp.Compare(a.Name, b.Name)) })
	if len(all) > mostReasons {
		for _, r := range all[mostReasons:] {
			other += r.jobs
		}
		all = all[:mostReasons]
	}
	if other > 0 {
		all = append(all, Reason{Name: "Other reasons", jobs: other})
	}
	for i := range all {
		all[i].Jobs, all[i].Share = count(all[i].jobs), max(1, 100*all[i].jobs/total)
	}
	return all
}

// reasonOf is Slurm's word of a reason, which may have names of nodes behind it.
func reasonOf(text string) string {
	if word, _, more := strings.Cut(text, ","); more && isWord(word) {
		return word
	}
	return cmp.Or(text, "None")
}

// isWord: Slurm's own reasons have letters alone.
func isWord(text string) bool {
	return text != "" && len(text) <= 40 && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_'
	})
}

// meanings are of slurm.conf(5)'s and squeue(1)'s reasons that users ask about.
var meanings = map[string]string{
	"Resources":                     "Next in line; the nodes that it needs are busy",
	"Priority":                      "Jobs of higher priority come first",
	"Dependency":                    "Another job must end first",
	"DependencyNeverSatisfied":      "The job that it depends on has failed: it will never start",
	"BeginTime":                     "It asked for a later start",
	"JobHeldUser":                   "Its user holds it: scontrol release",
	"JobHeldAdmin":                  "An administrator holds it",
	"JobArrayTaskLimit":             "As many tasks of its array run as it allows",
	"PartitionDown":                 "Its partition is down",
	"PartitionInactive":             "Its partition takes no jobs",
	"PartitionNodeLimit":            "It wants more nodes than its partition gives",
	"PartitionTimeLimit":            "It wants more time than its partition gives",
	"ReqNodeNotAvail":               "A node that it needs is down, drained or reserved",
	"NodeDown":                      "A node that it needs is down",
	"BadConstraints":                "No node fits what it asks for",
	"Reservation":                   "It waits for its reservation",
	"ReservationDeleted":            "Its reservation is gone",
	"Licenses":                      "Its licenses are in use",
	"QOSMaxJobsPerUserLimit":        "Its user runs as many jobs as the QOS allows",
	"QOSMaxCpuPerUserLimit":         "Its user has as many CPUs as the QOS allows",
	"QOSMaxGRESPerUser":             "Its user has as many GPUs as the QOS allows",
	"QOSGrpCpuLimit":                "All jobs of its QOS together have as many CPUs as allowed",
	"QOSMaxWallDurationPerJobLimit": "It wants more time than its QOS allows",
	"AssocGrpCpuLimit":              "Its account has as many CPUs as allowed",
	"AssocGrpGRES":                  "Its account has as many GPUs as allowed",
	"AssocGrpCPUMinutesLimit":       "Its account has used up its CPU time",
	"AssocMaxJobsLimit":             "Its association runs as many jobs as allowed",
	"InvalidAccount":                "Its account is not valid",
	"InvalidQOS":                    "Its QOS is not valid",
	"Prolog":                        "Its prolog runs",
	"Cleaning":                      "It was requeued, and its last run is still being cleaned up",
	"launch_failed_requeued_held":   "Its launch has failed, and it is held: scontrol release",
	"None":                          "The scheduler has not looked at it yet",
}
