package series

import (
	"cmp"
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/exposition"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

// history counts what happened between Views. A View says how things are, and a job leaves it
// MinJobAge (slurm.conf(5)) after its end. The first View has what happened before, which does
// not count.
type history struct {
	at   time.Time // of the jobs that were seen last
	seen []seenJob // by ID
	// first is when slurmctld said the jobs of the first View.
	first time.Time
	// requeued are the restarts of tasks of arrays, by the array and the task's ID, for as long as the
	// array has a record. squeue has no record of a task of its own while the task waits: the
	// array's record stands for it.
	requeued map[int64]map[int64]int32
	// waits and requeues are by partition.
	waits    map[string]*exposition.Durations
	requeues map[string]*int
}

// seenJob has what the last View knew of a job.
type seenJob struct {
	id       int64
	restarts int32
	started  bool
}

// observe compares a View with the one before. The same jobs are compared once.
func (h *history) observe(v *clusterview.View) {
	at := v.Readings[clusterview.FamilyJobs].At
	if at.IsZero() || !at.After(h.at) {
		return
	}
	first := h.at.IsZero()
	if first {
		h.waits, h.requeues, h.first = map[string]*exposition.Durations{}, map[string]*int{}, at
	}
	now, requeued := make([]seenJob, 0, v.Jobs.Len()), map[int64]map[int64]int32{}
	j := &job{}
	for j.Job = range v.Jobs.All() {
		one := seenJob{j.ID, int32(j.Restarts), j.hasStarted()}
		now = append(now, one)
		if !first {
			h.compare(j, one)
		}
		if j.ArrayID == 0 {
			continue
		}
		if requeued[j.ArrayID] == nil && h.requeued[j.ArrayID] != nil {
			requeued[j.ArrayID] = h.requeued[j.ArrayID]
		}
		if one.restarts > 0 {
			if requeued[j.ArrayID] == nil {
				requeued[j.ArrayID] = map[int64]int32{}
			}
			requeued[j.ArrayID][one.id] = one.restarts
		}
	}
	slices.SortFunc(now, func(a, b seenJob) int { return cmp.Compare(a.id, b.id) })
	h.at, h.seen, h.requeued = at, now, requeued
}

func (h *history) compare(j *job, now seenJob) {
	var before seenJob
	i, found := slices.BinarySearchFunc(h.seen, j.ID, func(s seenJob, id int64) int { return cmp.Compare(s.id, id) })
	if found {
		before = h.seen[i]
	} else if j.ArrayID != 0 {
		before.restarts = h.restartsBefore(j)
	}
	if len(j.Partitions) == 0 {
		return
	}
	partition := j.Partitions[0]
	if more := now.restarts - before.restarts; more > 0 {
		*in(h.requeues, partition) += int(more)
	}
	if now.started && (!before.started || before.restarts != now.restarts) {
		if wait, waited := j.waited(j.Start.Time()); waited {
			in(h.waits, partition).Add(waitBounds, wait, 1)
		}
	}
}

// restartsBefore are the restarts of a task of an array that have been counted, or that were before
// the first View. The View before has no record of the task. Of a task that no View has had since a
// restart, at most the last one counts. A restart moves the time of submission.
func (h *history) restartsBefore(j *job) int32 {
	if known, is := h.requeued[j.ArrayID][j.ID]; is {
		return known
	}
	if !j.Submit.Time().After(h.first) {
		return int32(j.Restarts)
	}
	return max(int32(j.Restarts)-1, 0)
}

// hasStarted: a job that was cancelled while it was PENDING has no nodes. slurmctld moves the start
// of a job that is CONFIGURING.
func (j *job) hasStarted() bool {
	return !j.State.Is("PENDING", "CONFIGURING") && j.NodeList != ""
}

// waitBounds are the upper bounds of the histograms of waits.
var waitBounds = []time.Duration{
	time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour,
	4 * time.Hour, 12 * time.Hour,
	24 * time.Hour, 72 * time.Hour, 168 * time.Hour,
}
