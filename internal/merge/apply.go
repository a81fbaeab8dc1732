package merge

import (
	"context"
	"errors"
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
	DrainNode(ctx context.Context, names, reason string) error
	FailNode(ctx context.Context, names, reason string) error
	ResumeNode(ctx context.Context, names string) error
}

// group is the same change for several nodes.
type group struct {
	verb   Verb
	reason string
	nodes  []string
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
		if named[c] {
			continue
		}
		named[c] = true
		k := kind{c.Verb, c.Reason}
		if found[k] == nil {
			found[k] = &group{verb: c.Verb, reason: c.Reason}
			all = append(all, found[k])
		}
		found[k].nodes = append(found[k].nodes, c.Node)
	}
	return all
}

const (
	// mostArgument is what one argument of a command may be long, in bytes: Linux takes 128 KiB
	// (execve(2)).
	mostArgument = 100_000
	// commandLimit bounds one command. A slurmctld that takes longer has not answered.
	commandLimit = 5 * time.Second
	// mostKept is how long a list of kept records may be, in bytes, to be taken for whole.
	mostKept = 1000
)

// parts are lists of names that fit in an argument.
func parts(nodes []string) [][]string {
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

// applier runs the commands of one group.
type applier struct {
	slurm Slurm
	// late says whether no further command may begin: nobody would wait for its answer.
	late    func() bool
	results map[string]result
	// commands counts those that were run.
	commands int
}

// apply has slurmctld make a change for all nodes of a group, and says what it has said of each.
func (a *applier) apply(ctx context.Context, g group) {
	for _, nodes := range parts(g.nodes) {
		a.change(ctx, group{g.verb, g.reason, nodes})
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
	case len(g.nodes) == 1 && errors.Is(err, slurm.ErrBusy):
		a.all(g.nodes, result{busy, err.Error()})
	case len(g.nodes) == 1:
		a.all(g.nodes, result{refused, err.Error()})
	case g.verb == Resume:
		// slurmctld refuses to resume a node twice, so another command would fail for those that
		// this one has resumed.
		a.all(g.nodes, result{unasked, "slurmctld has not resumed all nodes of a list"})
	case g.verb == Delete && kept != "" && len(kept) <= mostKept:
		a.keep(ctx, g, kept)
	default:
		half := len(g.nodes) / 2
		a.change(ctx, group{g.verb, g.reason, g.nodes[:half]})
		a.change(ctx, group{g.verb, g.reason, g.nodes[half:]})
	}
}

// keep asks again for each of the records that slurmctld has not deleted.
func (a *applier) keep(ctx context.Context, g group, kept string) {
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
			a.change(ctx, group{g.verb, g.reason, []string{name}})
		} else {
			a.all([]string{name}, result{word: done})
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
	}
	return "", a.slurm.ResumeNode(ctx, names)
}

func (a *applier) all(nodes []string, r result) {
	for _, name := range nodes {
		a.results[name] = r
	}
}
