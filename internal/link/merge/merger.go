// Package merge makes one command of the changes that many nodes' agents ask for at the same time.
//
// When a thousand pods end together, each agent drains its node and deletes its record. Deleting a
// record rebuilds slurmctld's tables under its write locks, and takes 30 ms where there are 10,000
// records, whether one is deleted or all. slurmctld's agent therefore collects the changes for a
// moment, runs one scontrol for all, and answers each agent with what slurmctld has said of its node
// (Merger). The agents ask it by internal/link/ask. Where it is away or refuses, a node's agent makes
// its own change (Make).
//
// The counts of allocated CPUs are a question of the same kind: slurmctld makes them for all nodes
// or for none, and slurmctld's agent has it make them at most once a second (Recount).
package merge

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/ask"
	"github.com/slurmlet/slurmlet/internal/link/proof"
	"github.com/slurmlet/slurmlet/internal/link/publichttp"
)

const (
	// collectTime is how long changes are collected.
	collectTime = 50 * time.Millisecond
	// lookAfter is how long after a deletion it is asked again who names nodes, unless another deletion asks before.
	lookAfter = 500 * time.Millisecond
	// crowded is how many changes do not wait for that: the next deletion of so many costs each of them little.
	crowded = 2 * leastConfirmed
	// recountEvery is the time from one count of all nodes to the next.
	recountEvery = time.Second
)

// Merger is slurmctld's agent's side. The port's goroutine calls ServeHTTP and owns the lanes.
type Merger struct {
	Slurm Slurm
	// Verifier judges who asks.
	Verifier *proof.Verifier
	// Done is closed when the agent has ended.
	Done <-chan struct{}
	Log  func(level slog.Level, text string, attrs ...slog.Attr)
	// Returns may be nil.
	Returns Returns
	// Kept, if there is one, is called with which records stay without pods, and why.
	Kept func(map[string]string)
	// Made, if there is one, is called when slurmctld has made changes.
	Made func()

	lanes map[ask.Verb]*lane
}

// lane is the changes of one verb, whose commands run one after the other.
type lane struct {
	port    *publichttp.Server
	verb    ask.Verb
	waiting []asked
	running bool
	// crowd lets run know that many changes wait; nil where that is no matter.
	crowd chan struct{}
	// began and ended are when the last changes began and ended, and made is how many there were. Only run touches
	// them, which runs once at a time.
	began, ended time.Time
	made         int
}

// collectFor is how long the lane waits for further changes. Of however many nodes a deletion is, it begins with questions and
// rebuilds slurmctld's tables. So after a deletion of several the lane waits until it is to be looked after, unless many
// changes wait: the next deletion's question does that. A node alone has no more to wait.
func (l *lane) collectFor() time.Duration {
	switch l.verb {
	case ask.Recount:
		return max(collectTime, time.Until(l.began.Add(recountEvery)))
	case ask.Delete, ask.Renew:
		return max(collectTime, time.Until(l.ended.Add(min(time.Duration(l.made)*collectTime, lookAfter))))
	}
	return collectTime
}

// asked is a change that an agent waits for.
type asked struct {
	ask.Change
	at     time.Time
	signer *proof.Signer
	waiter *publichttp.Waiter
}

// ServeHTTP takes a change. Nothing is kept of one that is refused. A node's own agent is the one
// that waits in its name for the configuration's news, at the same address.
func (m *Merger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	signer, err := m.Verifier.Verify(r)
	if err != nil {
		http.Error(w, "the request is refused: "+err.Error(), http.StatusUnauthorized)
		return
	}
	c, err := ask.Parse(r.URL.Query())
	if err != nil {
		http.Error(w, "the change is refused: "+err.Error(), http.StatusBadRequest)
		return
	}
	port := publichttp.ServerOf(w)
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !port.Waits(c.Node, from.Addr()) {
		reply(signer, w, ask.Said(ask.Unasked, "slurmctld's agent does not know that this is the node's own agent"))
		return
	}
	l := m.lane(c.Verb, port)
	l.waiting = append(l.waiting, asked{c, time.Now(), signer, publichttp.WaitAs(w, c.Node, nil)})
	if len(l.waiting) >= crowded {
		select {
		case l.crowd <- struct{}{}:
		default:
		}
	}
	if !l.running {
		l.running = true
		go m.run(l)
	}
}

func (m *Merger) lane(v ask.Verb, port *publichttp.Server) *lane {
	if m.lanes == nil {
		m.lanes = map[ask.Verb]*lane{}
	}
	if m.lanes[v] == nil {
		m.lanes[v] = &lane{port: port, verb: v}
		if v == ask.Delete || v == ask.Renew {
			m.lanes[v].crowd = make(chan struct{}, 1)
		}
	}
	return m.lanes[v]
}

func reply(s *proof.Signer, w http.ResponseWriter, r ask.Result) {
	s.Write(w, "text/plain; charset=utf-8", r.String())
}

// run makes the changes of a lane, until there are no more. The question with which the next deletion begins also answers what
// was to be known after the last one.
func (m *Merger) run(l *lane) {
	var unseen []deletion
	for m.wait(l) {
		b := m.take(l, len(unseen) > 0)
		if len(b.all) == 0 && len(unseen) == 0 {
			return
		}
		if len(b.all) == 0 {
			if time.Since(l.ended) >= lookAfter {
				m.lookAgain(unseen)
				unseen = nil
			}
			continue
		}
		l.began, l.made = time.Now(), len(b.all)
		unseen = m.makeAll(l.port, b, unseen)
		l.ended = time.Now()
		if m.Made != nil && l.verb != ask.Recount {
			m.Made()
		}
	}
}

// wait waits for further changes, and says whether the agent goes on.
func (m *Merger) wait(l *lane) bool {
	longest := time.After(l.collectFor())
	select {
	case <-time.After(collectTime):
	case <-m.Done:
		return false
	}
	select {
	case <-longest:
	case <-l.crowd:
	case <-m.Done:
		return false
	}
	return true
}

// batch is what a lane has, when there are so many agents.
type batch struct {
	all    []asked
	agents int
}

// lookAgain looks once more at records whose deletion no other one has followed.
func (m *Merger) lookAgain(unseen []deletion) {
	for _, d := range unseen {
		d.by.lookAgain(context.Background(), d.group)
		m.reportKept(d.by)
	}
}

func (m *Merger) reportKept(a *applier) {
	if names := a.kept(); len(names) > 0 && m.Kept != nil {
		m.Kept(names)
	}
}

// take empties a lane and returns what has waited there. The lane counts as running while there is something, or more to
// be done. An agent that has gone is left out: it has asked slurmctld itself, and its node may be another one's by now.
func (m *Merger) take(l *lane, more bool) batch {
	taken := make(chan batch, 1)
	l.port.Do(func() {
		b := batch{agents: l.port.Names()}
		for _, one := range l.waiting {
			if !one.waiter.Gone() {
				b.all = append(b.all, one)
			}
		}
		l.waiting, l.running = nil, len(b.all) > 0 || more
		select {
		case <-l.crowd: // it is taken
		default:
		}
		taken <- b
	})
	select {
	case b := <-taken:
		return b
	case <-m.Done:
		return batch{} // the port is closed
	}
}

// makeAll has slurmctld make changes, and answers those that wait for them. unseen are the deletions before them that nobody has
// looked after, and it returns those that are left.
func (m *Merger) makeAll(port *publichttp.Server, b batch, unseen []deletion) []deletion {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	oldest, changes := b.all[0].at, make([]ask.Change, len(b.all))
	for i, one := range b.all {
		changes[i] = one.Change
	}
	for _, g := range groupsOf(changes) {
		a := &applier{
			slurm: m.Slurm, returns: m.Returns, results: map[string]ask.Result{}, earlier: unseen, agents: b.agents, log: m.Log,
			late: func() bool { return time.Since(oldest) > ask.StartLimit },
		}
		a.apply(ctx, *g)
		for _, d := range unseen[:len(unseen)-len(a.earlier)] {
			m.reportKept(d.by)
		}
		unseen = a.earlier
		m.report(g, *a)
		port.Do(func() {
			for _, one := range b.all {
				if r, is := a.results[one.Node]; is && one.Reason == g.reason {
					port.AnswerOne(one.waiter, func(w http.ResponseWriter) { reply(one.signer, w, one.understood(r)) })
				}
			}
		})
		if g.verb == ask.Delete && len(a.deleted(*g)) > 0 {
			unseen = append(unseen, deletion{*g, a})
		} else {
			a.lookAgain(ctx, *g)
		}
		m.reportKept(a)
	}
	return unseen
}

// understood: agents of before know no record that stays, and would delete it themselves. They leave one that is gone alone.
func (a *asked) understood(r ask.Result) ask.Result {
	if r.Word == ask.Kept && a.Conf == "" {
		return ask.Result{Word: ask.Gone}
	}
	return r
}

func (m *Merger) report(g *group, a applier) {
	count := map[ask.Word]int{}
	for _, r := range a.results {
		if r.Word == ask.Gone {
			r.Word = ask.Done
		}
		count[r.Word]++
	}
	attrs := []slog.Attr{
		slog.Int("commands", a.commands), slog.Int("done", count[ask.Done]),
		slog.Int("refused", len(a.results)-count[ask.Done]-count[ask.Kept]),
	}
	if count[ask.Kept] > 0 {
		attrs = append(attrs, slog.Int("kept", count[ask.Kept]))
	}
	level := slog.LevelInfo
	if g.verb == ask.Recount {
		level = slog.LevelDebug // it changes nothing, and may come each second
	}
	m.Log(level, fmt.Sprintf("%s: asked slurmctld for %d nodes at once", g.verb, len(g.nodes)), attrs...)
}
