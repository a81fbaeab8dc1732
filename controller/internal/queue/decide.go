package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// turn is one step's decision.
type turn struct {
	*State
	now     time.Time
	actions []Action
	at      time.Time
}

func (t *turn) do(a Action) { t.actions = append(t.actions, a) }

// wake has the clock be asked at a time.
func (t *turn) wake(at time.Time) {
	if t.at.IsZero() || at.Before(t.at) {
		t.at = at
	}
}

// due says whether a pause since a time is over, and has the clock be asked when it is.
func (t *turn) due(since time.Time, pause time.Duration) bool {
	if at := since.Add(pause); t.now.Before(at) {
		t.wake(at)
		return false
	}
	return true
}

// decide does what is next.
func (t *turn) decide() {
	t.endPods()
	j := t.chosen()
	t.cancelOthers(j)
	if j != nil && !t.givesBack(j) && j.class() == Running && !t.isOver(j.ID, j.run()) {
		t.place(j)
	}
	t.look()
	if j == nil {
		t.submit()
	}
	if j != nil {
		t.wait(j)
		t.finish(j)
	}
	t.forget()
}

// order gives the one order that a group may have under way.
func (t *turn) order(o wire.Order) bool {
	if t.Order.Kind != "" {
		return false
	}
	t.orders++
	o.ID = t.UID + "/" + strconv.Itoa(t.orders) + "/" + strconv.FormatInt(t.now.UnixNano(), 36)
	t.Order = o
	t.do(Send{o})
	return true
}

// endPods deletes pods whose run has ended.
func (t *turn) endPods() {
	for i := range t.Pods {
		p := &t.Pods[i]
		j := t.job(p.Job)
		if p.Job == 0 || p.Over || p.Deleting || j == nil || !t.ended(p, j) {
			continue
		}
		if p.Gated { // a Bind is under way, or was refused: its outcome comes
			t.wake(t.now.Add(again))
			continue
		}
		if p.deleted.IsZero() || t.due(p.deleted, again) {
			p.deleted = t.now
			t.wake(t.now.Add(again))
			message := fmt.Sprintf("Slurm job %d has ended: %s", j.ID, j.word())
			if c := j.class(); c != Past && c != Leaving {
				message = fmt.Sprintf("Slurm has requeued job %d", j.ID)
			}
			t.do(Delete{p.UID, p.Name, message})
		}
	}
}

// ended says whether slurmctld has said that the run is over to which a pod belongs.
func (t *turn) ended(p *Pod, j *Job) bool {
	if j.Restarts < p.Run.Restarts && !j.Gone {
		return false // an older word
	}
	switch j.class() {
	case Leaving, Past:
		return true
	case Waiting:
		if j.Restarts > p.Run.Restarts {
			return true
		}
		return !j.told.IsZero() && j.told.Sub(p.bound) >= settled
	case Running, Starting, Unclear:
		return j.Restarts > p.Run.Restarts || j.class() == Running && !j.Start.IsZero() && p.Run.Start != 0 && j.Start.Unix() != p.Run.Start
	}
	return false
}

// cancelOthers ends the jobs that are too many.
func (t *turn) cancelOthers(chosen *Job) {
	for i := range t.Jobs {
		j := &t.Jobs[i]
		if c := j.class(); j == chosen || chosen == nil && !j.cancelled || c == Past || c == Leaving || t.needed(j.ID) {
			continue
		}
		if (j.tried.IsZero() || t.due(j.tried, anew)) && t.order(wire.Order{Kind: wire.Cancel, User: j.User, Job: j.ID}) {
			j.cancelled, j.tried = true, t.now
			t.wake(t.now.Add(anew))
		}
	}
}

// needed says whether a pod of the job is there that has not ended.
func (t *turn) needed(job uint32) bool {
	return slices.ContainsFunc(t.Pods, func(p Pod) bool { return p.Job == job && !p.Over })
}

// look asks for jobs of which nobody has told, and that have pods.
func (t *turn) look() {
	for _, p := range t.Pods {
		if !t.Known || p.Job == 0 || p.Over || t.job(p.Job) != nil {
			continue
		}
		if (t.looked.IsZero() || t.due(t.looked, anew)) && t.order(wire.Order{Kind: wire.Look, User: t.User, Job: p.Job}) {
			t.looked = t.now
			t.wake(t.now.Add(anew))
		}
	}
	for i := range t.Jobs {
		j := &t.Jobs[i]
		pause := perHint
		if j.told.IsZero() {
			pause = anew
		} else if !j.look && (j.class() == Past || !t.due(j.told, silent)) {
			continue
		}
		if j.class() != Past && (j.tried.IsZero() || t.due(j.tried, pause)) && t.order(wire.Order{Kind: wire.Look, User: j.User, Job: j.ID}) {
			j.tried, j.look = t.now, false
			t.wake(t.now.Add(anew))
		}
	}
}

// submit has a job stand for the pods that wait.
func (t *turn) submit() {
	waits := slices.ContainsFunc(t.Pods, func(p Pod) bool { return p.waits() })
	switch {
	case !waits || t.unfound():
		return
	case t.Fault != "":
		t.tell("NotSubmitted", t.Fault, true)
		return
	case !t.Known:
		if t.due(t.Since, anew) {
			t.tell("NoGateway", "No gateway of the cluster has told of Slurm's jobs yet: a login pod with login.gateway.enabled is one.", true)
		}
		return
	case !t.due(t.Since, calm) || !t.due(t.Retry, 0):
		return
	}
	comment := wire.GroupComment + t.UID + " "
	if t.Doubt {
		t.order(wire.Order{Kind: wire.Find, User: t.User, Comment: comment})
		return
	}
	t.order(wire.Order{Kind: wire.Submit, User: t.User, Args: t.Args, Script: wire.HoldScript, Comment: comment})
}

// unfound says that a pod has a job of which nobody has told.
func (t *turn) unfound() bool {
	return slices.ContainsFunc(t.Pods, func(p Pod) bool { return p.Job != 0 && !p.Over && t.job(p.Job) == nil })
}

// tell makes an event about waiting, where it says something new.
func (t *turn) tell(reason, note string, warning bool) {
	if t.Said == note || !t.SaidAt.IsZero() && !t.due(t.SaidAt, quiet) {
		return
	}
	t.Said, t.SaidAt = note, t.now
	t.actions = append(t.actions, t.say(reason, note, warning)...)
}

// wait tells why the job waits.
func (t *turn) wait(j *Job) {
	if j.class() == Waiting && !j.told.IsZero() && j.Reason != "" && j.Reason != "None" {
		t.tell("Waiting", fmt.Sprintf("Slurm job %d waits: %s.", j.ID, j.Reason), false)
	}
}

// place gives each pod that waits a task of the job's run.
func (t *turn) place(j *Job) {
	if !j.confirmed || j.confirmedRun != j.run() {
		if slices.ContainsFunc(t.Pods, func(p Pod) bool { return p.waits() }) {
			j.look = true
		}
		return
	}
	if j.Reason == "Prolog" || slices.ContainsFunc(j.Nodes, func(node string) bool { return !slices.Contains(j.holds, node) }) {
		return // its agent says so, and again
	}
	nodes := Tasks(j.QueuedJob)
	taken := make([]bool, len(nodes))
	var waiting []*Pod
	for i := range t.Pods {
		p := &t.Pods[i]
		if p.Job == j.ID && !p.Over && p.Rank < len(taken) {
			taken[p.Rank] = true // one of an earlier run, too: it is not gone
		}
		switch {
		case p.waits() && (p.bind.IsZero() || t.due(p.bind, again)):
			waiting = append(waiting, p)
		case p.Gated && p.Job == j.ID && p.Run == j.run() && !p.Deleting && !p.Over && (p.bind.IsZero() || t.due(p.bind, again)):
			t.bind(p)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *Pod) int {
		return cmp.Or(cmp.Compare(a.Slot, b.Slot), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	for _, p := range waiting {
		rank := p.Slot
		if rank < 0 || rank >= len(taken) || taken[rank] {
			rank = slices.Index(taken, false)
		}
		if rank < 0 {
			t.tell("NoTask", fmt.Sprintf("All %d tasks of Slurm job %d have pods.", len(nodes), j.ID), true)
			return
		}
		taken[rank] = true
		p.Place, p.bound = Place{Job: j.ID, Run: j.run(), Node: nodes[rank], Rank: rank}, t.now
		t.bind(p)
	}
}

func (t *turn) bind(p *Pod) {
	p.bind = t.now
	t.wake(t.now.Add(again))
	t.do(Bind{p.UID, p.Name, p.Place})
}

// givesBack says whether a job goes of which kube-scheduler says that it cannot bind a pod, and ends it: it gets no more pods, and
// the next one asks for other nodes. Where pods of the job run, and the pod has come after the job's start, they would be lost, and
// the job stays. Silence ends no job either.
func (t *turn) givesBack(j *Job) bool {
	if !j.returned.IsZero() {
		t.cancelReturned(j)
		return true
	}
	for i := range t.Pods {
		p := &t.Pods[i]
		if p.Job != j.ID || p.Run != j.run() || p.Over || p.Deleting || p.Unscheduled == "" || !t.due(p.bound, Binding) {
			continue
		}
		note := fmt.Sprintf("kube-scheduler has not bound the pod to its node %s within %v: %s.", p.Node, Binding, strings.TrimSuffix(p.Unscheduled, "."))
		if t.isLate(p, j) {
			if !p.warned {
				p.warned = true
				t.do(Say{p.UID, p.Name, "NotBound", fmt.Sprintf("%s Other pods of Slurm job %d run, and it stays.", note, j.ID), true})
			}
			continue
		}
		if t.cancelReturned(j) {
			t.do(Avoid{p.Node})
			t.do(Say{p.UID, p.Name, "NotBound", fmt.Sprintf("%s Slurm job %d gives its nodes back.", note, j.ID), true})
		}
		return true
	}
	return false
}

func (t *turn) cancelReturned(j *Job) bool {
	if !j.returned.IsZero() && !t.due(j.returned, anew) || !t.order(wire.Order{Kind: wire.Cancel, User: j.User, Job: j.ID}) {
		return false
	}
	j.returned = t.now
	t.wake(t.now.Add(anew))
	return true
}

// isLate says that a pod has come after its job's start, to other pods that run.
func (t *turn) isLate(p *Pod, j *Job) bool {
	return p.Created.After(j.Start) && slices.ContainsFunc(t.Pods, func(o Pod) bool { return o.Job == j.ID && o.Scheduled && !o.Over })
}

// mostTasks bounds the tasks of a job.
const mostTasks = 65_536

// Tasks are the nodes of a job's tasks, in Slurm's order.
func Tasks(j wire.QueuedJob) (nodes []string) {
	for i, node := range j.Nodes {
		n := 1
		if i < len(j.Tasks) {
			n = j.Tasks[i]
		}
		for range min(max(n, 0), mostTasks-len(nodes)) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// finish ends a job that no pod needs.
func (t *turn) finish(j *Job) {
	if t.needed(j.ID) || slices.ContainsFunc(t.Pods, func(p Pod) bool { return p.waits() }) {
		t.Empty = time.Time{}
		return
	}
	if t.Empty.IsZero() {
		t.Empty = t.now
	}
	var ran []Pod
	for _, p := range t.Pods {
		if p.Job == j.ID && p.Run == j.run() {
			ran = append(ran, p)
		}
	}
	o := wire.Order{Kind: wire.Cancel, User: j.User, Job: j.ID}
	pause := time.Duration(0)
	if c := j.class(); c != Waiting && len(ran) > 0 {
		var whole bool
		o.Kind = wire.Finish
		o.Status, whole = t.status(ran)
		switch {
		case whole && alone(ran) && len(ran) < t.Size:
			pause = leaving // others of the group may come
		case whole:
		case slices.ContainsFunc(ran, func(p Pod) bool { return p.Refused != "" }): // the next pods are to have other nodes
		default:
			pause = Replacement
			t.askOwner()
		}
	} else if t.Gang && !t.Owner.Done {
		if pause = leaving; c != Waiting {
			pause = Replacement
		}
		t.askOwner()
	} else if len(t.Pods) == 0 && t.Since.IsZero() {
		pause = leaving
	}
	if !t.due(t.Empty, pause) || !j.tried.IsZero() && j.ends > 0 && !t.due(j.tried, anew) {
		return
	}
	if j.finished >= 2 {
		o.Kind, o.Status = wire.Cancel, 0
	}
	if t.order(o) {
		t.end(j.ID, j.run())
		j.tried, j.ends, t.Failures = t.now, j.ends+1, 0
		t.wake(t.now.Add(anew))
	}
}

// askOwner finds out now and then whether the pods' owner has ended: often at first, because its controller says so soon.
func (t *turn) askOwner() {
	pause := func() time.Duration { return min(max(t.asked.Sub(t.Empty), firstAsked), perOwner) }
	if t.asked.Before(t.Empty) || t.due(t.asked, pause()) {
		t.asked = t.now
		t.wake(t.now.Add(pause()))
		t.do(AskOwner{})
	}
}

// status is the exit status of a run whose pods have ended, and whether no pod will follow.
func (t *turn) status(ran []Pod) (status int, whole bool) {
	succeeded := 0
	for _, p := range ran {
		if status = max(status, p.Status); p.Status == 0 {
			succeeded++
		}
	}
	switch {
	case t.Owner.Done:
		return t.Owner.Status, true
	case !t.Gang || alone(ran):
		return status, true
	case t.Whole > 0 && succeeded >= t.Whole:
		return 0, true
	}
	return max(status, 1), false
}

// alone says that nobody replaces any of these pods.
func alone(pods []Pod) bool {
	return !slices.ContainsFunc(pods, func(p Pod) bool { return !p.Alone })
}

// forget drops jobs that are past and that no pod names.
func (t *turn) forget() {
	t.Jobs = slices.DeleteFunc(t.Jobs, func(j Job) bool {
		return j.class() == Past && t.now.Sub(j.told) >= remembered && !slices.ContainsFunc(t.Pods, func(p Pod) bool { return p.Job == j.ID })
	})
	t.Over = slices.DeleteFunc(t.Over, func(o over) bool { return t.job(o.job) == nil })
}
