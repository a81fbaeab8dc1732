package lifecycle

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// timed is a life with a clock. Answers come after a tenth of a second, as on a machine that has
// other work; what else happens does so every time.
type timed struct {
	life    State
	now     time.Duration
	due     []dueEvent
	asked   []time.Duration
	answer  func(State) node.Answered
	refuses func(node.Verb) error
	happens Event
	every   time.Duration
}

type dueEvent struct {
	at    time.Duration
	event Event
}

const answerTime = 100 * time.Millisecond

func (w *timed) later(after time.Duration, e Event) {
	w.due = append(w.due, dueEvent{w.now + after, e})
}

func (w *timed) feed(e Event) {
	var actions []Action
	w.life, actions = Step(w.life, e)
	for _, a := range actions {
		switch a := a.(type) {
		case supervisor.Arm:
			w.later(a.After, supervisor.TimerFired{Number: a.Number})
		case deadlines.Schedule:
			w.later(a.After, deadlines.DeadlinePassed{Stage: a.Stage})
		case supervisor.StartMain:
			w.later(answerTime, supervisor.MainStarted{PID: w.life.Starts + 10, At: epoch})
			w.later(2*answerTime, supervisor.MainReady{})
		case supervisor.SignalMain:
			if a.Signal != supervisor.SigHup {
				w.later(answerTime, supervisor.MainExited{PID: w.life.Main, Code: 0, Uptime: time.Second})
			}
		case supervisor.Reach:
			w.later(answerTime, node.Answered{Number: a.Number})
		case node.AskNode:
			w.ask(a.Number)
		case node.AskJobs:
			w.ask(a.Number)
		case node.CountSteps:
			w.later(answerTime, node.StepsCounted{Number: a.Number, Steps: w.answer(w.life).Steps})
		case node.FindLostJobs:
			w.asked = append(w.asked, w.now)
			w.later(answerTime, node.LostJobsFound{Number: a.Number, Err: w.answer(w.life).Err})
		case node.CompareCluster:
			w.asked = append(w.asked, w.now)
		case node.Change:
			w.asked = append(w.asked, w.now)
			w.later(answerTime, node.Done{Number: a.Number, Err: w.refuses(a.Verb)})
		}
	}
}

func (w *timed) ask(number int) {
	w.asked = append(w.asked, w.now)
	e := w.answer(w.life)
	e.Number = number
	w.later(answerTime, e)
}

// run lives for a time.
func (w *timed) run(until time.Duration) {
	if w.every > 0 {
		for at := w.every; at < until; at += w.every {
			w.later(at-w.now, w.happens)
		}
	}
	for len(w.due) > 0 && w.life.Phase != supervisor.Exited {
		first := 0
		for i := range w.due {
			if w.due[i].at < w.due[first].at {
				first = i
			}
		}
		next := w.due[first]
		w.due = slices.Delete(w.due, first, first+1)
		if next.at > until {
			return
		}
		w.now = next.at
		w.feed(next.event)
	}
}

// most is how often slurmctld was asked in any minute.
func (w *timed) most() (most int) {
	for i, from := range w.asked {
		n, _ := slices.BinarySearch(w.asked[i:], from+time.Minute)
		most = max(most, n)
	}
	return most
}

// TestBudget: whatever slurmctld says, and whatever happens to the node, a node's agent asks no
// more than MostQuestions in any minute, and in the end looks and changes something once a minute.
func TestBudget(t *testing.T) {
	silence := errors.Join(slurm.ErrUnreachable)
	shows := func(change ...func(*slurm.Node)) func(State) node.Answered {
		return func(State) node.Answered { return node.Answered{Node: record(change...)} }
	}
	withStep := func(State) node.Answered { return node.Answered{Node: record(busy, terminating), Steps: 1} }
	no := func(node.Verb) error { return errors.New("no") }
	notGone := func(v node.Verb) error {
		if v == node.DeleteNode || v == node.RenewNode || v == node.DeleteAgain {
			return slurm.ErrBusy
		}
		return nil
	}
	perhaps := func(change ...func(*slurm.Node)) func(State) node.Answered {
		return func(State) node.Answered { return node.Answered{Node: record(change...), Doubtful: true} }
	}
	byTurns := func(one, other func(*slurm.Node)) func(State) node.Answered {
		n := 0
		return func(State) node.Answered {
			if n++; n%2 == 0 {
				return node.Answered{Node: record(other)}
			}
			return node.Answered{Node: record(one)}
		}
	}
	ready := map[string]func() State{"from its start": slurmdLife, "Ready": isReady}
	stopping := map[string]func() State{"on its way down": func() State {
		l := isReady()
		l.Deadlines = deadlines.New(24*time.Hour, 0)
		l, _ = play(l, supervisor.Terminated{Signal: "SIGTERM"})
		return l
	}}
	elastic := func() State {
		l := isReady()
		l.Elastic = true
		return l
	}
	elasticReady := map[string]func() State{"elastic, from its start": func() State {
		l := slurmdLife()
		l.Elastic = true
		return l
	}, "elastic and Ready": elastic}
	elasticStopping := map[string]func() State{"elastic, on its way down": func() State {
		l := elastic()
		l.Deadlines = deadlines.New(24*time.Hour, 0)
		l, _ = play(l, supervisor.Terminated{Signal: "SIGTERM"})
		return l
	}}
	for name, c := range map[string]struct {
		in      map[string]func() State
		answer  func(State) node.Answered
		refuses func(node.Verb) error
		happens Event
		every   time.Duration
	}{
		"no answer":                       {in: ready, answer: func(State) node.Answered { return node.Answered{Err: silence} }},
		"late answers":                    {in: ready, answer: func(State) node.Answered { return node.Answered{Err: silence, Late: true} }},
		"no record":                       {in: ready, answer: func(State) node.Answered { return node.Answered{} }},
		"the record of an earlier slurmd": {in: ready, answer: shows(stale)},
		"a DOWN node":                     {in: ready, answer: shows(down)},
		"another size, and busy":          {in: ready, answer: shows(bigger, busy, ourDrain)},
		"another size, and an admin's":    {in: ready, answer: shows(bigger, anAdmins)},
		"another size, not deleted":       {in: ready, answer: shows(bigger, ourDrain), refuses: no},
		"refused over GPUs":               {in: ready, answer: shows(noGPUs)},
		"not to be resumed":               {in: ready, answer: shows(ourDrain), refuses: no},
		"each registration refused":       {in: ready, answer: shows(bigger)},
		"refused, and drained":            {in: ready, answer: shows(bigger, ourDrain)},
		"refused, and kept":               {in: ready, answer: shows(bigger), refuses: notGone},
		"refused by turns":                {in: ready, answer: byTurns(bigger, busy)},
		"drained again and again":         {in: ready, answer: shows(ourDrain)},
		"drained again, and busy":         {in: ready, answer: shows(ourDrain, busy)},
		"the drain is lifted":             {in: ready, answer: shows(bigger, busy)},
		"the drain is lifted, steps end":  {in: ready, answer: shows(bigger, busy), happens: node.StepsEnded{}, every: answerTime},
		"steps end":                       {in: ready, answer: shows(bigger, busy, ourDrain), happens: node.StepsEnded{}, every: answerTime},
		"slurmd dies":                     {in: ready, answer: shows(), happens: supervisor.MainExited{PID: 10, Uptime: time.Second}, every: 3 * time.Second},
		"slurmctld dies":                  {in: ready, answer: shows(busy), happens: node.SlurmctldLost{}, every: time.Second},
		"launches refused":                {in: ready, answer: shows(relaunched), happens: node.LaunchRefused{}, every: 10 * time.Second},
		"launches refused, not mended":    {in: ready, answer: shows(relaunched), refuses: no, happens: node.LaunchRefused{}, every: 10 * time.Second},
		"hand-overs":                      {in: ready, answer: shows(), happens: supervisor.MainChanged{PID: 9, At: epoch}, every: 5 * time.Second},
		"SIGTERM, and no answer":          {in: stopping, answer: func(State) node.Answered { return node.Answered{Err: silence, Steps: 1} }},
		"SIGTERM, and not drained":        {in: stopping, answer: shows(busy), refuses: no},
		"SIGTERM, and jobs":               {in: stopping, answer: withStep},
		"SIGTERM, and steps end":          {in: stopping, answer: withStep, happens: node.StepsEnded{}, every: answerTime},
		"SIGTERM, and the drain lifted":   {in: stopping, answer: func(State) node.Answered { return node.Answered{Node: record(busy), Steps: 1} }},
		"SIGTERM, lifted, and steps end":  {in: stopping, answer: func(State) node.Answered { return node.Answered{Node: record(busy), Steps: 1} }, happens: node.StepsEnded{}, every: answerTime},
		"SIGTERM, lifted by turns":        {in: stopping, answer: byTurns(busy, ourDrain)},
		"SIGTERM, and the record is back": {in: stopping, answer: shows(terminating)},
		"SIGTERM, and the record is kept": {in: stopping, answer: shows(terminating), refuses: notGone},
		"SIGTERM, kept and lifted":        {in: stopping, answer: shows(), refuses: notGone},
		"SIGTERM, perhaps idle":           {in: stopping, answer: perhaps(busy, terminating), refuses: notGone},
		"SIGTERM, perhaps idle, lifted":   {in: stopping, answer: perhaps(busy), refuses: notGone},
		"SIGTERM, perhaps, steps end":     {in: stopping, answer: perhaps(busy, terminating), refuses: notGone, happens: node.StepsEnded{}, every: answerTime},
		"SIGTERM, and no steps":           {in: stopping, answer: shows(busy, terminating)},
		"no record of an elastic node":    {in: elasticReady, answer: func(State) node.Answered { return node.Answered{} }},
		"no CLOUD":                        {in: elasticReady, answer: shows()},
		"no CLOUD, and drained":           {in: elasticReady, answer: shows(ourDrain)},
		"more than the pod":               {in: elasticReady, answer: shows(cloud, bigger)},
		"more than the pod, drained":      {in: elasticReady, answer: shows(cloud, bigger, ourDrain)},
		"more than the pod, by turns":     {in: elasticReady, answer: byTurns(cloud, bigger)},
		"CLOUD, drained again and again":  {in: elasticReady, answer: shows(cloud, ourDrain)},
		"POWERING_UP":                     {in: elasticReady, answer: shows(cloud, stale, is("POWERING_UP"))},
		"POWERING_DOWN":                   {in: elasticReady, answer: shows(cloud, is("POWERING_DOWN"))},
		"SIGTERM, and not powered down":   {in: elasticStopping, answer: shows(cloud), refuses: no},
		"SIGTERM, and never drained":      {in: elasticStopping, answer: shows(cloud)},
		"SIGTERM, and not suspended":      {in: elasticStopping, answer: shows(cloud, terminating, is("POWER_DOWN"))},
		"SIGTERM, completing for ever":    {in: elasticStopping, answer: shows(completing, cloud, is("POWERING_DOWN"))},
		"SIGTERM, and elastic jobs": {in: elasticStopping, answer: func(State) node.Answered {
			return node.Answered{Node: record(busy, cloud, terminating, is("POWER_DOWN")), Steps: 1}
		}},
		"SIGTERM, and its steps end": {in: elasticStopping, answer: func(State) node.Answered {
			return node.Answered{Node: record(busy, cloud, terminating, is("POWER_DOWN")), Steps: 1}
		}, happens: node.StepsEnded{}, every: answerTime},
		"SIGTERM, elastic, no steps": {in: elasticStopping, answer: perhaps(busy, cloud, terminating, is("POWER_DOWN"))},
	} {
		for phase, begin := range c.in {
			t.Run(name+", "+phase, func(t *testing.T) {
				w := &timed{life: begin(), answer: c.answer, refuses: c.refuses, happens: c.happens, every: c.every}
				if w.refuses == nil {
					w.refuses = func(node.Verb) error { return nil }
				}
				switch w.life.Phase {
				case supervisor.Starting:
					w.feed(supervisor.Begun{})
				case supervisor.Stopping:
					w.ask(w.life.Question)
				default:
					w.feed(supervisor.MainChanged{PID: 10, At: epoch})
				}
				const lived = 10 * time.Minute
				w.run(lived)
				require.LessOrEqual(t, w.most(), node.MostQuestions)
				last, _ := slices.BinarySearch(w.asked, lived/2)
				if w.every == 0 && w.life.Phase != supervisor.Stopping {
					require.LessOrEqual(t, len(w.asked)-last, 3*5+1, "in the last five minutes")
				}
			})
		}
	}
}

// TestBudgetOfAnyAnswers: a slurmctld that says something else each time is asked no more often.
func TestBudgetOfAnyAnswers(t *testing.T) {
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			answers := []node.Answered{
				{},
				{Err: slurm.ErrUnreachable},
				{Node: record()},
				{Node: record(busy), Steps: 1},
				{Node: record(bigger)},
				{Node: record(ourDrain)},
				{Node: record(terminating)},
				{Node: record(bigger, ourDrain)},
				{Node: record(bigger, busy)},
				{Node: record(busy, terminating), Steps: 1},
				{Node: record(stale)},
				{Node: record(busy), Doubtful: true},
				{Node: record(busy, terminating), Doubtful: true},
			}
			faults := []error{nil, nil, nil, slurm.ErrBusy, slurm.ErrNoNode, slurm.ErrKept, slurm.ErrUnreachable, errors.New("no")}
			ready := isReady()
			if ready.Elastic = seed >= 300; ready.Elastic {
				answers = append(answers, node.Answered{Node: record(cloud, terminating, is("POWER_DOWN"))}, node.Answered{Node: record(cloud, is("POWERING_DOWN")), Steps: 1})
				for _, a := range answers[2 : len(answers)-2] {
					cloud(a.Node)
				}
			}
			random.Shuffle(len(answers), func(i, j int) { answers[i], answers[j] = answers[j], answers[i] })
			some := answers[:2+random.IntN(len(answers)-2)]
			w := &timed{
				life:    ready,
				answer:  func(State) node.Answered { return some[random.IntN(len(some))] },
				refuses: func(node.Verb) error { return faults[random.IntN(len(faults))] },
			}
			if seed%2 == 0 {
				w.life.Deadlines = deadlines.New(24*time.Hour, 0)
				w.feed(supervisor.Terminated{Signal: "SIGTERM"})
			} else {
				w.feed(supervisor.MainChanged{PID: 10, At: epoch})
			}
			w.run(10 * time.Minute)
			require.LessOrEqual(t, w.most(), node.MostQuestions)
		})
	}
}
