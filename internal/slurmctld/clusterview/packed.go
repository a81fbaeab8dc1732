package clusterview

import (
	"iter"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// Jobs are the jobs of a View. A cluster may have 100,000 jobs, so they are kept packed in some
// 120 bytes each, and a Job is made when somebody looks at it.
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
	id, array, het                                                                           uint32
	task, name, user, account, qos, state, reason, nodeList, features, reservation, licenses uint32
	partitions, flags                                                                        uint32
	tasks, uid, priority, nodes, maxNodes, cpus, gpus, restarts                              uint32
	submit, eligible, start, end                                                             uint32
	limit                                                                                    uint32
	memory                                                                                   int64
}

// JobsOf packs jobs.
func JobsOf(jobs ...Job) Jobs {
	p := newPacker()
	for i := range jobs {
		p.add(&jobs[i])
	}
	return p.jobs
}

// Len returns the number of records.
func (j Jobs) Len() int { return j.n }

// Get is the record at an index. Nobody may change its lists.
func (j Jobs) Get(i int) Job {
	p := &j.chunks[i/chunk][i%chunk]
	return Job{
		ID: int64(p.id), ArrayID: int64(p.array), HetID: int64(p.het),
		ArrayTask: j.texts[p.task], Tasks: int(p.tasks),
		Name: j.texts[p.name], User: j.texts[p.user], Account: j.texts[p.account], QOS: j.texts[p.qos],
		UID: int(p.uid), Partitions: j.lists[p.partitions],
		State: j.texts[p.state], Flags: j.lists[p.flags], Reason: j.texts[p.reason],
		Held: p.priority == 0 && j.texts[p.state] == "PENDING", Priority: int64(p.priority),
		Submit: slurm.Time(p.submit), Eligible: slurm.Time(p.eligible), Start: slurm.Time(p.start), End: slurm.Time(p.end),
		TimeLimit: time.Duration(p.limit) * time.Second,
		Nodes:     int(p.nodes), MaxNodes: int(p.maxNodes), CPUs: int(p.cpus), Memory: p.memory, GPUs: int(p.gpus),
		Restarts: int(p.restarts),
		NodeList: j.texts[p.nodeList], Features: j.texts[p.features], Reservation: j.texts[p.reservation], Licenses: j.texts[p.licenses],
	}
}

// All are the records, in no order.
func (j Jobs) All() iter.Seq[Job] {
	return func(yield func(Job) bool) {
		for i := range j.Len() {
			if !yield(j.Get(i)) {
				return
			}
		}
	}
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

func (p *packer) add(j *Job) {
	if p.jobs.n%chunk == 0 {
		p.jobs.chunks = append(p.jobs.chunks, make([]packedJob, 0, chunk))
	}
	last := &p.jobs.chunks[len(p.jobs.chunks)-1]
	*last = append(*last, packedJob{
		id: uint32(j.ID), array: uint32(j.ArrayID), het: uint32(j.HetID),
		task: p.text(j.ArrayTask), tasks: uint32(j.Tasks),
		name: p.text(j.Name), user: p.text(j.User), account: p.text(j.Account), qos: p.text(j.QOS),
		uid: uint32(j.UID), partitions: p.list(j.Partitions),
		state: p.text(j.State), flags: p.list(j.Flags), reason: p.text(j.Reason), priority: uint32(j.Priority),
		submit: uint32(j.Submit), eligible: uint32(j.Eligible), start: uint32(j.Start), end: uint32(j.End),
		limit: uint32(min(j.TimeLimit/time.Second, 1<<32-1)),
		nodes: uint32(j.Nodes), maxNodes: uint32(j.MaxNodes), cpus: uint32(j.CPUs), memory: j.Memory,
		gpus: uint32(j.GPUs), restarts: uint32(j.Restarts),
		nodeList: p.text(j.NodeList), features: p.text(j.Features), reservation: p.text(j.Reservation), licenses: p.text(j.Licenses),
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

// flagged are the ids of the jobs whose state squeue has shown as a flag. Each may have more flags
// and any base state.
func (p *packer) flagged() (ids []int64) {
	for i := range p.jobs.n {
		if job := p.packed(i); job.flags != 0 {
			ids = append(ids, int64(job.id))
		}
	}
	return ids
}

// settle gives the flagged jobs the states that slurmctld has, by id. A job that slurmctld does
// not know any more has ended: it goes where its base state is not known, and the last job takes its
// place.
func (p *packer) settle(states map[int64][]string) {
	for i := 0; i < p.jobs.n; {
		job := p.packed(i)
		if job.flags == 0 {
			i++
			continue
		}
		base, flags := splitState(states[int64(job.id)], jobStates)
		switch {
		case base != "":
			job.state, job.flags = p.text(base), p.list(flags)
		case job.state == 0:
			p.jobs.n--
			*job = *p.packed(p.jobs.n)
			continue
		}
		i++
	}
}

func (p *packer) packed(i int) *packedJob { return &p.jobs.chunks[i/chunk][i%chunk] }
