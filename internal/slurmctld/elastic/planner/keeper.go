package planner

import (
	"errors"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// Look is what slurmctld, Kubernetes and the mounted files have said.
type Look struct {
	// At is when slurmctld was asked for the nodes.
	At        time.Time
	Nodes     []slurm.Node
	Suspended map[string]bool
	Sets      Sets
	// Pod says whether a node has a pod; nil where nobody knows.
	Pod func(name string) bool
	// Failing are the pods that do not start.
	Failing []wire.Failure
	// ResumeTimeout is slurm.conf's; 0 while it is not known.
	ResumeTimeout time.Duration
	// Timed: records have a SuspendTime of their own, and a new one need not be DOWN first (26.05).
	Timed bool
}

// Verb is what is to be done with records.
type Verb string

// The verbs, in the order in which a Plan has them.
const (
	Fail Verb = "fail" // DOWN, with a reason: slurmctld requeues the jobs
	// PowerDown is done once nothing holds the node. One that a job has got meanwhile is suspended after the job.
	PowerDown Verb = "power_down"
	Drain     Verb = "drain"
	Resume    Verb = "resume"
	Delete    Verb = "delete"
	Create    Verb = "create" // Text is what scontrol needs besides the names; then as Settle, or as Update where Timed
	Activate  Verb = "settle" // DOWN, with reasons.SetNew, and resumed; then Fields
	Update    Verb = "update" // Fields
	PowerUp   Verb = "power_up"
)

var order = []Verb{Fail, PowerDown, Drain, Resume, Delete, Create, Activate, Update, PowerUp}

// Step is what to do with the records of some nodes.
type Step struct {
	Verb  Verb
	Nodes []string
	// Text is the reason of Fail, Drain and Settle, and what Create needs.
	Text string
	// Fields are those of Update and Settle, and of Create once the records are there.
	Fields []string
}

func (s *Step) key() string {
	return string(s.Verb) + "\x00" + s.Text + "\x00" + strings.Join(s.Fields, "\x00")
}

const (
	// failingTime is how long a pod may fail before its node is DOWN. An image's registry may be away for a
	// moment.
	failingTime = 30 * time.Second
	// margin is how long before ResumeTimeout a pod that finds no machine is given up.
	margin = 30 * time.Second
	// firstBackoff and lastBackoff bound how long nodes stay DOWN that did not start.
	firstBackoff = time.Minute
	lastBackoff  = 30 * time.Minute
	// firstRetry bounds from below, firstRefusal after slurmctld has refused, and lastRetry from above when the
	// same is done again with a record.
	firstRetry   = time.Second
	firstRefusal = 5 * time.Second
	// unanswered is how long records are not made again that slurmctld may make yet: 24.11 deletes a record that is
	// made twice.
	unanswered = 2 * time.Minute
	lastRetry  = 5 * time.Minute
	// soon is the time to the next look while nodes start or end.
	soon = 2 * time.Second
	// unschedulable is Kubernetes' word for a pod that finds no machine.
	unschedulable = "Unschedulable"
)

// Keeper remembers what one look does not show.
type Keeper struct {
	starting map[string]time.Time // by node: since when its pod is wanted and not up
	failures map[string]*failure  // by node
	pauses   map[pauseKey]*pause
	tries    map[string]tries // by node
	// others are the reasons of other people's drains and DOWN, by node. At ResumeTimeout slurmctld lifts the drain, and
	// adds a reason of its own.
	others map[string]string
}

type failure struct {
	reason, note string
	since        time.Time
}

type pauseKey struct{ set, reason string }

type pause struct {
	tries int
	until time.Time
}

// tries are what was done last with a record, by verb. The same is not done again at once while something is to be done
// with the record, whatever became of it.
type tries map[Verb]*try

type try struct {
	key string
	// refused is what slurmctld has said against it.
	refused string
	count   int
	until   time.Time
}

// NewKeeper remembers nothing.
func NewKeeper() *Keeper {
	return &Keeper{
		starting: map[string]time.Time{}, failures: map[string]*failure{}, pauses: map[pauseKey]*pause{},
		tries: map[string]tries{}, others: map[string]string{},
	}
}

// Plan is what to do, and how the sets stand.
type Plan struct {
	Steps []Step
	// Next is when to look again, where nothing happens before; zero for nothing to wait for.
	Next time.Time
	// Elastic has the sets of the records that are elastic nodes, by their names.
	Elastic   map[string]string
	Standings []Standing
	// Started are how long nodes took that have come up since the last plan.
	Started []Started
}

// Started is a node that has come up.
type Started struct {
	Set, Node string
	Took      time.Duration
}

// Standing has the counts and the names of one set's nodes at the time of a look.
type Standing struct {
	Name string
	// Removed: no file has the set any more, and records are left.
	Removed bool
	Nodes   string
	Min     int
	Records int
	// The others are names of nodes. Starting are wanted and not up, Ending are not wanted and their pods may be
	// there; Failed are DOWN because they did not start.
	Wanted, Starting, Up, Ending, Failed []string
	// Since is when the first of Starting was wanted.
	Since time.Time
	// Failing is what keeps nodes from starting, and Retry when the first of Failed may be tried again.
	Failing []wire.Failure
	Retry   time.Time
	// Kept are records that should be others or none, by what they wait for; Refused is what slurmctld has
	// refused. Foreign are records with names of the set that are not the set's.
	Kept, Refused map[string]string
	Foreign       []string
}

// mark is the beginning of a record's Comment. It survives slurmctld's restarts and reconfigures, and says
// whose the record is and what it was made of.
const mark = "slurmlet set "

func (s Set) comment(timed bool) string {
	return mark + s.Name + ": " + s.conf + s.suspend(timed)
}

// setOf is the set in a record's Comment; empty for none.
func setOf(comment string) string {
	rest, is := strings.CutPrefix(comment, mark)
	name, _, more := strings.Cut(rest, ": ")
	if !is || !more {
		return ""
	}
	return name
}

// isOurs: slurmctld's agent has made the record. A line of slurm.conf's makes none with DYNAMIC_NORM.
func isOurs(n *slurm.Node) bool { return n.Is("CLOUD") && n.Is("DYNAMIC_NORM") }

// Tried notes that a step was made for a node, and what slurmctld has said against it.
func (k *Keeper) Tried(s *Step, node string, refused error, now time.Time) {
	if k.tries[node] == nil {
		k.tries[node] = tries{}
	}
	t := k.tries[node][s.Verb]
	if t == nil || t.key != s.key() {
		t = &try{key: s.key()}
		k.tries[node][s.Verb] = t
	}
	first := firstRetry
	if t.refused = ""; refused != nil {
		t.refused, first = refused.Error(), firstRefusal
	}
	if s.Verb == Create && errors.Is(refused, slurm.ErrUnreachable) {
		first = unanswered
	}
	t.until = now.Add(backoff.Grow(first, t.count, lastRetry))
	t.count++
}

// notBefore is until when a step is not made again. A record is not made twice, of whatever.
func (k *Keeper) notBefore(s *Step, node string) (until time.Time) {
	if t := k.tries[node][s.Verb]; t != nil && (t.key == s.key() || s.Verb == Create) {
		until = t.until
	}
	return until
}
