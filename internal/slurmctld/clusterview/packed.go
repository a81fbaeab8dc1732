package clusterview

import (
	"iter"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// Jobs are the jobs of a View. A cluster may have 100,000 jobs, so they are kept packed in 120 bytes
// each, and a Job is made when somebody looks at it.
type Jobs struct {
	n      int
	chunks [][]packedJob
	texts  []string
	lists  [][]string
}

// chunk is how many jobs are one piece of memory: a list that grows is not copied.
const chunk = 1 << 10

// packedJob has texts and lists by their place in Jobs, and times in seconds since 1970.
type packedJob struct {
	id, array, het                                                                          uint32
	task, name, user, account, qos, reason, nodeList, features, reservation, licenses, pods uint32
	partitions, state                                                                       uint32
	tasks, uid, priority, nodes, maxNodes, cpus, gpus, restarts                             uint32
	submit, eligible, start, end                                                            uint32
	limit, memory                                                                           uint32
}

// JobsOf packs jobs.
func JobsOf(jobs ...slurm.Job) Jobs {
	p := newPacker()
	for i := range jobs {
		p.add(&jobs[i])
	}
	return p.jobs
}

// Len returns the number of records.
func (j Jobs) Len() int { return j.n }

// Get is the record at an index. Nobody may change its lists.
func (j Jobs) Get(i int) (one slurm.Job) {
	j.unpack(i, &one)
	return one
}

// All are the records, in no order. The next record takes the place of the last one: 100,000 are much to throw away.
func (j Jobs) All() iter.Seq[*slurm.Job] {
	return func(yield func(*slurm.Job) bool) {
		var one slurm.Job
		for i := range j.Len() {
			if j.unpack(i, &one); !yield(&one) {
				return
			}
		}
	}
}

func (j Jobs) unpack(i int, into *slurm.Job) {
	p := &j.chunks[i/chunk][i%chunk]
	into.ID, into.ArrayID, into.HetID = int64(p.id), int64(p.array), int64(p.het)
	into.ArrayTask, into.Tasks = j.texts[p.task], int(p.tasks)
	into.Name, into.User, into.Account, into.QOS = j.texts[p.name], j.texts[p.user], j.texts[p.account], j.texts[p.qos]
	into.UID, into.Partitions = int(p.uid), j.lists[p.partitions]
	into.State, into.Reason, into.Priority = j.lists[p.state], j.texts[p.reason], int64(p.priority)
	into.Held = p.priority == 0 && into.State.Pending()
	into.Submit, into.Eligible = slurm.Time(p.submit), slurm.Time(p.eligible)
	into.Start, into.End = slurm.Time(p.start), slurm.Time(p.end)
	into.TimeLimit = time.Duration(p.limit) * time.Second
	into.Nodes, into.MaxNodes, into.CPUs, into.GPUs = int(p.nodes), int(p.maxNodes), int(p.cpus), int(p.gpus)
	into.Memory, into.Restarts = int64(p.memory), int(p.restarts)
	into.NodeList, into.Features = j.texts[p.nodeList], j.texts[p.features]
	into.Reservation, into.Licenses, into.Pods = j.texts[p.reservation], j.texts[p.licenses], j.texts[p.pods]
}

// packer makes Jobs. Equal texts and lists have one place.
type packer struct {
	jobs  Jobs
	texts map[string]uint32
	lists map[string]uint32 // by their texts in one
}

func newPacker() *packer {
	p := &packer{texts: map[string]uint32{"": 0}, lists: map[string]uint32{"": 0}}
	p.jobs.texts, p.jobs.lists = []string{""}, [][]string{nil}
	return p
}

func (p *packer) add(j *slurm.Job) {
	if p.jobs.n%chunk == 0 {
		p.jobs.chunks = append(p.jobs.chunks, make([]packedJob, 0, chunk))
	}
	last := &p.jobs.chunks[len(p.jobs.chunks)-1]
	*last = append(*last, packedJob{
		id: uint32(j.ID), array: uint32(j.ArrayID), het: uint32(j.HetID),
		task: p.text(j.ArrayTask), tasks: uint32(j.Tasks),
		name: p.text(j.Name), user: p.text(j.User), account: p.text(j.Account), qos: p.text(j.QOS),
		uid: uint32(j.UID), partitions: p.list(j.Partitions),
		state: p.list(j.State), reason: p.text(j.Reason), priority: uint32(j.Priority),
		submit: uint32(j.Submit), eligible: uint32(j.Eligible), start: uint32(j.Start), end: uint32(j.End),
		limit: uint32(min(j.TimeLimit/time.Second, 1<<32-1)),
		nodes: uint32(j.Nodes), maxNodes: uint32(j.MaxNodes), cpus: uint32(j.CPUs), memory: uint32(min(j.Memory, 1<<32-1)),
		gpus: uint32(j.GPUs), restarts: uint32(j.Restarts),
		nodeList: p.text(j.NodeList), features: p.text(j.Features), reservation: p.text(j.Reservation), licenses: p.text(j.Licenses),
		pods: p.text(j.Pods),
	})
	p.jobs.n++
}

// text keeps a copy, because s may be a part of a longer text.
func (p *packer) text(s string) uint32 {
	at, found := p.texts[s]
	if !found {
		at, s = uint32(len(p.jobs.texts)), strings.Clone(s)
		p.jobs.texts, p.texts[s] = append(p.jobs.texts, s), at
	}
	return at
}

func (p *packer) list(all []string) uint32 {
	key := strings.Join(all, "\x00")
	at, found := p.lists[key]
	if !found {
		at = uint32(len(p.jobs.lists))
		kept := make([]string, len(all))
		for i, one := range all {
			kept[i] = p.jobs.texts[p.text(one)]
		}
		p.jobs.lists, p.lists[key] = append(p.jobs.lists, kept), at
	}
	return at
}

// isFlagged says whether squeue has shown a flag in the place of a job's state. The job may have more
// flags, and any base state.
func (p *packer) isFlagged(job *packedJob) bool { return len(p.state(job).Flags()) > 0 }

func (p *packer) state(job *packedJob) slurm.JobState { return p.jobs.lists[job.state] }

// flagged are the ids of those jobs.
func (p *packer) flagged() (ids []int64) {
	for i := range p.jobs.n {
		if job := p.packed(i); p.isFlagged(job) {
			ids = append(ids, int64(job.id))
		}
	}
	return ids
}

// settle gives the flagged jobs the states that slurmctld has, by id. A job that slurmctld does
// not know any more has ended: it goes where its base state is not known, and the last job takes its
// place.
func (p *packer) settle(states map[int64]slurm.JobState) {
	for i := 0; i < p.jobs.n; {
		job := p.packed(i)
		if !p.isFlagged(job) {
			i++
			continue
		}
		whole := states[int64(job.id)].Ordered()
		switch {
		case whole.Base() != "":
			job.state = p.list(whole)
		case p.state(job).Base() == "":
			p.jobs.n--
			*job = *p.packed(p.jobs.n)
			continue
		}
		i++
	}
}

func (p *packer) packed(i int) *packedJob { return &p.jobs.chunks[i/chunk][i%chunk] }
