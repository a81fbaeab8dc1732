package planner

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/wire"
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
