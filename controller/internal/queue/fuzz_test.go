package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// world is what the fuzzer plays with a group: Kubernetes, Slurm and a gateway, each in its own time.
type world struct {
	*testing.T
	story []string
	now   time.Time
	s     State
	at    time.Time
	gang  bool
	// alone says that nobody replaces the pods.
	alone bool
	// pods are Kubernetes', and watch what the watch has still to tell.
	pods  []*kubePod
	watch []Event
	// patches are requests to Kubernetes that are under way.
	patches []Action
	// orders are those that the gateways have, and answers what each of two has still to tell, in its order.
	orders  []wire.Order
	answers [2][]answer
	jobs    []*slurmJob
	// forgotten are runs that slurmctld knows no more, and whose nodes are not free yet.
	forgotten []*slurmJob
	// runs are all that there were: the nodes that each has let go.
	runs  map[runOf]map[string]bool
	ended map[runOf]bool
	// nodes are those of each run, in Slurm's order.
	nodes map[runOf][]string
	// held are the jobs for which nodes hold.
	held map[string]uint32
	// returned are the jobs that were ended because kube-scheduler did not bind a pod.
	returned map[uint32]bool
	settles  bool
	count    int
}

type runOf struct {
	job uint32
	run Run
}

// answer is a word on its way to the leader.
type answer struct {
	Event
	at time.Time
}

// longestWay is how long a word may be on its way.
const longestWay = settled - 10*time.Second

type kubePod struct {
	Pod
	gone bool
}

type slurmJob struct {
	wire.QueuedJob
	// requeue says that it waits again once its nodes are free; end is its state then if not.
	requeue bool
	end     string
	held    []string
	purged  bool
	ending  bool
	// was is the run that ends.
	was runOf
	// stays says that the job waits while pods of a run are there that has ended.
	stays bool
}

func (j *slurmJob) of() runOf { return runOf{j.ID, (&Job{QueuedJob: j.QueuedJob}).run()} }

const owner = "alice"

var machineNames = []string{"n0", "n1", "n2", "n3", "n4", "n5", "n6"}

func newWorld(t *testing.T, gang, alone bool) *world {
	w := &world{T: t, gang: gang, alone: alone, now: time.Unix(1_800_000_000, 0), runs: map[runOf]map[string]bool{}, ended: map[runOf]bool{}, held: map[string]uint32{}, returned: map[uint32]bool{}, nodes: map[runOf][]string{}}
	w.begin(false)
	return w
}

func (w *world) note(format string, args ...any) {
	w.story = append(w.story, w.now.Format("04:05.0 ")+fmt.Sprintf(format, args...))
}

// begin is a new leader's: it reads the pods of the API, and knows no job.
func (w *world) begin(doubt bool) {
	w.s, w.watch, w.answers = State{Doubt: doubt}, nil, [2][]answer{}
	w.step(SpecIs{Spec{UID: "g", Name: "ns/g", User: owner, Size: w.size(), Whole: 2 * w.size(), Gang: w.gang}})
	for _, p := range w.pods {
		if !p.gone {
			w.step(PodIs{p.Pod})
		}
	}
}

func (w *world) step(e Event) {
	var actions []Action
	w.s, actions, w.at = Step(w.s, e, w.now)
	w.note("%T %+v → %s", e, e, w.s.Phase())
	for _, a := range actions {
		if _, is := a.(Say); !is {
			w.note("      %T %+v", a, a)
		}
		w.check(a)
		switch a := a.(type) {
		case Send:
			require.Equal(w, a.Order.ID, w.s.Order.ID)
			w.orders = append(w.orders, a.Order)
		case Bind:
			if !slices.ContainsFunc(w.patches, func(p Action) bool { b, is := p.(Bind); return is && b.UID == a.UID }) {
				w.patches = append(w.patches, a)
			}
		case Delete:
			w.patches = append(w.patches, a)
		case AskOwner:
			if w.settles && !slices.ContainsFunc(w.pods, func(p *kubePod) bool { return !p.gone && !p.Over }) {
				w.says(0, OwnerIs{OwnerEnd{true, 0}})
			}
		}
	}
}

// check holds an action to the invariants.
func (w *world) check(a Action) {
	switch a := a.(type) {
	case Bind:
		of := runOf{a.Job, a.Run}
		require.NotNil(w, w.runs[of], "a pod is placed on a run that never was")
		require.Equal(w, owner, w.job(a.Job).User, "a job of another user")
		require.Equal(w, w.held[a.Node], a.Job, "the node does not hold")
		_, on := w.runs[of][a.Node]
		require.True(w, on, "the run has not that node")
		require.Zero(w, w.s.job(a.Job).returned, "the job is given back")
		require.Equal(w, w.nodes[of][a.Rank], a.Node, "the task is on another node")
		for _, p := range w.pods {
			require.False(w, p.UID != a.UID && p.Job == a.Job && p.Rank == a.Rank && !p.gone && !p.Over, "pod %s has the task of %s", p.UID, a.UID)
		}
		for _, other := range w.patches {
			b, is := other.(Bind)
			require.False(w, is && b.UID != a.UID && b.Job == a.Job && b.Run == a.Run && b.Rank == a.Rank && !w.pod(b.UID).gone, "pod %s is to have the task of %s", b.UID, a.UID)
		}
	case Delete:
		p := w.pod(a.UID)
		require.False(w, p.Gated, "a pod that waits is deleted")
		require.True(w, w.ended[runOf{p.Job, p.Run}], "a pod is deleted, and its run has not ended")
	case Avoid:
		require.True(w, slices.ContainsFunc(w.s.Pods, func(p Pod) bool {
			return p.Node == a.Node && (p.Refused != "" || p.Unscheduled != "")
		}), "a node is avoided on which all pods run")
	case Send:
		o := a.Order
		if o.Kind != wire.Cancel && o.Kind != wire.Finish {
			break
		}
		if w.returned[o.Job] = w.returned[o.Job] || o.Kind == wire.Cancel && slices.ContainsFunc(w.s.Pods, func(p Pod) bool { return w.mayReturn(&p, o.Job) }); w.returned[o.Job] {
			break
		}
		for _, p := range w.pods {
			require.False(w, p.Job == o.Job && !p.gone && !p.Over && !w.ended[runOf{p.Job, p.Run}], "%s of a job with a living pod", o.Kind)
		}
		if slices.ContainsFunc(w.s.Pods, func(p Pod) bool { return p.waits() }) {
			other := slices.ContainsFunc(w.s.Jobs, func(j Job) bool { return j.ID != o.Job && j.class() != Past && j.class() != Leaving })
			require.True(w, other, "%s of the one job of pods that wait", o.Kind)
		}
	}
}

// mayReturn says that a pod has waited for kube-scheduler for so long that its job may be given back.
func (w *world) mayReturn(p *Pod, job uint32) bool {
	j := w.s.job(job)
	if p.Job != job || p.Run != j.run() || p.Scheduled || p.Unscheduled == "" || w.now.Sub(p.bound) < Binding {
		return false
	}
	return !p.Created.After(j.Start) || !slices.ContainsFunc(w.s.Pods, func(o Pod) bool { return o.Job == job && o.Scheduled && !o.Over })
}

func (w *world) pod(uid string) *kubePod {
	i := slices.IndexFunc(w.pods, func(p *kubePod) bool { return p.UID == uid })
	return w.pods[i]
}

func (w *world) job(id uint32) *slurmJob {
	i := slices.IndexFunc(w.jobs, func(j *slurmJob) bool { return j.ID == id })
	if i < 0 {
		return nil
	}
	return w.jobs[i]
}

// some is one of those that fit; nil if none does.
func some[T any](of []*T, n int, fits func(*T) bool) *T {
	fitting := slices.DeleteFunc(slices.Clone(of), func(one *T) bool { return !fits(one) })
	if len(fitting) == 0 {
		return nil
	}
	return fitting[n%len(fitting)]
}

func (w *world) changed(p *kubePod) {
	if p.gone {
		w.watch = append(w.watch, PodGone{p.UID})
	} else {
		w.watch = append(w.watch, PodIs{p.Pod})
	}
}

// moves are what happens, by a number.
var moves = []func(w *world, n int){
	func(w *world, _ int) { // a pod is made
		living := 0
		for _, p := range w.pods {
			if !p.gone && !p.Over {
				living++
			}
		}
		if w.gang && living >= 3 || !w.gang && len(w.pods) > 0 || w.settles {
			return
		}
		w.count++
		p := &kubePod{Pod: Pod{UID: fmt.Sprint("p", w.count), Name: fmt.Sprint("ns/p", w.count), Created: w.now, Gated: true, Alone: w.alone, Slot: -1}}
		w.pods = append(w.pods, p)
		w.note("pod %s is made", p.UID)
		w.changed(p)
	},
	func(w *world, _ int) { // the watch tells
		if len(w.watch) > 0 {
			e := w.watch[0]
			w.watch = w.watch[1:]
			w.step(e)
		}
	},
	func(w *world, n int) { w.gateway(n) }, func(w *world, n int) { // a gateway tells
		from := n % 2
		if len(w.answers[from]) == 0 {
			from = 1 - from
		}
		w.hear(from)
	},
	func(w *world, n int) {
		w.grant(n)
		w.hold(n)
	},
	func(w *world, n int) { // Slurm ends a job
		if j := some(w.jobs, n, func(j *slurmJob) bool { return j.live() }); j != nil {
			j.over([]string{"CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED"}[n%4], false, w)
		}
	},
	func(w *world, n int) {
		if j := some(w.jobs, n, func(j *slurmJob) bool { return j.State == "RUNNING" }); j != nil && w.gang {
			j.over("", true, w)
		}
	},
	func(w *world, n int) { w.epilog(n) },
	func(w *world, n int) { w.kube(n) },
	func(w *world, n int) { // a pod ends, but not by itself for ever
		if p := some(w.pods, n, func(p *kubePod) bool {
			return !p.gone && !p.Over && p.Scheduled && (!w.settles || !w.ended[runOf{p.Job, p.Run}])
		}); p != nil {
			p.Over, p.Status = true, n%3
			if p.Status > 0 && n > 3 {
				p.Refused = "OutOfcpu"
			}
			w.note("pod %s ends with %d %s", p.UID, p.Status, p.Refused)
			w.changed(p)
		}
	},
	func(w *world, n int) { // the kubelet ends a pod
		if p := some(w.pods, n, func(p *kubePod) bool { return !p.gone && p.Deleting }); p != nil {
			p.gone = true
			w.note("pod %s is gone", p.UID)
			w.changed(p)
		}
	},
	func(w *world, n int) { // somebody deletes a pod
		if p := some(w.pods, n, func(p *kubePod) bool { return !p.gone && !p.Deleting }); p != nil {
			p.Deleting, p.gone = true, p.Gated
			w.note("somebody deletes pod %s", p.UID)
			w.changed(p)
		}
	},
	func(w *world, n int) {
		w.pass([]time.Duration{500 * time.Millisecond, 5 * time.Second, 31 * time.Second, 11 * time.Minute}[n%4])
	},
	func(w *world, n int) { // another leader
		for range len(w.patches) { // the last requests are over
			w.kube(n)
		}
		w.patches = nil
		w.note("another leader")
		w.begin(true)
	},
	func(w *world, n int) { // slurmctld forgets a job
		if j := some(w.jobs, n, func(j *slurmJob) bool { return !j.live() && !j.ending }); j != nil && n%2 == 0 {
			j.purged = true
		} else if n%3 == 0 && len(w.jobs) > 0 {
			w.step(Hint{w.jobs[n%len(w.jobs)].ID})
		}
	},
	func(w *world, n int) {
		if n == 7 && !w.settles && len(w.jobs) < 20 {
			w.jobs = append(w.jobs, &slurmJob{QueuedJob: wire.QueuedJob{ID: uint32(len(w.jobs) + 1), User: "mallory", Comment: wire.GroupComment + "g x", State: "PENDING"}})
			return
		}
		w.report(n)
	},
	func(w *world, n int) { // kube-scheduler binds a pod, or says why not
		if p := some(w.pods, n, func(p *kubePod) bool {
			return !p.gone && !p.Over && !p.Gated && !p.Scheduled && (!w.settles || !w.returned[p.Job])
		}); p != nil {
			p.Scheduled, p.Unscheduled = n%4 != 1 || w.settles, ""
			if !p.Scheduled {
				p.Unscheduled = "no port"
			}
			w.note("pod %s is bound: %v", p.UID, p.Scheduled)
			w.changed(p)
		}
	},
	func(w *world, n int) { // slurmctld loses its last seconds
		if j := some(w.jobs, n, func(j *slurmJob) bool { return j.State == "RUNNING" }); j != nil {
			j.was = j.of()
			w.ended[j.was] = true
			old := *j
			old.ending = true
			w.forgotten = append(w.forgotten, &old)
			j.State, j.Nodes, j.Start, j.held, j.stays = "PENDING", nil, time.Time{}, nil, n%2 == 1
			w.note("slurmctld knows no more that job %d ran", j.ID)
		}
	},
}

// frequent are the moves as often as a story should have them.
var frequent = [32]int{0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 5, 6, 7, 7, 8, 8, 9, 10, 11, 12, 12, 13, 14, 15, 16, 17}

func (j *slurmJob) live() bool {
	return slices.Contains([]string{"PENDING", "CONFIGURING", "RUNNING"}, j.State)
}

// over has Slurm end a run.
func (j *slurmJob) over(end string, requeue bool, w *world) {
	if j.State == "PENDING" {
		j.State = end
		return
	}
	j.was = j.of()
	w.ended[j.was] = true
	j.end, j.requeue, j.State, j.ending = end, requeue, "COMPLETING", true
	w.note("Slurm ends job %d: %s, requeue %v", j.ID, end, requeue)
}

// grant has a job begin.
func (w *world) grant(n int) {
	free := slices.DeleteFunc(slices.Clone(machineNames), func(name string) bool {
		return slices.ContainsFunc(w.allJobs(), func(j *slurmJob) bool { return slices.Contains(j.held, name) })
	})
	j := some(w.jobs, n, func(j *slurmJob) bool { return j.State == "PENDING" && !j.ending && !j.stays })
	if j == nil || len(free) < w.s.Size {
		return
	}
	j.Nodes, j.Start, j.State = free[:w.s.Size], w.now, "RUNNING"
	j.held = slices.Clone(j.Nodes)
	w.runs[j.of()], w.nodes[j.of()] = map[string]bool{}, j.Nodes
	for _, name := range j.Nodes {
		w.runs[j.of()][name] = false
	}
	w.note("Slurm starts job %d on %v, restarts %d", j.ID, j.Nodes, j.Restarts)
	w.now = w.now.Add(time.Second) // no second run begins in the same second
}

// hold has nodes say that they hold.
func (w *world) hold(n int) {
	for _, j := range w.jobs {
		for i, node := range j.held {
			if !j.ending && (n+i)%3 != 1 {
				w.held[node] = j.ID
				w.step(Held{j.ID, node})
			}
		}
	}
}

// allJobs are those of slurmctld, and what it has forgotten.
func (w *world) allJobs() []*slurmJob { return slices.Concat(w.jobs, w.forgotten) }

// epilog has one of a job's ask for its pods.
func (w *world) epilog(n int) {
	j := some(w.allJobs(), n, func(j *slurmJob) bool { return j.ending && len(j.held) > 0 })
	if j == nil {
		return
	}
	name := j.held[n%len(j.held)]
	w.step(Asked{j.ID, name})
	if pods := w.s.OnNode(j.ID, name); len(pods) > 0 {
		return
	}
	for _, p := range w.pods {
		require.False(w, p.Job == j.ID && p.Node == name && !p.gone && !p.Over, "node %s goes on, and pod %s is there", name, p.UID)
	}
	w.runs[j.was][name] = true
	delete(w.held, name)
	w.note("the epilog of job %d ends on %s", j.ID, name)
	j.held = slices.DeleteFunc(j.held, func(one string) bool { return one == name })
	if len(j.held) > 0 {
		return
	}
	j.ending = false
	if j.requeue {
		j.State, j.Nodes, j.Start = "PENDING", nil, time.Time{}
		j.Restarts++
	} else {
		j.State = j.end
	}
}

// kube has Kubernetes take a request, or refuse it, or take it and not answer for a while.
func (w *world) kube(n int) {
	if len(w.patches) == 0 {
		return
	}
	a := w.patches[0]
	w.patches = w.patches[1:]
	switch a := a.(type) {
	case Delete:
		if p := w.pod(a.UID); !p.gone && !p.Deleting && (n%4 != 1 || w.settles) {
			p.Deleting = true
			w.changed(p)
		}
	case Bind:
		p := w.pod(a.UID)
		if p.gone || !p.Gated || n%4 == 1 && !w.settles {
			w.note("Kubernetes refuses to bind %s", a.UID)
			if p.gone {
				w.step(PodGone{a.UID})
			} else {
				w.step(PodIs{p.Pod})
				w.step(NotBound{a.UID})
			}
			return
		}
		require.False(w, w.runs[runOf{a.Job, a.Run}][a.Node], "pod %s comes to node %s after its job's epilog", a.UID, a.Node)
		p.Gated, p.Place = false, a.Place
		if w.settles {
			p.Scheduled = true
		}
		w.note("pod %s is on %s", a.UID, a.Node)
		w.changed(p)
		jobs := map[uint32]bool{}
		for _, p := range w.pods {
			if p.Job != 0 && !p.gone && !p.Over && !w.ended[runOf{p.Job, p.Run}] {
				jobs[p.Job] = true
			}
		}
		require.LessOrEqual(w, len(jobs), 1, "two jobs are granted")
	}
}

// says has a gateway's word be on its way.
func (w *world) says(from int, e Event) {
	w.answers[from] = append(w.answers[from], answer{e, w.now})
}

// hear has a gateway's next word arrive.
func (w *world) hear(from int) {
	if all := w.answers[from]; len(all) > 0 {
		w.answers[from] = all[1:]
		w.step(all[0].Event)
	}
}

// arrive has all words arrive that are on their way for too long at a time.
func (w *world) arrive(at time.Time) {
	for from := range w.answers {
		for len(w.answers[from]) > 0 && at.Sub(w.answers[from][0].at) > longestWay {
			w.hear(from)
		}
	}
}

// tell is slurmctld's word on a job, as it is now.
func (w *world) tell(from int, j *slurmJob) {
	if !j.purged {
		w.says(from, JobIs{Job: j.QueuedJob})
	}
}

// report has a gateway tell of all jobs.
func (w *world) report(n int) {
	var all []uint32
	for _, j := range w.jobs {
		w.tell(n%2, j)
		if !j.purged {
			all = append(all, j.ID)
		}
	}
	w.says(n%2, AllTold{all})
}

// gateway carries an order out, and answers, or its answer is lost.
func (w *world) gateway(n int) {
	if len(w.orders) == 0 {
		return
	}
	i := n % 3 % len(w.orders) // there are several gateways
	o := w.orders[i]
	w.orders = slices.Delete(w.orders, i, i+1)
	from := n / 2 % 2
	r := wire.OrderResult{Order: o.ID}
	lost := n%4 == 1 && !w.settles
	if n%8 == 5 && !w.settles {
		r.Unknown = "slurmctld does not answer"
		w.says(from, Result{r, nil})
		return
	}
	var told *wire.QueuedJob
	switch j := w.job(o.Job); o.Kind {
	case wire.Submit:
		if n%8 == 6 && !w.settles {
			r.Refused = "Invalid account"
			break
		}
		require.Equal(w, owner, o.User)
		j = &slurmJob{QueuedJob: wire.QueuedJob{ID: uint32(len(w.jobs) + 1), User: o.User, Comment: o.Comment, State: "PENDING", Reason: "Priority"}}
		w.jobs = append(w.jobs, j)
		r.Job = j.ID
		w.note("job %d is submitted, answer lost %v", j.ID, lost)
	case wire.Find:
		i := slices.IndexFunc(w.jobs, func(j *slurmJob) bool { return j.User == o.User && !j.purged && j.live() })
		if i < 0 {
			r.None = true
			break
		}
		r.Job = w.jobs[i].ID
		w.tell(from, w.jobs[i])
	default:
		if j == nil || j.purged {
			r.None = true
			break
		}
		r.Job = j.ID
		if o.Kind != wire.Look && j.live() {
			for _, p := range w.pods {
				require.False(w, p.Job == j.ID && !p.gone && !p.Over && !w.ended[runOf{p.Job, p.Run}] && !w.returned[j.ID], "%s of job %d with pod %s", o.Kind, j.ID, p.UID)
			}
			j.over(map[wire.OrderKind]string{wire.Cancel: "CANCELLED", wire.Finish: "COMPLETED"}[o.Kind], false, w)
		}
		w.tell(from, j)
		now := j.QueuedJob
		told = &now
	}
	if lost {
		told = nil
		r = wire.OrderResult{Order: o.ID, Unknown: "the gateway is gone"}
	}
	w.says(from, Result{r, told})
}

// pass has time go on.
func (w *world) pass(by time.Duration) {
	end := w.now.Add(by)
	w.arrive(end)
	for range 1000 {
		if w.at.IsZero() || w.at.After(end) {
			break
		}
		w.now = w.at
		w.at = time.Time{}
		w.step(Tick{})
		require.True(w, w.at.IsZero() || w.at.After(w.now), "the clock is asked for a time that is past: %v", w.at)
	}
	w.now = end
}

// settle has everything work, until nothing is left to do.
func (w *world) settle() {
	w.note("everything works from here")
	w.settles = true
	for _, j := range w.jobs {
		if j.User != owner {
			j.State, j.held, j.ending = "CANCELLED", nil, false // and nobody asks for its pods
		}
	}
	for round := range 150 {
		for n := 0; w.underWay() > 0; n++ { // 1,200 moves of one kind leave more than 2,000 messages under way
			require.Less(w, n, 40_000, "it never rests")
			for _, m := range []int{1, 2, 3, 8} {
				moves[m](w, 0)
			}
		}
		for _, m := range []int{4, 7, 7, 7, 10, 16} {
			moves[m](w, round)
		}
		if round%2 == 1 {
			moves[9](w, 0)
		}
		over := func(p *kubePod) bool { return p.Job != 0 && !p.gone && !p.Over && w.ended[runOf{p.Job, p.Run}] }
		for _, j := range w.jobs {
			j.stays = j.stays && slices.ContainsFunc(w.pods, over)
		}
		if round%3 == 0 {
			w.report(round)
		}
		w.pass(20 * time.Second)
		if w.idle() {
			return
		}
	}
	w.Fatalf("it does not end: %+v", w.s)
}

// begun is how far pods have come before what happens by numbers.
type begun byte

// Pods run; kube-scheduler has not bound them for as long as it may take; or that is so of one that has come later.
const (
	bound begun = iota
	unbound
	late
	none
)

// run has pods come to their nodes. A gateway's word about a job that waits stays on its way.
func (w *world) run(how begun) {
	pods := w.size()
	if how == late {
		pods = max(pods-1, 1)
	}
	w.place(pods)
	w.binds(how != unbound)
	if how == late {
		w.pass(5 * time.Second)
		w.place(w.size() - pods)
		w.binds(false)
	}
	if how != bound {
		for len(w.watch) > 0 {
			moves[1](w, 0)
		}
		w.pass(Binding + time.Second)
	}
	w.note("by numbers from here")
}

// place makes pods, and has them come to the nodes of a job.
func (w *world) place(pods int) {
	for range pods {
		moves[0](w, 0)
	}
	w.report(0)
	for round := 0; round < 50 && slices.ContainsFunc(w.pods, func(p *kubePod) bool { return p.Gated }); round++ {
		for w.underWay() > len(w.answers[1]) {
			for _, m := range []int{1, 2, 8} {
				moves[m](w, 0)
			}
			w.hear(0)
		}
		if round == 2 {
			w.report(1)
		}
		if round > 2 {
			w.grant(0)
			w.hold(0)
			w.hold(2)
		}
		w.pass(time.Second)
	}
}

// binds has kube-scheduler bind all pods, or say why not.
func (w *world) binds(is bool) {
	for _, p := range w.pods {
		if !p.Gated && !p.gone && !p.Scheduled {
			if p.Scheduled = is; !is {
				p.Unscheduled = "no port"
			}
			w.changed(p)
		}
	}
}

func (w *world) size() int {
	if w.gang {
		return 3
	}
	return 1
}

func (w *world) idle() bool {
	for _, p := range w.pods {
		if !p.gone && !p.Over {
			return false
		}
	}
	for _, j := range w.jobs {
		if j.User == owner && (j.live() || j.ending) {
			return false
		}
	}
	for _, j := range w.forgotten {
		if len(j.held) > 0 {
			return false
		}
	}
	return w.underWay() == 0
}

// underWay is how much nobody has heard of yet.
func (w *world) underWay() int {
	return len(w.watch) + len(w.orders) + len(w.answers[0]) + len(w.answers[1]) + len(w.patches)
}

// play is one story. One that fails is told.
func play(t *testing.T, gang bool, script []byte) {
	w := newWorld(t, gang, len(script) > 0 && script[0]&4 != 0)
	ended := false
	defer func() {
		if !ended {
			t.Logf("the story (gang %v, %x):\n%s", gang, script, strings.Join(w.story[max(0, len(w.story)-300):], "\n"))
		}
	}()
	if len(script) > 0 && begun(script[0]&3) != none {
		w.run(begun(script[0] & 3))
	}
	for _, b := range script {
		moves[frequent[b&31]](w, int(b>>5))
	}
	w.settle()
	ended = true
}

func FuzzStep(f *testing.F) {
	for seed := range uint64(8) {
		script := make([]byte, 200)
		r := rand.New(rand.NewPCG(seed, 1))
		for i := range script {
			script[i] = byte(r.Uint32())
		}
		f.Add(seed%2 == 0, script)
	}
	f.Fuzz(play)
}

// TestStories plays many at random.
func TestStories(t *testing.T) {
	stories := 1000
	if testing.Short() {
		stories = 300
	}
	for seed := range uint64(stories) {
		script := make([]byte, 20+seed%300)
		r := rand.New(rand.NewPCG(seed, 2))
		for i := range script {
			script[i] = byte(r.Uint32())
		}
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { play(t, seed%2 == 0, script) }) {
			return
		}
	}
}
