package webpage

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/page/pagefacts"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// cluster is what every page of the same facts has in common. It is made once for each answer of
// the agent, and nobody changes it.
type cluster struct {
	facts  *pagefacts.Facts
	view   *clusterview.View
	now    time.Time // when the agent had the facts
	sorted []int     // the jobs in the table's order

	nodes       tally
	byPartition map[string]*partition
	jobs        map[string]int // by state
	// states and shownPartitions are for the form.
	states, shownPartitions []string
	running                 usage
	waiting, held           int
	whyWaiting              map[string]int
	longest                 time.Duration // that a job waits
	// troubled are the nodes of the table of attention, with the jobs that hold them.
	troubled []Attention
}

type usage struct{ cpus, gpus, cpusAlloc, gpusAlloc, memory, memoryAlloc int64 }

type partition struct {
	nodes            tally
	cpus, cpusAlloc  int
	running, pending int
}

func newCluster(f *pagefacts.Facts) *cluster {
	c := &cluster{
		facts: f, view: f.View, now: f.At, sorted: sortJobs(f.View.Jobs), nodes: tally{},
		byPartition: map[string]*partition{}, jobs: map[string]int{}, whyWaiting: map[string]int{},
	}
	for i := range c.view.Partitions {
		c.partition(c.view.Partitions[i].Name)
	}
	for i := range c.view.Nodes {
		c.addNode(&c.view.Nodes[i])
	}
	for j := range c.view.Jobs.All() {
		c.addJob(j)
	}
	c.states = slices.Sorted(maps.Keys(c.jobs))
	for _, name := range slices.Sorted(maps.Keys(c.byPartition)) {
		c.shownPartitions = append(c.shownPartitions, shown(name))
	}
	c.troubled = c.attention()
	return c
}

func (c *cluster) partition(name string) *partition {
	p := c.byPartition[name]
	if p == nil {
		p = &partition{nodes: tally{}}
		c.byPartition[name] = p
	}
	return p
}

func (c *cluster) addNode(n *slurm.Node) {
	in := conditionOf(n)
	c.nodes[in]++
	c.running.cpus += int64(n.CPUs)
	c.running.cpusAlloc += int64(n.CPUsAlloc)
	c.running.gpus += int64(n.GPUs)
	c.running.gpusAlloc += int64(n.GPUsAlloc)
	c.running.memory += n.RealMemory << 20
	c.running.memoryAlloc += n.MemoryAlloc << 20
	for _, name := range n.Partitions {
		p := c.partition(name)
		p.nodes[in]++
		p.cpus += n.CPUs
		p.cpusAlloc += n.CPUsAlloc
	}
}

func (c *cluster) addJob(j *slurm.Job) {
	jobs := max(1, j.Tasks)
	c.jobs[shown(j.State.Base())] += jobs
	for _, name := range j.Partitions {
		switch p := c.partition(name); {
		case j.State.Is("RUNNING"):
			p.running += jobs
		case j.State.Pending():
			p.pending += jobs
		}
	}
	if !j.State.Pending() {
		return
	}
	c.waiting += jobs
	if j.Held {
		c.held += jobs
	}
	c.whyWaiting[reasonOf(j.Reason)] += jobs
	if since := max(j.Eligible, j.Submit); !since.IsZero() && !j.Held {
		c.longest = max(c.longest, c.now.Sub(since.Time()))
	}
}

// Attention is a node that works less than it could, and why.
type Attention struct {
	*Condition
	Name, Partitions, State, Reason, By string
	Since                               Moment
	Deadlines                           []Deadline
	MoreJobs                            int
}

// Deadline is when a job on such a node ends at the latest: at its time limit.
type Deadline struct {
	ID, User string
	Until    Moment
}

// mostAttention is how many rows that table has, and mostDeadlines how many jobs one of them.
const mostAttention, mostDeadlines = 40, 4

// attention lists the nodes that are draining, down and drained.
func (c *cluster) attention() (list []Attention) {
	at := map[string]int{}
	for _, in := range []*Condition{draining, down, unknown, drained} {
		for i := range c.view.Nodes {
			n := &c.view.Nodes[i]
			if conditionOf(n) != in {
				continue
			}
			if len(list) == mostAttention {
				break
			}
			at[n.Name] = len(list)
			list = append(list, Attention{
				Condition: in, Name: plain(n.Name, mostText), Partitions: plain(strings.Join(n.Partitions, ", "), 60),
				State:  strings.ToLower(plain(strings.Join(n.State, " "), 60)),
				Reason: plain(n.Reason, mostText),
				By:     plain(n.ReasonUser, 40), Since: moment(n.ReasonAt.Time(), c.now),
			})
		}
	}
	if len(list) > 0 {
		c.addDeadlines(list, at)
	}
	return list
}

// addDeadlines adds the jobs that hold those nodes.
func (c *cluster) addDeadlines(list []Attention, at map[string]int) {
	for j := range c.view.Jobs.All() {
		if !j.State.HasNodes() && !j.Completing() {
			continue
		}
		hosts, err := hostlist.Parse(j.NodeList)
		if err != nil {
			continue // the job is in the table of jobs
		}
		for host := range hosts.All() {
			i, found := at[host]
			if !found {
				continue
			}
			if len(list[i].Deadlines) == mostDeadlines {
				list[i].MoreJobs++
				continue
			}
			list[i].Deadlines = append(list[i].Deadlines, Deadline{jobID(j), plain(j.User, 40), moment(j.End.Time(), c.now)})
		}
	}
}

// unfollowed are the nodes whose agents slurmctld's agent does not hear of, and others counts the
// agents that are not of nodes.
func (c *cluster) unfollowed() (nodes []string, others int) {
	known := map[string]bool{}
	for _, name := range c.facts.Followers {
		known[name] = true
	}
	met := 0
	for i := range c.view.Nodes {
		if name := c.view.Nodes[i].Name; known[name] {
			met++
		} else {
			nodes = append(nodes, name)
		}
	}
	return nodes, len(known) - met
}
