package merge

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// Slurm is what is asked of slurmctld. Names of nodes may be host lists, but for DeleteNode.
type Slurm interface {
	DeleteNode(ctx context.Context, name string) error
	// DeleteNodes deletes those that slurmctld lets go. With an error, kept are the others, or
	// nothing where slurmctld has not said so.
	DeleteNodes(ctx context.Context, names string) (kept string, err error)
	// Claims are the jobs that have not ended and the reservations, as far as they name nodes.
	Claims(ctx context.Context) ([]slurm.Claim, error)
	// JobClaims are those of jobs alone, which hold nodes.
	JobClaims(ctx context.Context) ([]slurm.Claim, error)
	RenewNode(ctx context.Context, name string, parameters []string, reason string) error
	RenewClaim(ctx context.Context, c *slurm.Claim) error
	// Recorded are the names of those that slurmctld has a record of. slurmctld counts the allocated
	// CPUs of all nodes anew for that answer.
	Recorded(ctx context.Context, names string) ([]string, error)
	DrainNode(ctx context.Context, names, reason string) error
	FailNode(ctx context.Context, names, reason string) error
	PowerDownNode(ctx context.Context, names, reason string) error
	PowerOffNode(ctx context.Context, names, reason string) error
	ReinstateNode(ctx context.Context, names string) error
}

// Make has slurmctld make changes with few commands, the verbs in the order in which they come, and returns what it has
// said of each: nil for done.
func Make(ctx context.Context, s Slurm, changes []Change) map[Change]error {
	return MakeKnowing(ctx, s, nil, changes)
}

// MakeKnowing is Make where it is known which workloads make pods again.
func MakeKnowing(ctx context.Context, s Slurm, returns Returns, changes []Change) map[Change]error {
	said := make(map[Change]error, len(changes))
	var good []Change
	for _, c := range changes {
		if err := c.check(); err != nil {
			said[c] = err
			continue
		}
		good = append(good, c)
	}
	for _, g := range groupsOf(good) {
		a := applier{slurm: s, returns: returns, results: map[string]result{}, late: func() bool { return ctx.Err() != nil }}
		a.apply(ctx, *g)
		a.lookAgain(ctx, *g)
		for _, c := range good {
			if c.Verb == g.verb && c.Reason == g.reason {
				said[c] = a.results[c.Node].err(c)
			}
		}
	}
	return said
}

// group is the same change for several nodes.
type group struct {
	verb   Verb
	reason string
	nodes  []string
	// conf has the parameters of records that may have to be made anew, by their names.
	conf map[string]string
}

// groupsOf keeps the order in which changes came, and names each node once.
func groupsOf(changes []Change) []*group {
	var all []*group
	type kind struct {
		verb   Verb
		reason string
	}
	found, named := map[kind]*group{}, map[Change]bool{}
	for _, c := range changes {
		k := kind{c.Verb, c.Reason}
		if found[k] == nil {
			found[k] = &group{verb: c.Verb, reason: c.Reason}
			all = append(all, found[k])
		}
		if c.Conf != "" {
			found[k].note(c)
		}
		c.Conf = ""
		if named[c] {
			continue
		}
		named[c] = true
		found[k].nodes = append(found[k].nodes, c.Node)
	}
	return all
}

func (g *group) note(c Change) {
	if g.conf == nil {
		g.conf = map[string]string{}
	}
	g.conf[c.Node] = c.Conf
}

const (
	// mostArgument is what one argument of a command may be long, in bytes: Linux takes 128 KiB
	// (execve(2)).
	mostArgument = 100_000
	// commandLimit bounds one command. A slurmctld that takes longer has not answered.
	commandLimit = 5 * time.Second
	// mostKept is how long a list of kept records may be, in bytes, to be taken for whole.
	mostKept = 1000
	// nodesOfDeletion is for how many nodes of an answer slurmctld has the time of one deletion of
	// nothing: 0.1 ms, and 1 to 5 µs for each node.
	nodesOfDeletion = 32
	// leastConfirmed is for how many deletions there is such a question at least: there may be more
	// records than agents.
	leastConfirmed = 16
)

// Parts are lists of names that fit in an argument.
func Parts(nodes []string) [][]string {
	var all [][]string
	length, begin := 0, 0
	for i, name := range nodes {
		if length += len(name) + 1; length > mostArgument {
			all = append(all, nodes[begin:i])
			length, begin = len(name)+1, i
		}
	}
	if begin < len(nodes) {
		all = append(all, nodes[begin:])
	}
	return all
}

// Returns is the workload that makes a node's pod again under the same name, in words; empty if there is none, and where
// nobody knows.
type Returns func(node string) (workload string)

// applier runs the commands of one group.
type applier struct {
	slurm Slurm
	// returns is nil where nobody knows.
	returns Returns
	// late says whether no further command may begin: nobody would wait for its answer.
	late    func() bool
	results map[string]result
	// earlier are deletions that the next question about the names covers, too.
	earlier []deletion
	// agents is how many follow slurmctld's agent; 0: nobody would ask again.
	agents int
	// commands counts those that were run.
	commands int
	// log is nil where nobody reads it.
	log func(level slog.Level, text string, attrs ...slog.Attr)
}

// apply has slurmctld make a change for all nodes of a group, and says what it has said of each.
func (a *applier) apply(ctx context.Context, g group) {
	switch g.verb {
	case Recount:
		a.change(ctx, g) // it names no node
		return
	case Delete, Renew:
		a.remove(ctx, g)
		return
	}
	a.changeAll(ctx, g)
}

// changeAll has slurmctld make a change, in parts that scontrol takes.
func (a *applier) changeAll(ctx context.Context, g group) {
	for _, nodes := range Parts(g.nodes) {
		part := group{verb: g.verb, reason: g.reason, nodes: nodes}
		a.change(ctx, part)
		a.confirm(ctx, part)
	}
}

// change runs one command for all. Of a list that it does not take as a whole slurmctld has changed
// a part. It names the records that it has not deleted, and says nothing of updates. What is not
// known to be done is done again, for one node each, or for half of them.
func (a *applier) change(ctx context.Context, g group) {
	if a.late() {
		a.all(g.nodes, result{unasked, "slurmctld's agent has too much to do"})
		return
	}
	kept, err := a.run(ctx, g)
	switch {
	case err == nil:
		a.all(g.nodes, result{word: done})
	case errors.Is(err, slurm.ErrUnreachable):
		a.all(g.nodes, result{silent, "slurmctld does not answer"})
	case g.verb == Recount:
		a.all(g.nodes, result{unasked, err.Error()})
	case len(g.nodes) == 1 && errors.Is(err, slurm.ErrBusy):
		a.all(g.nodes, result{busy, err.Error()})
	case len(g.nodes) == 1:
		a.all(g.nodes, result{refused, err.Error()})
	case g.verb == Resume:
		// slurmctld refuses to resume a node twice, so another command would fail for those that
		// this one has resumed.
		a.all(g.nodes, result{unasked, "slurmctld has not resumed all nodes of a list"})
	case g.verb == Delete && kept != "" && len(kept) <= mostKept:
		a.retry(ctx, g, kept)
	default:
		half := len(g.nodes) / 2
		a.change(ctx, group{verb: g.verb, reason: g.reason, nodes: g.nodes[:half]})
		a.change(ctx, group{verb: g.verb, reason: g.reason, nodes: g.nodes[half:]})
	}
}

// retry asks again for each of the records that slurmctld has not deleted.
func (a *applier) retry(ctx context.Context, g group, kept string) {
	list, err := hostlist.Parse(kept)
	if err != nil {
		a.all(g.nodes, result{unasked, "it is not clear which records slurmctld has deleted"})
		return
	}
	names := map[string]bool{}
	for name := range list.All() {
		names[name] = true
	}
	for _, name := range g.nodes {
		if names[name] {
			a.change(ctx, group{verb: g.verb, reason: g.reason, nodes: []string{name}})
		} else {
			a.all([]string{name}, result{word: done})
		}
	}
}

// confirm asks once for all whether a registration that was on its way has made a deleted record anew.
// An agent that is not told that its record is gone deletes it again.
func (a *applier) confirm(ctx context.Context, g group) {
	var deleted []string
	for _, name := range g.nodes {
		if a.results[name].word == done {
			deleted = append(deleted, name)
		}
	}
	if a.agents == 0 || len(deleted) < max(leastConfirmed, a.agents/nodesOfDeletion) || g.verb != Delete || a.late() {
		return
	}
	a.commands++
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	back, err := a.slurm.Recorded(ctx, hostlist.Of(slices.Values(deleted)).String())
	if err != nil {
		return
	}
	for _, name := range deleted {
		if !slices.Contains(back, name) {
			a.results[name] = result{word: gone}
		}
	}
}

func (a *applier) run(ctx context.Context, g group) (kept string, err error) {
	a.commands++
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	names := hostlist.Of(slices.Values(g.nodes)).String()
	switch {
	case g.verb == Delete && len(g.nodes) == 1:
		if err := a.slurm.DeleteNode(ctx, g.nodes[0]); !errors.Is(err, slurm.ErrNoNode) {
			return "", err
		}
		return "", nil // it is gone, as it was to be
	case g.verb == Delete:
		return a.slurm.DeleteNodes(ctx, names)
	case g.verb == Drain:
		return "", a.slurm.DrainNode(ctx, names, g.reason)
	case g.verb == Fail:
		return "", a.slurm.FailNode(ctx, names, g.reason)
	case g.verb == PowerDown:
		return "", a.slurm.PowerDownNode(ctx, names, g.reason)
	case g.verb == PowerOff:
		return "", a.slurm.PowerOffNode(ctx, names, g.reason)
	case g.verb == Recount:
		_, err := a.slurm.Recorded(ctx, g.nodes[0]) // one of them, so that scontrol prints least
		return "", err
	}
	return "", a.slurm.ReinstateNode(ctx, names)
}

func (a *applier) all(nodes []string, r result) {
	for _, name := range nodes {
		a.results[name] = r
	}
}
