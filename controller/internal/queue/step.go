package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// Event is what a group hears.
type Event interface {
	apply(s *State, now time.Time) []Action
}

// The events.
type (
	// SpecIs says what the group asks for.
	SpecIs struct{ Spec Spec }
	// PodIs is a pod as Kubernetes has it, and PodGone one that Kubernetes has no more.
	PodIs   struct{ Pod Pod }
	PodGone struct{ UID string }
	// NotBound says that Kubernetes has refused a Bind, and has the pod gated still.
	NotBound struct{ UID string }
	// JobIs is slurmctld's word on a job. Holds are the nodes of which Held was said.
	JobIs struct {
		Job   wire.QueuedJob
		Holds []string
	}
	// Held says that a node holds for a job: its end waits there for its pods.
	Held struct {
		Job  uint32
		Node string
	}
	// AllTold says that a gateway has told of all jobs. These are the group's.
	AllTold struct{ Jobs []uint32 }
	// Result is what became of the order, and what the gateway has then told of the job.
	Result struct {
		Result wire.OrderResult
		Told   *wire.QueuedJob
	}
	// Asked says that the epilog of a job on one of its nodes asks for its pods: the run gets no more of them.
	Asked struct {
		Job  uint32
		Node string
	}
	// Hint says that something may have happened to a job.
	Hint struct{ Job uint32 }
	// OwnerIs says that the pods' owner has ended.
	OwnerIs struct{ End OwnerEnd }
	// Tick is the clock's.
	Tick struct{}
)

// Action is what is to be done.
type Action interface{ isAction() }

// The actions.
type (
	// Send has a gateway carry an order out. The answer is a Result.
	Send struct{ Order wire.Order }
	// Bind puts a pod on its node, and takes the gate away.
	Bind struct {
		UID, Name string
		Place
	}
	// Delete marks a pod as disrupted, and deletes it with its own grace period.
	Delete struct{ UID, Name, Message string }
	// Say makes an event of a pod.
	Say struct {
		UID, Name, Reason, Note string
		Warning                 bool
	}
	// Avoid has the next jobs of the pods' owner not ask for a node.
	Avoid struct{ Node string }
	// AskOwner finds out whether the pods' owner has ended. The answer is an OwnerIs, if it has.
	AskOwner struct{}
)

func (Send) isAction()     {}
func (Bind) isAction()     {}
func (Delete) isAction()   {}
func (Say) isAction()      {}
func (Avoid) isAction()    {}
func (AskOwner) isAction() {}

const (
	// calm is how long a group is not submitted after its first pod.
	calm = 500 * time.Millisecond
	// again is when a request to Kubernetes whose outcome nobody has seen is made anew, and anew when an order about a
	// job is.
	again, anew = 10 * time.Second, 30 * time.Second
	// doubtful is the pause after an answer that was lost.
	doubtful = 5 * time.Second
	// leaving is how long a job without pods is left alone, whose pods may still come.
	leaving = 30 * time.Second
	// Replacement is how long a job keeps the place of a gang's pod that has ended for the next one.
	Replacement = 10 * time.Minute
	// Binding is how long kube-scheduler may say that it cannot bind a pod, until the job's nodes are given back.
	Binding = time.Minute
	// Avoided is how long the next jobs of an owner do not ask for a node on which a pod of it could not run.
	Avoided = 10 * time.Minute
	// settled is the age of a bound pod from which a word that its job waits is believed, though the job counts no
	// restart: no older word is still on its way.
	settled = time.Minute
	// quiet is the least pause between two events about one group's waiting.
	quiet = time.Minute
	// remembered is how long a job that is past is known: an older word about it may still come.
	remembered = 2 * time.Minute
	// silent is how long nobody tells of a job until slurmctld is asked.
	silent = 10 * time.Minute
	// firstAsked and perOwner bound the pause between two questions about the pods' owner, and perHint is that between two looks
	// at a job.
	firstAsked, perOwner, perHint = time.Second, 15 * time.Second, time.Second
	// firstPause and lastPause bound the pauses after a refusal, or a job that ended before its pods did.
	firstPause, lastPause = time.Minute, 10 * time.Minute
)

// Step is what becomes of a group, what is to be done, and when the clock is to be asked again (zero: never).
func Step(before State, e Event, now time.Time) (s State, actions []Action, at time.Time) {
	s = before.clone()
	actions = e.apply(&s, now)
	t := &turn{State: &s, now: now, actions: actions}
	t.decide()
	return s, t.actions, t.at
}

func (e SpecIs) apply(s *State, _ time.Time) []Action {
	s.Spec = e.Spec
	return nil
}

func (e PodIs) apply(s *State, now time.Time) []Action {
	p := e.Pod
	if s.Since.IsZero() {
		s.Since = now
	}
	old := s.pod(p.UID)
	if old == nil {
		s.Owner = OwnerEnd{} // it makes pods
		if p.Job != 0 {
			p.bound = now
		}
		s.Pods = append(s.Pods, p)
		slices.SortFunc(s.Pods, func(a, b Pod) int { return cmp.Compare(a.UID, b.UID) })
		return nil
	}
	p.bound, p.bind, p.deleted, p.warned = old.bound, old.bind, old.deleted, old.warned
	if p.Job == 0 && p.Gated {
		p.Place = old.Place // the watch has not told yet
	} else if p.Job != 0 && (old.Job == 0 || old.Gated && !p.Gated) {
		p.bound = now
	}
	refuses := !old.Over && p.Over && p.Refused != "" && p.Job != 0
	*old = p
	if !refuses {
		return nil
	}
	note := fmt.Sprintf("The kubelet of the node %s does not run the pod: %s. The next jobs of the pod's owner do not ask for that node for %v.",
		p.Node, strings.TrimSuffix(p.Refused, "."), Avoided)
	return []Action{Avoid{p.Node}, Say{p.UID, p.Name, "NotRun", note, true}}
}

func (e PodGone) apply(s *State, _ time.Time) []Action {
	s.Pods = slices.DeleteFunc(s.Pods, func(p Pod) bool { return p.UID == e.UID })
	return nil
}

func (e NotBound) apply(s *State, _ time.Time) []Action {
	if p := s.pod(e.UID); p != nil && p.Gated {
		p.Place, p.bound = Place{}, time.Time{} // its next try has a pause, too
	}
	return nil
}

// A job is the group's if its user is the namespace's, or if a pod of the group was put there: a namespace may get
// another user.
func (e JobIs) apply(s *State, now time.Time) []Action {
	j := Job{QueuedJob: e.Job, told: now, holds: slices.Clone(e.Holds)}
	old := s.job(j.ID)
	named := slices.ContainsFunc(s.Pods, func(p Pod) bool { return p.Job == j.ID })
	if old == nil && !named && (j.User != s.User || j.Gone) {
		return nil
	}
	if old == nil {
		s.Jobs = append(s.Jobs, j)
		slices.SortFunc(s.Jobs, func(a, b Job) int { return cmp.Compare(a.ID, b.ID) })
		old = s.job(j.ID)
		if c := j.class(); c != Leaving && c != Past {
			return nil
		}
		return s.ended(old, true, now)
	}
	for _, node := range e.Holds {
		old.hold(node)
	}
	before := old.class()
	switch {
	case j.Gone:
		old.Gone, old.told = true, now
	case j.Restarts < old.Restarts || old.Gone || s.isOver(j.ID, j.run()) && (before == Past || before == Leaving) && j.class() != Past && j.class() != Leaving && j.class() != Waiting:
		return nil // an older word came later
	default:
		old.QueuedJob, old.told = j.QueuedJob, now
	}
	if c := old.class(); c == Leaving || c == Past {
		return s.ended(old, before != Leaving && before != Past, now)
	}
	return nil
}

// ended has a job's run be over. Where nobody of us ended it, the pods that wait do so for a while before the next job.
func (s *State) ended(j *Job, first bool, now time.Time) []Action {
	s.end(j.ID, j.run())
	if !first || j.ends > 0 || j.cancelled {
		return nil
	}
	s.pause(now)
	return s.say("Ended", fmt.Sprintf("Slurm job %d has ended: %s. The pod waits for another job, in %v.", j.ID, j.word(), s.Retry.Sub(now)), true)
}

func (e AllTold) apply(s *State, _ time.Time) []Action {
	s.Known = true
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.class() != Past && !slices.Contains(e.Jobs, j.ID) {
			j.look = true // the list may be older than the job
		}
	}
	return nil
}

func (e Asked) apply(s *State, _ time.Time) []Action {
	j := s.job(e.Job)
	if s.Order.Job == e.Job {
		s.stale = true
	}
	if j == nil {
		return nil
	}
	j.confirmed, j.look = false, true
	j.holds = slices.DeleteFunc(slices.Clone(j.holds), func(node string) bool { return node == e.Node })
	if c := j.class(); (c == Running || c == Starting || c == Unclear) && slices.Contains(j.Nodes, e.Node) {
		s.end(j.ID, j.run())
	}
	return nil
}

func (e Held) apply(s *State, _ time.Time) []Action {
	if j := s.job(e.Job); j != nil {
		j.hold(e.Node)
		j.look = j.look || j.class() != Running
	}
	return nil
}

// hold notes a node that holds.
func (j *Job) hold(node string) {
	if !slices.Contains(j.holds, node) && len(j.holds) < mostTasks {
		j.holds = append(slices.Clone(j.holds), node)
	}
}

func (e Hint) apply(s *State, _ time.Time) []Action {
	if j := s.job(e.Job); j != nil {
		j.look = true
	}
	return nil
}

func (e OwnerIs) apply(s *State, _ time.Time) []Action {
	s.Owner = e.End
	return nil
}

func (Tick) apply(*State, time.Time) []Action { return nil }

func (e Result) apply(s *State, now time.Time) []Action {
	r, o := e.Result, s.Order
	if r.Order != o.ID || o.Kind == "" {
		return nil
	}
	stale := s.stale
	s.Order, s.stale = wire.Order{}, false
	switch o.Kind {
	case wire.Submit:
		return s.submitted(r, now)
	case wire.Find:
		switch {
		case r.Job != 0:
			s.found(r.Job)
			s.Doubt = false
		case r.None:
			s.Doubt = false
		default:
			s.Retry = now.Add(doubtful)
		}
	case wire.Look, wire.Cancel, wire.Finish:
		if j := s.job(o.Job); j != nil && o.Kind == wire.Finish && r.Unknown == "" {
			j.finished++
		}
		if r.None {
			s.found(o.Job)
			return JobIs{Job: wire.QueuedJob{ID: o.Job, User: o.User, Gone: true}}.apply(s, now)
		}
		if j := s.job(o.Job); o.Kind == wire.Look && e.Told != nil && e.Told.State == "RUNNING" && !stale && j != nil {
			j.confirmed, j.confirmedRun = true, (&Job{QueuedJob: *e.Told}).run()
		}
	}
	return nil
}

// submitted takes the answer to a submission.
func (s *State) submitted(r wire.OrderResult, now time.Time) (actions []Action) {
	switch {
	case r.Job != 0:
		s.found(r.Job)
		s.Said = ""
		return s.say("Queued", fmt.Sprintf("The pod waits for Slurm job %d of the user %s.", r.Job, s.User), false)
	case r.Refused != "":
		s.pause(now)
		return s.say("Refused", fmt.Sprintf("The job is refused: %s. It is submitted again in %v.", r.Refused, s.Retry.Sub(now)), true)
	}
	s.Doubt, s.Retry = true, now.Add(doubtful)
	return nil
}

// found has a job of which only the number is known.
func (s *State) found(id uint32) {
	if s.job(id) == nil {
		s.Jobs = append(s.Jobs, Job{QueuedJob: wire.QueuedJob{ID: id, User: s.User, State: "PENDING"}})
		slices.SortFunc(s.Jobs, func(a, b Job) int { return cmp.Compare(a.ID, b.ID) })
	}
}

func (s *State) pause(now time.Time) {
	s.Retry = now.Add(min(firstPause<<min(s.Failures, 10), lastPause))
	s.Failures++
}

// say tells all pods that wait.
func (s *State) say(reason, note string, warning bool) (actions []Action) {
	for _, p := range s.Pods {
		if p.waits() {
			actions = append(actions, Say{p.UID, p.Name, reason, note, warning})
		}
	}
	return actions
}

// end has a run get no more pods.
func (s *State) end(job uint32, run Run) {
	if o := (over{job, run}); !slices.Contains(s.Over, o) {
		s.Over = append(s.Over, o)
	}
}

// isOver says whether a run gets no more pods. slurmctld may count a restart while the run before it ends, so one start
// is one run.
func (s *State) isOver(job uint32, run Run) bool {
	return slices.ContainsFunc(s.Over, func(o over) bool {
		return o.job == job && (o.run == run || o.run.Start != 0 && o.run.Start == run.Start || o.run.Restarts > run.Restarts)
	})
}

// chosen is the job that stands for the group: the one that has pods, else the oldest. nil if there is none.
func (s *State) chosen() *Job {
	var oldest *Job
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if c := j.class(); c == Past || c == Leaving {
			continue
		}
		if slices.ContainsFunc(s.Pods, func(p Pod) bool { return p.Job == j.ID && !p.Over }) {
			return j
		}
		if oldest == nil && !j.cancelled {
			oldest = j
		}
	}
	return oldest
}
