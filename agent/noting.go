package agent

import (
	"context"
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// noting finds the nodes of which something is expected, and which slurmd each of
// them has.
type noting struct {
	began time.Time
	over  chan struct{}
	found map[string]time.Time
	err   error
}

// foresight is how old a noting, or a rehearsal, may be that was begun with an edit. A
// slurmd that starts anew after a noting counts as one that took the edit.
const foresight = time.Second

// foresee begins to note while an edit is left in peace until it is complete: it
// takes slurmctld longer to answer than everything else before a reconfigure. During
// a reload, slurmds are about to be replaced, and it comes too early.
func (a *Agent) foresee() {
	if !a.atRest() {
		return
	}
	if n := a.conf.ahead.Load(); n == nil || !n.fresh() {
		a.conf.ahead.Store(a.noteStarts())
	}
}

// atRest: an edit would be taken up at once.
func (a *Agent) atRest() bool {
	s := a.status.Load()
	return s.State == Ready && s.Conf != nil && s.Conf.Doing == string(quiet)
}

// foreseen is the noting that was begun with the edit, or a new one.
func (a *Agent) foreseen() *noting {
	if n := a.conf.ahead.Swap(nil); n != nil && n.fresh() {
		return n
	}
	return a.noteStarts()
}

func (a *Agent) noteStarts() *noting {
	n := &noting{began: time.Now(), over: make(chan struct{}), found: map[string]time.Time{}}
	go func() {
		defer close(n.over)
		ctx, cancel := context.WithTimeout(context.Background(), questionLimit)
		defer cancel()
		nodes, err := a.client.Nodes(ctx)
		n.err = err
		for i := range nodes {
			if one := &nodes[i]; follows(one) {
				n.found[one.Name] = one.SlurmdStart.Time
			}
		}
	}()
	return n
}

// follows: it takes a configuration, as far as slurmctld knows. One that has not registered
// with this slurmctld yet, as after its start, is no exception.
func follows(n *slurm.Node) bool {
	return n.Responding() && !n.Is("POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "REBOOT_ISSUED")
}

func (n *noting) fresh() bool { return time.Since(n.began) < foresight }

// starts are nil if slurmctld did not tell, and empty if there are no nodes.
func (n *noting) starts() map[string]time.Time {
	<-n.over
	if n.err != nil {
		return nil
	}
	return n.found
}

// noteBefore notes what the next reconfigure is compared with, and says whether slurmctld told.
func (a *Agent) noteBefore() bool {
	a.conf.starts = a.noteStarts().starts()
	return a.conf.starts != nil
}

// nodesTook asks slurmctld which nodes have another slurmd than before: a
// reconfigure puts a new process in its place. Two may begin in one second, so
// one as young as the reconfigure counts too. Clocks differ from node to node, so that
// age alone decides only where nobody knows which slurmd there was.
func (a *Agent) nodesTook(number int, canary string) nodesAsked {
	ctx, cancel := context.WithTimeout(context.Background(), questionLimit)
	defer cancel()
	began := time.Now()
	nodes, err := a.client.Nodes(ctx)
	answer := nodesAsked{number: number, err: err, cost: time.Since(began)}
	a.conf.addresses = map[string]string{}
	var missed []*slurm.Node
	for i := range nodes {
		n := &nodes[i]
		before, expected := a.conf.starts[n.Name]
		if a.conf.starts == nil {
			expected = follows(n)
		}
		switch {
		case !expected:
		case n.SlurmdStart.IsZero():
			answer.unheard = append(answer.unheard, n.Name)
		case a.isOther(before, n.SlurmdStart.Time):
			answer.took++
			answer.canary = answer.canary || n.Name == canary
		default:
			missed = append(missed, n)
			a.conf.addresses[n.Name] = n.Address
		}
	}
	answer.missed = a.ranked(missed)
	return answer
}

// ranked puts the nodes first whose slurmd had best be restarted first: whose agents hear
// of it, and then those without jobs.
func (a *Agent) ranked(nodes []*slurm.Node) []string {
	if len(nodes) == 0 {
		return nil
	}
	hear := a.conf.feed.hosts()
	rank := func(n *slurm.Node) (r int) {
		if !hear[n.Address] {
			r += 2
		}
		if n.Busy() {
			r++
		}
		return r
	}
	slices.SortStableFunc(nodes, func(x, y *slurm.Node) int { return rank(x) - rank(y) })
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return names
}

// isOther: a node has another slurmd than before the reconfigure. The zero time: nobody
// knows what it had.
func (a *Agent) isOther(before, now time.Time) bool {
	if before.IsZero() {
		return !now.Before(a.conf.since)
	}
	return !now.Equal(before) || !before.Before(a.conf.since)
}
