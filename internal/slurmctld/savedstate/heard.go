package savedstate

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Heard remembers what slurmctld has logged of the jobs that it has acknowledged and started
// (SlurmctldDebug=info). An agent that outlives its slurmctld so knows them all. Its methods are safe for concurrent use.
type Heard struct {
	lock sync.Mutex
	jobs map[uint32]heardJob
	// highest is the last id that was given, as far as was heard.
	highest uint32
}

// heardJob has what slurmctld has logged about one job.
type heardJob struct {
	id uint32
	// acknowledged is when its command got its id, zero for a task of an array.
	acknowledged time.Time
	batch        bool
	// started is when it was started last, and where.
	started time.Time
	nodes   string
	// name is the id that users see: 7, or 7_2 for a task of an array.
	name string
}

// mostHeard bounds the memory, and memory is how long a job is remembered: slurmctld saves every five seconds, and
// its volume may be slow.
const (
	mostHeard = 20000
	memory    = 10 * time.Minute
	// beginAnew is how much lower an id is than the last one where ids have begun anew.
	beginAnew = 1 << 24
)

// The lines begin like this. What comes later in a line may be a user's text.
var (
	submitted = []string{"_slurm_rpc_submit_batch_job: JobId=", "_slurm_rpc_submit_batch_het_job: JobId="}
	allocated = []string{"sched: _slurm_rpc_allocate_resources JobId=", "sched: _slurm_rpc_allocate_het_job: JobId="}
	launched  = []string{"sched: Allocate JobId=", "sched/backfill: _start_job: Started JobId="}
)

func after(text string, prefixes []string) (rest string, found bool) {
	for _, p := range prefixes {
		if rest, found = strings.CutPrefix(text, p); found {
			return rest, true
		}
	}
	return "", false
}

// Line takes a line of slurmctld's log.
func (h *Heard) Line(text string, now time.Time) {
	if !strings.Contains(text, "JobId=") {
		return
	}
	rest, batch := after(text, submitted)
	acknowledges, starts := batch, false
	if !batch {
		if rest, acknowledges = after(text, allocated); acknowledges {
			starts = nodesOf(rest) != ""
		} else if rest, starts = after(text, launched); !starts {
			return
		}
	}
	id, name := readID(rest)
	if id == 0 {
		return
	}
	h.lock.Lock()
	defer h.lock.Unlock()
	if id > h.highest || h.highest-id > beginAnew {
		h.highest = id
	}
	if h.jobs == nil || len(h.jobs) >= mostHeard {
		h.prune(now)
	}
	job := h.jobs[id]
	job.id, job.name = id, name
	if acknowledges {
		job.acknowledged, job.batch = now, batch
	}
	if starts {
		job.started, job.nodes = now, nodesOf(rest)
	}
	h.jobs[id] = job
}

// prune forgets the old jobs, and all if these are too many.
func (h *Heard) prune(now time.Time) {
	kept := map[uint32]heardJob{}
	for id, job := range h.jobs {
		if now.Sub(job.latest()) < memory && len(h.jobs) < mostHeard*2 {
			kept[id] = job
		}
	}
	if len(kept) > mostHeard/2 {
		clear(kept)
	}
	h.jobs = kept
}

func (j heardJob) latest() time.Time {
	if j.started.After(j.acknowledged) {
		return j.started
	}
	return j.acknowledged
}

// since are the jobs of which something was heard after a time, and the last id that was heard of.
func (h *Heard) since(t time.Time) (jobs []heardJob, highest uint32) {
	h.lock.Lock()
	defer h.lock.Unlock()
	for _, job := range h.jobs {
		if !job.latest().Before(t) {
			jobs = append(jobs, job)
		}
	}
	return jobs, h.highest
}

// savedJob is a heardJob in the file that an agent leaves for the next one.
type savedJob struct {
	ID                    uint32
	Name, Nodes           string
	Acknowledged, Started time.Time
	Batch                 bool
}

// Crashed writes down what was heard, because the agent may end with its slurmctld.
func (s *Store) Crashed() error {
	jobs, _ := s.Heard.since(time.Now().Add(-memory))
	all := make([]savedJob, 0, len(jobs))
	for _, j := range jobs {
		all = append(all, savedJob{j.id, j.name, j.nodes, j.acknowledged, j.started, j.batch})
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return s.writeHere(heardName, string(text))
}

// learn takes what the agent before has heard. What this one has heard itself is newer.
func (h *Heard) learn(root *os.Root) {
	var all []savedJob
	text, err := root.ReadFile(heardName)
	if err != nil || json.Unmarshal(text, &all) != nil {
		return // there may be none
	}
	h.lock.Lock()
	defer h.lock.Unlock()
	if h.jobs == nil {
		h.jobs = map[uint32]heardJob{}
	}
	for _, t := range all[:min(len(all), mostHeard)] {
		if _, known := h.jobs[t.ID]; !known {
			h.jobs[t.ID] = heardJob{
				id: t.ID, name: t.Name, nodes: t.Nodes, acknowledged: t.Acknowledged,
				started: t.Started, batch: t.Batch,
			}
		}
		h.highest = max(h.highest, t.ID)
	}
}

// readID reads "7 …", "7_2(9) …" or "7+1(8) …": the id is the last number of it. name is without the parentheses.
func readID(text string) (id uint32, name string) {
	word, _, _ := strings.Cut(text, " ")
	name, inside, _ := strings.Cut(word, "(")
	digits := strings.TrimSuffix(inside, ")")
	if digits == "" {
		digits = name
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		return 0, ""
	}
	return uint32(n), name
}

// nodesOf reads "… NodeList=n1 …" and "… in all on n1".
func nodesOf(rest string) string {
	if _, list, found := strings.Cut(rest, " NodeList="); found {
		list, _, _ = strings.Cut(list, " ")
		if list == "(null)" {
			return ""
		}
		return list
	}
	if _, list, found := strings.Cut(rest, " on "); found {
		list, _, _ = strings.Cut(list, " ")
		return list
	}
	return ""
}
