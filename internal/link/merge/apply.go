package merge

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/slurmlet/slurmlet/internal/link/ask"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// Slurm has the questions to slurmctld, and the changes, that merge needs. Names of nodes may be host lists, but for DeleteNode.
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
func Make(ctx context.Context, s Slurm, changes []ask.Change) map[ask.Change]error {
	return MakeKnowing(ctx, s, nil, changes)
}

// MakeKnowing is Make where it is known which workloads make pods again.
func MakeKnowing(ctx context.Context, s Slurm, returns Returns, changes []ask.Change) map[ask.Change]error {
	said := make(map[ask.Change]error, len(changes))
	var good []ask.Change
	for _, c := range changes {
		if err := c.Check(); err != nil {
			said[c] = err
			continue
		}
		good = append(good, c)
	}
	for _, g := range groupsOf(good) {
		a := applier{slurm: s, returns: returns, results: map[string]ask.Result{}, late: func() bool { return ctx.Err() != nil }}
		a.apply(ctx, *g)
		a.lookAgain(ctx, *g)
		for _, c := range good {
			if c.Verb == g.verb && c.Reason == g.reason {
				said[c] = a.results[c.Node].Err(c)
			}
		}
	}
	return said
}

// group is the same change for several nodes.
type group struct {
	verb   ask.Verb
	reason string
	nodes  []string
	// conf has the parameters of records that may have to be made anew, by their names.
	conf map[string]string
}

// groupsOf keeps the order in which changes came, and names each node once.
func groupsOf(changes []ask.Change) []*group {
	var all []*group
	type kind struct {
		verb   ask.Verb
		reason string
	}
	found, named := map[kind]*group{}, map[ask.Change]bool{}
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

func (g *group) note(c ask.Change) {
	if g.conf == nil {
		g.conf = map[string]string{}
	}
	g.conf[c.Node] = c.Conf
}

const (
	// mostArgument is what one argument of a command may be long, in bytes: Linux takes 128 KiB
	// (execve(2)).
	mostArgument = 100_000
	// mostKept is how long a list of kept records may be, in bytes, to be taken for whole.
	mostKept = 1000
	// mostAlone is how many records, which slurmctld has not deleted together, are deleted one by one. Of more it is
	// asked first which there are: with 10,000 records, that costs as much as six commands.
	mostAlone = 6
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
	results map[string]ask.Result
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
	case ask.Recount:
		a.changeNodes(ctx, g) // it names no node
		return
	case ask.Delete, ask.Renew:
		a.remove(ctx, g)
		return
	}
	a.changeAll(ctx, g)
}

// changeAll has slurmctld make a change, in parts that scontrol takes.
func (a *applier) changeAll(ctx context.Context, g group) {
	for _, nodes := range Parts(g.nodes) {
		part := group{verb: g.verb, reason: g.reason, nodes: nodes}
		a.changeNodes(ctx, part)
		a.confirm(ctx, part)
	}
}

// changeNodes runs one command for all. Of a list that it does not take as a whole slurmctld has changed
// a part. It names the records that it has not deleted, and says nothing of updates. What is not
// known to be done is done again, for one node each, or for half of them.
func (a *applier) changeNodes(ctx context.Context, g group) {
	if a.late() {
		a.setResult(g.nodes, ask.Said(ask.Unasked, "slurmctld's agent has too much to do"))
		return
	}
	left, err := a.run(ctx, g)
	switch {
	case err == nil:
		a.setResult(g.nodes, ask.Result{Word: ask.Done})
	case errors.Is(err, slurm.ErrUnreachable):
		a.setResult(g.nodes, ask.Said(ask.Silent, "slurmctld does not answer"))
	case g.verb == ask.Recount:
		a.setResult(g.nodes, ask.Said(ask.Unasked, err.Error()))
	case len(g.nodes) == 1 && errors.Is(err, slurm.ErrBusy):
		a.setResult(g.nodes, ask.Said(ask.Busy, err.Error()))
	case len(g.nodes) == 1:
		a.setResult(g.nodes, ask.Said(ask.Refused, err.Error()))
	case g.verb == ask.Resume:
		// slurmctld refuses to resume a node twice, so another command would fail for those that
		// this one has resumed.
		a.setResult(g.nodes, ask.Said(ask.Unasked, "slurmctld has not resumed all nodes of a list"))
	case g.verb == ask.Delete && left != "" && len(left) <= mostKept:
		a.retry(ctx, g, left)
	default:
		half := len(g.nodes) / 2
		a.changeNodes(ctx, group{verb: g.verb, reason: g.reason, nodes: g.nodes[:half]})
		a.changeNodes(ctx, group{verb: g.verb, reason: g.reason, nodes: g.nodes[half:]})
	}
}

// retry asks again for each of the records that slurmctld has not deleted. Of more than a few it asks first which there
// are: agents that did not learn that their records are gone delete them again.
func (a *applier) retry(ctx context.Context, g group, left string) {
	list, err := hostlist.Parse(left)
	if err != nil {
		a.setResult(g.nodes, ask.Said(ask.Unasked, "it is not clear which records slurmctld has deleted"))
		return
	}
	names := map[string]bool{}
	for name := range list.All() {
		names[name] = true
	}
	var absent map[string]bool
	if len(names) > mostAlone && !a.late() {
		absent = a.absent(ctx, g.nodes)
	}
	for _, name := range g.nodes {
		switch {
		case absent[name]:
			a.results[name] = a.isGone()
		case names[name]:
			a.changeNodes(ctx, group{verb: g.verb, reason: g.reason, nodes: []string{name}})
		default:
			a.results[name] = ask.Result{Word: ask.Done}
		}
	}
}

// absent are those of the nodes that have no record; none where nobody knows.
func (a *applier) absent(ctx context.Context, nodes []string) map[string]bool {
	a.commands++
	ctx, cancel := context.WithTimeout(ctx, ask.CommandLimit)
	defer cancel()
	back, err := a.slurm.Recorded(ctx, hostlist.Of(slices.Values(nodes)).String())
	if err != nil {
		return nil
	}
	absent := make(map[string]bool, len(nodes))
	for _, name := range nodes {
		absent[name] = true
	}
	for _, name := range back {
		delete(absent, name)
	}
	return absent
}

// isGone is the result of a deletion after which there was no record. slurmctld's own agent needs no such proof.
func (a *applier) isGone() ask.Result {
	if a.agents == 0 {
		return ask.Result{Word: ask.Done}
	}
	return ask.Result{Word: ask.Gone}
}

// confirm asks once for all whether a registration that was on its way has made a deleted record anew.
// An agent that does not learn that its record is gone deletes it again.
func (a *applier) confirm(ctx context.Context, g group) {
	var deleted []string
	for _, name := range g.nodes {
		if a.results[name].Word == ask.Done {
			deleted = append(deleted, name)
		}
	}
	if a.agents == 0 || len(deleted) < max(leastConfirmed, a.agents/nodesOfDeletion) || g.verb != ask.Delete || a.late() {
		return
	}
	for name := range a.absent(ctx, deleted) {
		a.results[name] = a.isGone()
	}
}

func (a *applier) run(ctx context.Context, g group) (left string, err error) {
	a.commands++
	ctx, cancel := context.WithTimeout(ctx, ask.CommandLimit)
	defer cancel()
	names := hostlist.Of(slices.Values(g.nodes)).String()
	switch {
	case g.verb == ask.Delete && len(g.nodes) == 1:
		if err := a.slurm.DeleteNode(ctx, g.nodes[0]); !errors.Is(err, slurm.ErrNoNode) {
			return "", err
		}
		return "", nil // it is gone, as it was to be
	case g.verb == ask.Delete:
		return a.slurm.DeleteNodes(ctx, names)
	case g.verb == ask.Drain:
		return "", a.slurm.DrainNode(ctx, names, g.reason)
	case g.verb == ask.Fail:
		return "", a.slurm.FailNode(ctx, names, g.reason)
	case g.verb == ask.PowerDown:
		return "", a.slurm.PowerDownNode(ctx, names, g.reason)
	case g.verb == ask.PowerOff:
		return "", a.slurm.PowerOffNode(ctx, names, g.reason)
	case g.verb == ask.Recount:
		_, err := a.slurm.Recorded(ctx, g.nodes[0]) // one of them, so that scontrol prints least
		return "", err
	}
	return "", a.slurm.ReinstateNode(ctx, names)
}

func (a *applier) setResult(nodes []string, r ask.Result) {
	for _, name := range nodes {
		a.results[name] = r
	}
}
