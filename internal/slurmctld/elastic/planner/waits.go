package planner

import (
	"maps"
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// Wait is a job that slurmctld starts when its PrologSlurmctld has ended. Without one that waits for
// the job's nodes, slurmctld looks every 30 s whether they are up.
type Wait struct {
	// Job is its number, and Nodes are those of elastic sets: none of them, if it waits for slurmctld to settle alone.
	Job       string
	NodeNames hostlist.Set
	// Allocated is a time at which the job had its nodes: a node is up for the job if a look that began
	// then or later found it up. Until is when the wait ends, whatever is known.
	Allocated, Until time.Time
}

// Outcome says why a job waits no longer, for the log.
type Outcome string

// The outcomes.
const (
	// NodesUp: slurmctld starts the job at once.
	NodesUp Outcome = "its nodes are up"
	// NotConfiguring: the job has ended, was requeued, or runs.
	NotConfiguring Outcome = "it is not CONFIGURING any more"
	// NoAnswer: slurmctld has not answered for long.
	NoAnswer Outcome = "slurmctld does not answer"
	// Reconfigures: slurmctld reads its configuration anew, and would end PrologSlurmctld.
	Reconfigures Outcome = "slurmctld reconfigures"
	// TimeOver: slurmctld would end PrologSlurmctld soon, and requeue the job.
	TimeOver Outcome = "the time for PrologSlurmctld is over"
)

const (
	// leastPause is the time between two looks of which something new has caused the second. usualPause
	// and lastPause are those where nothing is new: the pause doubles from the first to the last.
	leastPause, usualPause, lastPause = 250 * time.Millisecond, 500 * time.Millisecond, 4 * time.Second
	// share of the time is the most that looks take where nothing is new.
	share = 10
	// silenceLimit is how long slurmctld may leave questions without an answer.
	silenceLimit = 20 * time.Second
)

// Waits are the jobs that wait. It is pure: its caller asks slurmctld, and passes it all, the time too.
type Waits struct {
	waits map[int]*Wait
	next  int
	// up were found by the look that began at looked and took so long. Each look forgets the one before.
	up           hostlist.Set
	looked       time.Time
	took         time.Duration
	lookedBefore int // looks since something was new
	news         time.Time
	// silent is since when slurmctld does not answer, zero while it does.
	silent time.Time
	// settling: no job begins before.
	settling settling
}

// Begin takes that slurmctld starts. No job begins until it has settled.
func (w *Waits) Begin(now time.Time) {
	w.settling = settling{began: now}
	w.up, w.looked = hostlist.Set{}, time.Time{}
}

// Settled says whether slurmctld has settled. If not, Survey wants a look at all nodes.
func (w *Waits) Settled() bool { return w.settling.began.IsZero() }

// WantSettled says whether slurmctld has settled, and has Due say when to look until it has.
func (w *Waits) WantSettled(now time.Time) bool {
	w.settling.wanted = !w.endSettling(now)
	return w.Settled()
}

// Survey takes a look at all nodes, as slurmctld knew them at a time.
func (w *Waits) Survey(nodes []slurm.Node, at, began, ended time.Time) map[int]Outcome {
	w.settling.survey(nodes, at, ended)
	w.looked, w.took = began, ended.Sub(began)
	w.lookedBefore = 0 // it takes seconds
	w.silent = time.Time{}
	over := w.overdue(ended)
	if w.endSettling(ended) {
		for number, one := range w.waits {
			if one.NodeNames.Len() == 0 {
				over[number] = NodesUp
			}
		}
	}
	return w.end(over)
}

func (w *Waits) endSettling(now time.Time) bool {
	if w.settling.over(now) {
		w.settling = settling{}
	}
	return w.Settled()
}

// Add begins a wait. The number is for Drop. A job whose nodes the last look has found up need not wait.
func (w *Waits) Add(one Wait, now time.Time) (number int, outcome Outcome) {
	if len(w.waits) == 0 { // the others end with the next look
		w.endSettling(now)
	}
	if w.Settled() && w.ready(&one) {
		return 0, NodesUp
	}
	if w.waits == nil {
		w.waits = map[int]*Wait{}
	}
	if len(w.waits) == 0 {
		w.silent = time.Time{}
	}
	w.next++
	w.waits[w.next] = &one
	w.Wake(now)
	return w.next, ""
}

// ready forgets the nodes that the last look has found up.
func (w *Waits) ready(one *Wait) bool {
	if !w.looked.Before(one.Allocated) && !w.looked.IsZero() {
		one.NodeNames = one.NodeNames.Difference(w.up)
	}
	return one.NodeNames.Len() == 0
}

// Drop ends a wait, because nobody waits for it any more.
func (w *Waits) Drop(number int) { delete(w.waits, number) }

// Len returns the number of jobs that wait.
func (w *Waits) Len() int { return len(w.waits) }

// Wake takes that something has changed, such as a slurmd that has registered.
func (w *Waits) Wake(now time.Time) { w.news, w.lookedBefore = now, 0 }

// Due is when to look again, or to end a wait; zero while nothing is waited for.
func (w *Waits) Due() (at time.Time) {
	if len(w.waits) == 0 && !w.settling.wanted {
		return time.Time{}
	}
	pause := max(backoff.Grow(usualPause, max(w.lookedBefore-1, 0), lastPause), share*w.took)
	if w.news.After(w.looked) {
		pause = max(leastPause, w.took)
	}
	at = w.looked.Add(w.took + pause)
	for _, one := range w.waits {
		if one.Until.Before(at) {
			at = one.Until
		}
	}
	return at
}

// NodesToAsk are those to ask for.
func (w *Waits) NodesToAsk() hostlist.Set {
	return hostlist.UnionOf(func(yield func(hostlist.Set) bool) {
		for _, one := range w.waits {
			if !yield(one.NodeNames) {
				return
			}
		}
	})
}

// JobsToAsk are those to ask for, in order.
func (w *Waits) JobsToAsk() []string {
	names := map[string]bool{}
	for _, one := range w.waits {
		names[one.Job] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// Looked takes the answer to a question for Nodes, which began and ended then. It returns the waits that
// are over.
func (w *Waits) Looked(up hostlist.Set, began, ended time.Time) map[int]Outcome {
	w.up, w.looked, w.took = up, began, ended.Sub(began)
	w.lookedBefore++
	over := w.overdue(ended)
	for number, one := range w.waits {
		if w.ready(one) {
			over[number] = NodesUp
		}
	}
	return w.end(over)
}

// Answered takes which of the jobs that were asked for are CONFIGURING. A job may have had its nodes before the question,
// and its wait may come while slurmctld answers: nothing was asked about that one. Nor does a wait count whose job had
// its nodes after the question began, because it is a job's second one.
func (w *Waits) Answered(asked []string, configuring map[string]bool, began time.Time) map[int]Outcome {
	w.silent = time.Time{}
	over := map[int]Outcome{}
	for number, one := range w.waits {
		if _, was := slices.BinarySearch(asked, one.Job); was && !configuring[one.Job] && !one.Allocated.After(began) {
			over[number] = NotConfiguring
		}
	}
	return w.end(over)
}

// Failed takes that slurmctld has not answered a question.
func (w *Waits) Failed(began, ended time.Time) map[int]Outcome {
	w.looked, w.took, w.up = began, ended.Sub(began), hostlist.Set{}
	w.lookedBefore++
	if w.silent.IsZero() {
		w.silent = began
	}
	if len(w.waits) == 0 {
		w.endSettling(ended)
	}
	over := w.overdue(ended)
	if ended.Sub(w.silent) >= silenceLimit {
		for number := range w.waits {
			over[number] = NoAnswer
		}
	}
	return w.end(over)
}

// EndAll ends all waits.
func (w *Waits) EndAll(why Outcome) map[int]Outcome {
	over := map[int]Outcome{}
	for number := range w.waits {
		over[number] = why
	}
	return w.end(over)
}

// Overdue ends the waits whose time is over.
func (w *Waits) Overdue(now time.Time) map[int]Outcome { return w.end(w.overdue(now)) }

func (w *Waits) overdue(now time.Time) map[int]Outcome {
	over := map[int]Outcome{}
	for number, one := range w.waits {
		if !now.Before(one.Until) {
			over[number] = TimeOver
		}
	}
	return over
}

func (w *Waits) end(over map[int]Outcome) map[int]Outcome {
	for number := range over {
		delete(w.waits, number)
	}
	return over
}
