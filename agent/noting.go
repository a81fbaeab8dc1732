package agent

import (
	"context"
	"time"
)

// noting finds the nodes of which something is expected, and which slurmd each of
// them has.
type noting struct {
	began time.Time
	over  chan struct{}
	found map[string]time.Time
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
		nodes, _ := a.client.Nodes(ctx) // it is told if slurmctld does not answer afterwards either
		for _, one := range nodes {
			if one.Responding() && !one.SlurmdStart.IsZero() && !one.Is("POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "REBOOT_ISSUED") {
				n.found[one.Name] = one.SlurmdStart.Time
			}
		}
	}()
	return n
}

func (n *noting) fresh() bool { return time.Since(n.began) < foresight }

func (n *noting) starts() map[string]time.Time {
	<-n.over
	return n.found
}

// nodesTook asks slurmctld which nodes have another slurmd than before: a
// reconfigure puts a new process in its place. Two may begin in one second, so
// one as young as the reconfigure counts too. Clocks differ from node to node.
func (a *Agent) nodesTook(number int) nodesAsked {
	ctx, cancel := context.WithTimeout(context.Background(), questionLimit)
	defer cancel()
	nodes, err := a.client.Nodes(ctx)
	answer := nodesAsked{number: number, err: err}
	for _, n := range nodes {
		before, expected := a.conf.starts[n.Name]
		switch {
		case !expected:
		case n.SlurmdStart.IsZero():
			answer.missed = append(answer.missed, n.Name) // not heard of since
			answer.silent = true
		case n.SlurmdStart.Equal(before) && before.Before(a.conf.since):
			answer.missed = append(answer.missed, n.Name)
		default:
			answer.took++
		}
	}
	return answer
}
