package elastic

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmctld/noderecords"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// planner makes one Plan.
type planner struct {
	*Keeper
	Look
	now      time.Time
	plan     Plan
	steps    map[string]*Step
	standing map[string]*Standing
	seen     map[string]bool
	// open are nodes with which something is to be done, or of which slurmctld has something to do.
	open map[string]bool
	// startable are nodes that the minimum may start, and running how many are up or coming, by set.
	startable map[string]map[string]bool
	running   map[string]int
}

// Plan says what to do now. A look that is older than what was done last must not be planned for.
func (k *Keeper) Plan(look Look, now time.Time) Plan {
	p := &planner{
		Keeper: k, Look: look, now: now, plan: Plan{Elastic: map[string]string{}}, steps: map[string]*Step{},
		standing: map[string]*Standing{}, seen: make(map[string]bool, len(look.Nodes)),
		startable: map[string]map[string]bool{}, running: map[string]int{},
		open: map[string]bool{},
	}
	for _, s := range look.Sets.All {
		p.standing[s.Name] = &Standing{
			Name: s.Name, Nodes: s.NodeNames.String(), Min: s.Min,
			Kept: map[string]string{}, Refused: map[string]string{},
		}
		p.startable[s.Name] = map[string]bool{}
	}
	p.noteFailures()
	for i := range look.Nodes {
		n := &look.Nodes[i]
		p.seen[n.Name] = true
		p.planRecord(n)
	}
	for _, s := range look.Sets.All {
		p.createMissing(s)
		p.startMinimum(s)
	}
	p.forget()
	return p.finish()
}

// noteFailures notes since when each pod fails.
func (p *planner) noteFailures() {
	now := map[string]*failure{}
	for _, f := range p.Failing {
		list, err := hostlist.Parse(f.Nodes)
		if err != nil {
			continue // the controller's own words
		}
		for name := range list.All() {
			one := p.failures[name]
			if one == nil || one.reason != f.Reason {
				one = &failure{reason: f.Reason, since: p.failsSince(name, f.Since)}
			}
			one.note = f.Note
			now[name] = one
		}
	}
	p.failures = now
}

// failsSince is when a pod began to fail. The controller knows it: Kubernetes has two words in turn for an image that
// cannot be pulled, and none while a container that crashes runs. Its clock may be wrong, and the pod fails no longer
// than it starts.
func (p *planner) failsSince(name string, reported time.Time) time.Time {
	began, known := p.starting[name]
	if !known || reported.IsZero() || reported.After(p.now) {
		return p.now
	}
	if reported.Before(began) {
		return began
	}
	return reported
}

// forget drops what was remembered of records that are no more.
func (p *planner) forget() {
	for name := range p.starting {
		if p.plan.Elastic[name] == "" {
			delete(p.starting, name)
		}
	}
	for name, all := range p.tries {
		maps.DeleteFunc(all, func(_ Verb, t *try) bool {
			return p.now.After(t.until.Add(time.Minute)) || !p.open[name] && !p.now.Before(t.until)
		})
		if len(all) == 0 {
			delete(p.tries, name)
		}
	}
	maps.DeleteFunc(p.others, func(name, _ string) bool { return !p.seen[name] })
}

// planRecord decides about one record.
func (p *planner) planRecord(n *slurm.Node) {
	set, has := p.Sets.Of(n.Name)
	if !isOurs(n) {
		if has {
			p.standing[set.Name].Foreign = append(p.standing[set.Name].Foreign, n.Name)
		}
		return
	}
	p.noteForeign(n)
	of := setOf(n.Comment)
	switch {
	case has:
		p.classify(n, set.Name)
		p.keepRecord(n, set)
	case of == "" || slices.Contains(p.Sets.Bad, of):
		if of != "" {
			p.plan.Elastic[n.Name] = of // the set's file has a fault now
		}
	default:
		if p.standing[of] == nil {
			p.standing[of] = &Standing{Name: of, Removed: true, Kept: map[string]string{}, Refused: map[string]string{}}
		}
		p.classify(n, of)
		p.replaceRecord(n, of, reasons.SetRemoved)
	}
}

// isUp says whether the pod is there and in service.
func isUp(n *slurm.Node) bool {
	return n.State.Up()
}

// classify counts how the node stands.
func (p *planner) classify(n *slurm.Node, set string) {
	s := p.standing[set]
	p.plan.Elastic[n.Name] = set
	s.Records++
	if _, is := failedReason(n); is {
		s.Failed = append(s.Failed, n.Name)
	}
	if !noderecords.Wanted(n) {
		delete(p.starting, n.Name)
		if n.Is("POWERING_DOWN") || p.Pod != nil && p.Pod(n.Name) {
			s.Ending = append(s.Ending, n.Name)
			p.lookSoon()
		}
		if n.Is("POWERING_DOWN", "POWER_UP", "POWER_DOWN") { // slurmctld does it within seconds, or has forgotten it
			p.open[n.Name] = true
			p.lookSoon()
		}
		return
	}
	s.Wanted = append(s.Wanted, n.Name)
	since, known := p.starting[n.Name]
	switch {
	case isUp(n):
		if known {
			p.plan.Started = append(p.plan.Started, Started{set, n.Name, p.At.Sub(since)})
			p.endPauses(set)
		}
		delete(p.starting, n.Name)
		s.Up = append(s.Up, n.Name)
	case !n.Is("DOWN") && n.State.Starting():
		if !known {
			since = p.At
			p.starting[n.Name] = since
		}
		s.Starting = append(s.Starting, n.Name)
		if s.Since.IsZero() || since.Before(s.Since) {
			s.Since = since
		}
		p.lookSoon()
	}
}

// endPauses: the set's nodes start again, so that those that failed may be tried.
func (p *planner) endPauses(set string) {
	for key := range p.pauses {
		if key.set == set {
			delete(p.pauses, key)
		}
	}
}

// lookSoon asks for another look.
func (p *planner) lookSoon() { p.lookBy(p.now.Add(soon)) }

func (p *planner) lookBy(next time.Time) {
	if p.plan.Next.IsZero() || next.Before(p.plan.Next) {
		p.plan.Next = next
	}
}

// do adds a node to a step, unless the same was done a moment ago.
func (p *planner) do(verb Verb, n, text string, fields ...string) {
	step := &Step{Verb: verb, Text: text, Fields: fields}
	p.open[n] = true
	if until := p.notBefore(step, n); p.now.Before(until) {
		p.lookBy(until)
		return
	}
	key := step.key()
	if known := p.steps[key]; known != nil {
		step = known
	}
	p.steps[key] = step
	step.Nodes = append(step.Nodes, n)
	p.lookBy(p.now) // what has become of it
}

// heldBy: something of Slurm's counts on the record.
func (p *planner) heldBy(n *slurm.Node) string {
	switch {
	case noderecords.HoldsJobs(n, p.Suspended[n.Name]):
		return "jobs hold the node"
	case noderecords.Reserved(n):
		return "a reservation has the node"
	}
	return ""
}

// isPoweredOff: the pod is gone, or slurmctld has given it its time to go. A pod that is known to be there is not.
func (p *planner) isPoweredOff(n *slurm.Node) bool {
	if p.Pod != nil {
		return !noderecords.Wanted(n) && !p.Pod(n.Name)
	}
	return n.Is("POWERED_DOWN")
}

// replaceRecord has a record deleted: drained, once nothing holds it powered down, and gone with its pod.
func (p *planner) replaceRecord(n *slurm.Node, set, reason string) {
	held := p.heldBy(n)
	drained := n.Is("DRAIN") || n.Is("DOWN")
	jobs := noderecords.HoldsJobs(n, p.Suspended[n.Name])
	kept := p.standing[set].Kept
	switch {
	case jobs && p.giveUp(n):
	case jobs && !drained && n.Is("POWERED_DOWN", "POWERING_UP", "POWER_UP"): // a drain would requeue its jobs
		kept[n.Name] = "a job waits for its pod"
		p.lookSoon()
	case held == "" && p.isPoweredOff(n):
		p.do(Delete, n.Name, "")
	case held == "" && !noderecords.Wanted(n):
		kept[n.Name] = "its pod has not ended yet"
		p.lookSoon()
	case !drained && (jobs || held == ""):
		kept[n.Name] = "it is drained first"
		p.do(Drain, n.Name, reason)
	case held != "":
		kept[n.Name] = held
		p.lookSoon()
	case n.Is("POWER_DOWN"):
		kept[n.Name] = "Slurm powers the node down"
		p.lookSoon()
	default:
		kept[n.Name] = "Slurm powers the node down"
		p.do(PowerDown, n.Name, "") // it is drained, and nothing holds it
	}
}

// keepRecord decides about a record of a set.
func (p *planner) keepRecord(n *slurm.Node, set Set) {
	if set.differs(n) {
		p.replaceRecord(n, set.Name, reasons.SetResized)
		return
	}
	if set.mistimed(n, p.Timed) && p.heldBy(n) == "" && p.isPoweredOff(n) && !n.Is("DOWN") && !n.Is("DRAIN", "FAIL") {
		p.do(Delete, n.Name, "") // nobody is sent away for that
		return
	}
	if !p.Timed && n.Comment == "" && n.Is("IDLE") && n.Is("POWERED_DOWN") && !n.Is("DRAIN", "POWER_UP") && p.heldBy(n) == "" {
		p.do(Activate, n.Name, reasons.SetNew, "comment="+set.comment(p.Timed))
		return
	}
	if fields := set.updateFields(n, p.Timed); len(fields) > 0 {
		p.do(Update, n.Name, "", fields...)
	}
	lifted := reasons.Has(n.Reason, reasons.SetResized) || reasons.Has(n.Reason, reasons.SetRemoved) ||
		reasons.Of(n.Reason) == reasons.Relaunched
	switch {
	case p.isForeign(n):
		return
	case n.Is("DOWN"):
		p.retryDown(n, set)
		return
	case p.giveUp(n):
		return
	case n.Is("DRAIN") && lifted && !n.Is("POWERING_DOWN", "POWER_DOWN"):
		p.do(Resume, n.Name, "")
	case n.Is("POWERING_DOWN") && p.isPodGone(n) && !noderecords.HoldsJobs(n, p.Suspended[n.Name]): // a reservation's jobs wait for it
		p.do(Resume, n.Name, "")
	}
	if p.neverRegistered(n) {
		p.do(PowerDown, n.Name, reasonNeverRegistered)
		return
	}
	switch {
	case n.Is("DRAIN"):
	case (noderecords.Wanted(n) || n.Is("POWER_UP")) && !n.Is("POWER_DOWN"):
		p.running[set.Name]++
	case n.Is("POWERED_DOWN") && n.Is("IDLE") && !n.Is("POWER_UP", "POWER_DOWN", "POWERING_DOWN", "POWERING_UP"):
		p.startable[set.Name][n.Name] = true
	}
}

// noteForeign notes that somebody else has drained the node or set it DOWN, or had done so before ResumeTimeout.
func (p *planner) noteForeign(n *slurm.Node) {
	was := p.others[n.Name]
	switch {
	case noderecords.Foreign(n):
		p.others[n.Name] = n.Reason
	case was == "" || !n.Is("DOWN") || !strings.HasPrefix(n.Reason, was):
		delete(p.others, n.Name)
	}
}

// isForeign: the node's state is somebody else's, and stays.
func (p *planner) isForeign(n *slurm.Node) bool {
	_, is := p.others[n.Name]
	return is
}

// isPodGone: the pod of a node that slurmctld suspends is gone. One that was off before it went through POWERING_DOWN had none.
func (p *planner) isPodGone(n *slurm.Node) bool {
	if p.Pod != nil {
		return !p.Pod(n.Name)
	}
	return p.poweredDownLately(n)
}

const reasonNeverRegistered = "slurmctld has never heard of its slurmd"

// poweredDownLately: the way through POWERING_DOWN was taken lately.
func (p *planner) poweredDownLately(n *slurm.Node) bool {
	t := p.tries[n.Name][PowerDown]
	return t != nil && t.key == (&Step{Verb: PowerDown, Text: reasonNeverRegistered}).key()
}

// neverRegistered: 24.11 gives such a record no job once it has read slurm.conf again. Its way through POWERING_DOWN ends that.
func (p *planner) neverRegistered(n *slurm.Node) bool {
	if !n.Is("IDLE") || !n.Is("POWERED_DOWN") || !n.Is("NOT_RESPONDING") ||
		n.Is("DRAIN", "FAIL", "POWER_DOWN", "POWERING_DOWN", "POWER_UP", "POWERING_UP") {
		return false
	}
	return p.heldBy(n) == "" && p.isPoweredOff(n)
}

// createMissing has the records made that a set lacks.
func (p *planner) createMissing(s Set) {
	for name := range s.NodeNames.All() {
		if !p.seen[name] {
			p.do(Create, name, s.CreateParameters(p.Timed), "comment="+s.comment(p.Timed))
		}
	}
}

// startMinimum starts the first nodes of a set where too few are up or coming.
func (p *planner) startMinimum(s Set) {
	missing := s.Min - p.running[s.Name]
	for name := range s.NodeNames.All() {
		if missing <= 0 {
			return
		}
		if p.startable[s.Name][name] {
			p.do(PowerUp, name, "")
			missing--
		}
	}
}

// finish brings the plan in order.
func (p *planner) finish() Plan {
	for _, s := range p.steps {
		p.plan.Steps = append(p.plan.Steps, *s)
	}
	slices.SortFunc(p.plan.Steps, func(a, b Step) int {
		if a.Verb != b.Verb {
			return slices.Index(order, a.Verb) - slices.Index(order, b.Verb)
		}
		return strings.Compare(a.Nodes[0], b.Nodes[0])
	})
	for _, f := range p.Failing {
		p.addFailing(f)
	}
	for name, all := range p.tries {
		set := p.plan.Elastic[name]
		if s, has := p.Sets.Of(name); has {
			set = s.Name
		}
		for _, verb := range order {
			if t, s := all[verb], p.standing[set]; t != nil && s != nil && t.refused != "" {
				s.Refused[name] = t.refused
			}
		}
	}
	for _, s := range p.standing {
		p.plan.Standings = append(p.plan.Standings, *s)
	}
	slices.SortFunc(p.plan.Standings, func(a, b Standing) int { return strings.Compare(a.Name, b.Name) })
	return p.plan
}

// addFailing notes in a set what keeps its nodes from starting.
func (p *planner) addFailing(f wire.Failure) {
	list, err := hostlist.Parse(f.Nodes)
	if err != nil {
		return
	}
	of := map[string][]string{}
	for name := range list.All() {
		if set := p.plan.Elastic[name]; set != "" {
			of[set] = append(of[set], name)
		}
	}
	for set, names := range of {
		if s := p.standing[set]; s != nil {
			one := f
			one.Nodes = hostlist.Of(slices.Values(names)).String()
			s.Failing = append(s.Failing, one)
		}
	}
}
