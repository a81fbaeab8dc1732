package series

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/exposition"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

// counts are what the rows of the tables are computed from.
type counts struct {
	nodes      nodeCounts
	jobs       jobCounts
	partitions []*partitionCounts
	// users and accounts are empty unless Options ask for them.
	users, accounts []*ownerCounts
	// waiting are pending jobs by partition and reason, waits is how long they have waited by
	// partition, features are nodes by feature and state, and drains are nodes by kind of reason.
	waiting  map[[2]string]int
	waits    map[string]*exposition.Durations
	features map[[2]string]int
	drains   map[string]int
}

// partitionCounts has the sums over one partition's nodes and jobs.
type partitionCounts struct {
	record *clusterview.Partition
	nodes  nodeCounts
	// A job that waits for several partitions is one of jobs in the first of them, and one of listed
	// in each.
	jobs, listed jobCounts
}

// words number states or flags. A record with another one is in no row of the tables.
type words []string

func (w words) number(word string) int { return slices.Index(w, word) }

// must is number for the tables. A word that nobody counts is a fault of this package.
func (w words) must(word string) int {
	n := w.number(word)
	if n < 0 {
		panic("series: nobody counts " + word)
	}
	return n
}

var (
	jobStates = words{
		"PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
		"BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
	}
	jobFlags = words{
		"COMPLETING", "CONFIGURING", "EXPEDITING", "POWER_UP_NODE", "REQUEUED", "REQUEUE_FED", "RESIZING", "REVOKED",
		"SIGNALING", "STAGE_OUT",
	}
	nodeStates = words{"ALLOCATED", "DOWN", "ERROR", "FUTURE", "IDLE", "MIXED", "UNKNOWN"}
	nodeFlags  = words{
		"BLOCKED", "CLOUD", "COMPLETING", "DRAIN", "DYNAMIC_FUTURE", "DYNAMIC_NORM", "EXTERNAL", "FAIL",
		"INVALID_REG", "MAINTENANCE", "NOT_RESPONDING", "PLANNED",
		"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP", "REBOOT_ISSUED", "REBOOT_REQUESTED", "RESERVED",
	}
)

// tally counts records by the numbers of words.
type tally [20]int

// add says whether the word is among those that are counted.
func (t *tally) add(w words, word string) bool {
	n := w.number(word)
	if n >= 0 {
		t[n]++
	}
	return n >= 0
}

// nodeCounts are sums over nodes.
type nodeCounts struct {
	nodes         int
	states, flags tally
	// draining nodes have flag DRAIN and jobs, and drained ones have DRAIN and none.
	draining, drained                                int
	cpus, cpusEffective, cpusAlloc, cpusIdle         int
	memory, memoryEffective, memoryAlloc, memoryFree int64 // in MiB
	gpus, gpusAlloc                                  int
}

func (c *nodeCounts) add(n *slurm.Node) {
	c.nodes++
	c.states.add(nodeStates, n.State.Base())
	for _, flag := range n.State.Flags() {
		c.flags.add(nodeFlags, flag)
	}
	if n.Drained() {
		if n.Allocated() {
			c.draining++
		} else {
			c.drained++
		}
	}
	c.cpus += n.CPUs
	c.cpusEffective += n.CPUsEffective
	c.cpusAlloc += n.CPUsAlloc
	c.cpusIdle += n.CPUsEffective - n.CPUsAlloc
	c.memory += n.RealMemory
	c.memoryEffective += n.MemoryEffective
	c.memoryAlloc += n.MemoryAlloc
	c.memoryFree += max(n.MemoryFree, 0)
	c.gpus += n.GPUs
	c.gpusAlloc += n.GPUsAlloc
}

// jobCounts are sums over jobs. A record is a job, a part of a heterogeneous job, a task of an
// array that has left PENDING, or all tasks of an array that are PENDING.
type jobCounts struct {
	// tasks count each task of an array, and the rest counts records where it does not say tasks.
	records, tasks int
	states, flags  tally
	// heldTasks are pending for reason JobHeldUser or JobHeldAdmin.
	pendingTasks, heldTasks int
	// started have left PENDING, finished have ended, and unfinished have not or are COMPLETING.
	started, finished, unfinished int
	// RUNNING and SUSPENDED ones have these. nodes has a bit for each node.
	cpus, gpus int
	memory     int64 // in MiB
	nodeBits   bitmap
	// These are the most that a pending job wants, and a pending job that is not held.
	minNodes, maxNodes, minNodesNoHold, maxNodesNoHold int
	// partitionNodeLimit wait for reason PartitionNodeLimit.
	partitionNodeLimit int
	old                oldCounts
}

// oldCounts are sums over jobs by slurm-exporter's rules. Its held jobs have priority 0.
type oldCounts struct {
	held, pendingNoHold, current int
	// maxNodes is the most nodes that a pending job wants that is not held, and maxNodesLately that
	// of those that became eligible in the last year.
	maxNodes, maxNodesLately int
}

// job is a record with what counting it needs.
type job struct {
	*slurm.Job
	// read is when slurmctld sent the record.
	read time.Time
	// nodes are the numbers of the nodes that it occupies.
	nodes []int
}

// requeuedAndHeld is what squeue prints for a job that is held because of "scontrol requeuehold".
// slurmctld's reason for it is JobHeldUser.
const requeuedAndHeld = "job requeued in held state"

func (j *job) held() bool {
	return j.Reason == "JobHeldUser" || j.Reason == "JobHeldAdmin" || j.Reason == requeuedAndHeld
}

func (c *jobCounts) add(j *job) {
	tasks := max(j.Tasks, 1)
	c.records++
	c.tasks += tasks
	for _, word := range j.State {
		_ = c.states.add(jobStates, word) || c.flags.add(jobFlags, word)
	}
	if j.Reason == "PartitionNodeLimit" {
		c.partitionNodeLimit++
	}
	switch {
	case j.State.Pending():
		c.pendingTasks += tasks
		c.unfinished++
		c.addPending(j, tasks)
	case j.State.HasNodes():
		c.started++
		c.unfinished++
		c.cpus += j.CPUs
		c.gpus += j.GPUs
		c.memory += j.Memory
		for _, node := range j.nodes {
			c.nodeBits.set(node)
		}
	default:
		c.started++
		c.finished++
		if j.Completing() {
			c.unfinished++
		}
	}
	c.old.add(j)
}

func (c *jobCounts) addPending(j *job, tasks int) {
	most := max(j.Nodes, j.MaxNodes)
	c.minNodes, c.maxNodes = max(c.minNodes, j.Nodes), max(c.maxNodes, most)
	if j.held() {
		c.heldTasks += tasks
		return
	}
	c.minNodesNoHold, c.maxNodesNoHold = max(c.minNodesNoHold, j.Nodes), max(c.maxNodesNoHold, most)
}

func (c *oldCounts) add(j *job) {
	if !j.State.Is("COMPLETED", "CANCELLED", "COMPLETING") {
		c.current++
	}
	switch {
	case j.Held:
		c.held++
	case j.State.Pending():
		c.pendingNoHold++
		c.maxNodes = max(c.maxNodes, j.Nodes)
		if j.Eligible.Time().After(j.read.AddDate(-1, 0, 0)) {
			c.maxNodesLately = max(c.maxNodesLately, j.Nodes)
		}
	}
}

// bitmap is a set of numbers.
type bitmap []uint64

func (b *bitmap) set(n int) {
	for len(*b) <= n/64 {
		*b = append(*b, 0)
	}
	(*b)[n/64] |= 1 << (n % 64)
}

func (b bitmap) count() (n int) {
	for _, word := range b {
		n += bits.OnesCount64(word)
	}
	return n
}

// count looks at each node once and at each job once, and twice where users are asked for.
func count(v *clusterview.View, o Options) *counts {
	c := &counts{
		waiting: map[[2]string]int{}, waits: map[string]*exposition.Durations{},
		features: map[[2]string]int{}, drains: map[string]int{},
	}
	partitions := map[string]*partitionCounts{}
	for i := range v.Partitions {
		p := &partitionCounts{record: &v.Partitions[i]}
		c.partitions = append(c.partitions, p)
		partitions[p.record.Name] = p
	}
	numbers := make(map[string]int, len(v.Nodes))
	for i := range v.Nodes {
		n := &v.Nodes[i]
		numbers[n.Name] = i
		c.addNode(n, partitions)
	}
	users, accounts := ownersOf(v, o)
	hosts := hostNumbers{numbers: numbers, lists: map[string][]int{}}
	read := v.Readings[clusterview.FamilyJobs].At
	j := &job{read: read}
	for j.Job = range v.Jobs.All() {
		if j.nodes = nil; j.State.HasNodes() {
			j.nodes = hosts.of(j.NodeList)
		}
		c.addJob(j, partitions)
		if o.Users > 0 {
			user := users.of(j.User)
			user.jobs.add(j)
			accounts.of(j.Account).jobs.add(j)
			if user != users.other {
				user.uid = strconv.Itoa(j.UID)
			}
		}
	}
	c.users, c.accounts = users.sorted(), accounts.sorted()
	return c
}

func (c *counts) addNode(n *slurm.Node, partitions map[string]*partitionCounts) {
	c.nodes.add(n)
	for _, name := range n.Partitions {
		if p := partitions[name]; p != nil {
			p.nodes.add(n)
		}
	}
	state := stateOf(n)
	for _, feature := range n.ActiveFeatures {
		c.features[[2]string{exposition.Name(feature), state}]++
	}
	if n.Drained() {
		c.drains[drainKind(n.Reason)]++
	}
}

func (c *counts) addJob(j *job, partitions map[string]*partitionCounts) {
	c.jobs.add(j)
	first := ""
	for _, name := range j.Partitions {
		p := partitions[name]
		if p == nil {
			continue
		}
		p.listed.add(j)
		if first == "" {
			first = name
			p.jobs.add(j)
		}
	}
	if !j.State.Pending() {
		return
	}
	c.waiting[[2]string{first, reasonOf(j)}] += max(j.Tasks, 1)
	if wait, waits := j.waited(j.read); waits {
		in(c.waits, first).Add(waitBounds, wait, max(j.Tasks, 1))
	}
}

// waited is how long a job had to wait from when it was eligible until then.
func (j *job) waited(then time.Time) (time.Duration, bool) {
	if j.Eligible.IsZero() || j.Eligible.Time().After(then) {
		return 0, false
	}
	return then.Sub(j.Eligible.Time()), true
}

// sentences are reasons that squeue prints as sentences, by how they begin, and a word for each.
var sentences = []struct{ begin, word string }{
	{requeuedAndHeld, "JobHeldUser"},
	// slurmctld writes it of a job that would start if its partition had enough nodes that are up. Its
	// own reason for the job is Resources.
	{"Nodes required for job", "NodesDownOrReserved"},
}

// reasonOf is a reason's first word: what follows are names. A sentence has a word of its own.
func reasonOf(j *job) string {
	for _, s := range sentences {
		if strings.HasPrefix(j.Reason, s.begin) {
			return s.word
		}
	}
	if end := strings.IndexAny(j.Reason, " ,:(="); end >= 0 {
		return j.Reason[:end]
	}
	return j.Reason
}

func in[T any](all map[string]*T, key string) *T {
	if all[key] == nil {
		all[key] = new(T)
	}
	return all[key]
}
