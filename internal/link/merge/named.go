package merge

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/link/ask"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

const (
	// mostReasons is how many reasons there are for one group: each takes two commands.
	mostReasons = 4
	// byMany is the reason where there would be more.
	byMany = "jobs or reservations name the node"
)

// remove deletes records. Those that somebody names, or whose pods are made again, stay, or are made anew. Without
// an answer about the names none is deleted.
func (a *applier) remove(ctx context.Context, g group) {
	if a.late() {
		a.setResult(g.nodes, ask.Said(ask.Unasked, "slurmctld's agent has too much to do"))
		return
	}
	claims, named, err := a.look(ctx, g.nodes)
	if err != nil {
		a.setResult(g.nodes, unanswered(err))
		return
	}
	for _, d := range a.earlier {
		d.by.revisit(ctx, d.group, claims)
	}
	a.earlier = nil
	if g.verb == ask.Delete {
		a.addReturning(g.nodes, named)
	}
	free := slices.DeleteFunc(slices.Clone(g.nodes), func(name string) bool { return named[name] != "" })
	if g.verb == ask.Renew {
		a.renew(ctx, g, named, claims)
	} else {
		held, err := slurm.Held(claims, g.nodes)
		if err != nil {
			a.setResult(g.nodes, unanswered(err))
			return
		}
		for name := range named {
			if held[name] { // as slurmctld says of a deletion: the node's agent drains it and waits
				a.results[name] = ask.Said(ask.Busy, "jobs hold the node")
				delete(named, name)
			}
		}
		a.keep(ctx, named)
	}
	a.changeAll(ctx, group{verb: ask.Delete, nodes: free})
	if g.verb == ask.Delete {
		a.keepReserved(ctx, free)
	}
}

// addReturning adds to the named nodes those whose workloads make the pods again. One whose record gets another size is none
// of them: its pod is there.
func (a *applier) addReturning(nodes []string, named map[string]string) {
	if a.returns == nil {
		return
	}
	for _, name := range nodes {
		if workload := a.returns(name); workload != "" && named[name] == "" {
			named[name] = Again(workload)
		}
	}
}

// Again says why the record of a node stays whose pod a workload makes again, in words that follow reasons.Kept.
func Again(workload string) string { return workload + againSuffix }

const againSuffix = " makes it again"

// IsAgain says whether a record's reason is that.
func IsAgain(reason string) bool {
	return strings.HasPrefix(reason, reasons.Kept) && strings.Contains(reason, againSuffix)
}

// keepReserved keeps the records that slurmctld does not delete although no job holds the nodes: a reservation of all nodes has
// begun, which names none.
func (a *applier) keepReserved(ctx context.Context, nodes []string) {
	reserved := map[string]string{}
	for _, name := range nodes {
		if a.results[name].Word == ask.Busy {
			reserved[name] = "a reservation has the node"
		}
	}
	if len(reserved) == 0 {
		return
	}
	held, err := a.held(ctx, nodes)
	if err != nil {
		return
	}
	maps.DeleteFunc(reserved, func(name, _ string) bool { return held[name] })
	if len(reserved) > 0 {
		a.keep(ctx, reserved)
	}
}

// look asks who names nodes.
func (a *applier) look(ctx context.Context, nodes []string) (claims []slurm.Claim, named map[string]string, err error) {
	a.commands++
	ctx, cancel := context.WithTimeout(ctx, ask.CommandLimit)
	defer cancel()
	if claims, err = a.slurm.Claims(ctx); err == nil {
		named, err = slurm.Named(claims, nodes)
	}
	return claims, named, err
}

// held asks which nodes jobs hold.
func (a *applier) held(ctx context.Context, nodes []string) (map[string]bool, error) {
	a.commands++
	ctx, cancel := context.WithTimeout(ctx, ask.CommandLimit)
	defer cancel()
	jobs, err := a.slurm.JobClaims(ctx)
	if err != nil {
		return nil, err
	}
	return slurm.Held(jobs, nodes)
}

// unanswered is the result where it is not known who names a node.
func unanswered(err error) ask.Result {
	if errors.Is(err, slurm.ErrUnreachable) {
		return ask.Said(ask.Silent, "slurmctld does not say which nodes jobs name")
	}
	return ask.Said(ask.Refused, "it is not clear which nodes jobs name: "+err.Error())
}

// keep drains named nodes and sets them DOWN, unless jobs hold them. No job begins between the question about jobs and
// the state DOWN, which would end it.
func (a *applier) keep(ctx context.Context, named map[string]string) {
	groups := reasonsOf(named)
	var drained []string
	for _, g := range groups {
		g.verb = ask.Drain
		a.changeAll(ctx, *g)
		g.nodes = slices.DeleteFunc(g.nodes, func(name string) bool {
			r := a.results[name]
			if r.Word == ask.Refused && isUnknown(r.Text) {
				a.results[name] = ask.Result{Word: ask.Done} // there is no record to delete
			}
			return r.Word != ask.Done
		})
		drained = append(drained, g.nodes...)
	}
	if len(drained) == 0 {
		return
	}
	held, err := a.held(ctx, drained)
	if err != nil {
		a.setResult(drained, unanswered(err))
		return
	}
	for _, g := range groups {
		g.verb = ask.Fail
		g.nodes = slices.DeleteFunc(g.nodes, func(name string) bool {
			if held[name] {
				a.results[name] = ask.Said(ask.Busy, "jobs hold the node")
			}
			return held[name]
		})
		a.changeAll(ctx, *g)
		for _, name := range g.nodes {
			if a.results[name].Word == ask.Done {
				a.results[name] = ask.Said(ask.Kept, named[name])
			}
		}
	}
}

// isUnknown: slurmctld has no record of the node.
func isUnknown(text string) bool { return strings.Contains(text, "Invalid node name") }

// reasonsOf are the nodes by their reasons.
func reasonsOf(named map[string]string) (groups []*group) {
	by := map[string]*group{}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		reason := reasons.Kept + named[name]
		if by[reason] == nil {
			by[reason] = &group{reason: reason}
			groups = append(groups, by[reason])
		}
		by[reason].nodes = append(by[reason].nodes, name)
	}
	if len(groups) > mostReasons {
		groups = []*group{{reason: reasons.Kept + byMany, nodes: slices.Sorted(maps.Keys(named))}}
	}
	return groups
}

// kept are the records that stay, and why.
func (a *applier) kept() map[string]string {
	all := map[string]string{}
	for name, r := range a.results {
		if r.Word == ask.Kept {
			all[name] = r.Text
		}
	}
	return all
}

// renew makes records of another size in the place of named ones. A new record may have another number, and jobs and
// reservations count by numbers: each of them gets its names anew. From a deletion to that, a job may begin on a node that
// registers for the first time and gets the number.
func (a *applier) renew(ctx context.Context, g group, named map[string]string, claims []slurm.Claim) {
	made := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		a.changeNodes(ctx, group{verb: ask.Delete, nodes: []string{name}})
		if a.results[name].Word == ask.Done {
			a.remake(ctx, name, g.conf[name], reasons.Renewed, named[name])
			made[name] = named[name]
		}
	}
	a.claimAnew(ctx, made, claims)
}

// remake makes a record that was deleted. 24.11 deletes one that a registration has made meanwhile, and says so.
func (a *applier) remake(ctx context.Context, name, conf, reason, why string) {
	least := slices.DeleteFunc(strings.Fields(conf), func(field string) bool {
		return !strings.HasPrefix(field, "CPUs=") && !strings.HasPrefix(field, "RealMemory=")
	})
	var err error
	// what slurmctld does not know must not keep the record away
	for _, parameters := range [][]string{strings.Fields(conf), strings.Fields(conf), least} {
		a.commands++
		limited, cancel := context.WithTimeout(ctx, ask.CommandLimit)
		err = a.slurm.RenewNode(limited, name, parameters, reason)
		cancel()
		if err == nil {
			a.results[name] = ask.Said(ask.Kept, why)
			return
		}
	}
	a.logChange(slog.LevelError, "cannot make the record of a node anew that is named: "+why,
		slog.String("node", name), slog.Any("error", err))
	a.results[name] = ask.Result{Word: ask.Done} // it is deleted
}

// claimAnew has the jobs and reservations that name new records find them, those that have come meanwhile too. Reservations
// come first, because 24.11 ends one without a node.
func (a *applier) claimAnew(ctx context.Context, made map[string]string, claims []slurm.Claim) {
	if len(made) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(made))
	a.claimEach(ctx, names, slices.DeleteFunc(slices.Clone(claims), func(c slurm.Claim) bool { return c.Reservation == "" }))
	if now, _, err := a.look(ctx, nil); err == nil {
		claims = now
	}
	a.claimEach(ctx, names, slices.DeleteFunc(slices.Clone(claims), func(c slurm.Claim) bool { return c.Reservation != "" }))
}

func (a *applier) claimEach(ctx context.Context, names []string, claims []slurm.Claim) {
	claims = slices.DeleteFunc(claims, func(c slurm.Claim) bool {
		of, err := slurm.Named([]slurm.Claim{c}, names)
		return err != nil || len(of) == 0 || c.Reservation == "" && !c.Pending()
	})
	for i := range claims {
		c := &claims[i]
		err := a.whole(ctx, c)
		if err == nil {
			a.commands++
			limited, cancel := context.WithTimeout(ctx, ask.CommandLimit)
			err = a.slurm.RenewClaim(limited, c)
			cancel()
		}
		if err != nil {
			a.logChange(slog.LevelError,
				"a job or a reservation may count on another node than it names, until slurmctld is configured anew",
				slog.String("job", c.Job), slog.String("reservation", c.Reservation), slog.Any("error", err))
		}
	}
}

// whole: slurmctld forgets the list of a job that names a node without a record.
func (a *applier) whole(ctx context.Context, c *slurm.Claim) error {
	lists := strings.Trim(c.Nodes+","+c.Excluded, ",")
	all, err := hostlist.Parse(lists)
	if err != nil {
		return err
	}
	if all.Len() == 1 {
		return nil // it is the one that was made
	}
	a.commands++
	ctx, cancel := context.WithTimeout(ctx, ask.CommandLimit)
	defer cancel()
	known, err := a.slurm.Recorded(ctx, lists)
	if err != nil {
		return err
	}
	for name := range all.All() {
		if !slices.Contains(known, name) {
			return errors.New("there is no record of " + name)
		}
	}
	return nil
}

// lookAgain makes a record anew that was deleted while a job came to name its node: slurmctld takes such a job as long as there is
// a record.
func (a *applier) lookAgain(ctx context.Context, g group) {
	if len(a.deleted(g)) == 0 {
		return
	}
	claims, _, err := a.look(ctx, nil)
	if err != nil {
		a.logChange(slog.LevelWarn, "slurmctld does not say whether jobs name the nodes whose records were deleted", slog.Any("error", err))
		return
	}
	a.revisit(ctx, g, claims)
}

// deleted are the nodes of a group whose records are gone.
func (a *applier) deleted(g group) (names []string) {
	if g.verb != ask.Delete && g.verb != ask.Renew {
		return nil
	}
	for _, name := range g.nodes {
		if r := a.results[name].Word; r == ask.Done || r == ask.Gone {
			names = append(names, name)
		}
	}
	return names
}

// deletion is one after which nobody has looked again yet.
type deletion struct {
	group
	by *applier
}

// revisit is lookAgain with claims of after the deletion.
func (a *applier) revisit(ctx context.Context, g group, claims []slurm.Claim) {
	named, err := slurm.Named(claims, a.deleted(g))
	if err != nil {
		a.logChange(slog.LevelWarn, "it is not clear which nodes jobs name whose records were deleted", slog.Any("error", err))
		return
	}
	made, reason := maps.Clone(named), func(why string) string { return reasons.Kept + why }
	if g.verb == ask.Renew {
		reason = func(string) string { return reasons.Renewed }
	}
	present, err := a.recorded(ctx, named)
	for _, name := range slices.Sorted(maps.Keys(named)) {
		switch {
		case err != nil:
			a.logChange(slog.LevelError, "the record of a node was deleted while a job came to name it: "+named[name],
				slog.String("node", name), slog.Any("error", err))
			delete(made, name)
			continue
		case slices.Contains(present, name):
			continue // a registration has made it
		case g.conf[name] == "":
			delete(made, name)
			a.logChange(slog.LevelError, "the record of a node was deleted while a job came to name it: "+named[name],
				slog.String("node", name))
			continue
		}
		a.remake(ctx, name, g.conf[name], reason(named[name]), named[name])
	}
	a.claimAnew(ctx, made, claims)
}

// recorded are those of the nodes that have a record; nobody is asked about none.
func (a *applier) recorded(ctx context.Context, nodes map[string]string) ([]string, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	a.commands++
	ctx, cancel := context.WithTimeout(ctx, ask.CommandLimit)
	defer cancel()
	return a.slurm.Recorded(ctx, hostlist.Of(slices.Values(slices.Sorted(maps.Keys(nodes)))).String())
}

func (a *applier) logChange(level slog.Level, text string, attrs ...slog.Attr) {
	if a.log != nil {
		a.log(level, text, attrs...)
	}
}
