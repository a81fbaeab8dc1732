package reconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// A slurmctld that is configured anew finds the nodes of jobs and reservations by their names. It ends a job that names, or
// has, a node without a record, takes such a node from a reservation, and deletes the reservation with its last node or its
// partition (_sync_jobs_to_conf in read_config.c, _validate_one_reservation in reservation.c). So a set waits for them.

func changeOfNodes(before, after *slurmconf.Set) nodeChange {
	c := nodeChange{removed: confNodes(before), kept: confNodes(after)}
	for name := range c.kept {
		delete(c.removed, name)
	}
	return c
}

func confNodes(set *slurmconf.Set) map[string]bool {
	all := map[string]bool{}
	for _, node := range set.Conf(slurmconf.SlurmConf).Nodes() {
		list, _ := hostlist.Parse(node.Names) // package check reports what is wrong
		for name := range list.All() {
			all[name] = true
		}
	}
	return all
}

// pendingMayGo asks whether the set would do anything to jobs that wait, or to reservations.
func (r *Reloader) pendingMayGo(ctx context.Context, removed removedPartitions, again bool) error {
	if err := r.claimsMayGo(ctx, removed, again); err != nil {
		return err
	}
	return r.beginsMayGo(ctx, removed)
}

// claimsMayGo asks slurmctld whether the set would end a job, or take nodes from a reservation. It returns a
// conf.InUse if so. Without an answer it does, too, unless somebody asks again: then slurmctld may be away.
func (r *Reloader) claimsMayGo(ctx context.Context, removed removedPartitions, again bool) error {
	if removed.set == nil || r.Preflight == PreflightOff {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, node.QuestionLimit)
	defer cancel()
	lost, err := r.lostClaims(ctx, removed)
	switch {
	case err != nil && again && errors.Is(err, slurm.ErrUnreachable):
		return nil
	case err != nil:
		return conf.InUse{
			Why: "slurmctld does not say which nodes jobs and reservations name, and would end those that name a " +
				"node without a record: " + err.Error(),
		}
	}
	return lost.inUse()
}

// lostClaim is one that loses nodes, or its partition.
type lostClaim struct {
	slurm.Claim
	// unrecorded are the nodes that have no record, removed those whose record goes with the set.
	unrecorded, removed []string
	// partition is that of a reservation, if it goes.
	partition []string
}

type lostClaims []lostClaim

func (r *Reloader) lostClaims(ctx context.Context, removed removedPartitions) (lostClaims, error) {
	claims, err := r.Client.Claims(ctx)
	if err != nil {
		return nil, err
	}
	named, names := make([][]string, len(claims)), map[string]bool{}
	for i := range claims {
		if named[i], err = claimed(&claims[i]); err != nil {
			return nil, err
		}
		for _, name := range named[i] {
			names[name] = true
		}
	}
	recorded, err := r.recorded(ctx, names)
	if err != nil {
		return nil, err
	}
	var lost lostClaims
	for i := range claims {
		if l := removed.judge(claims[i], named[i], recorded); len(l.unrecorded)+len(l.removed) > 0 || len(l.partition) > 0 {
			lost = append(lost, l)
		}
	}
	return lost, nil
}

// claimed are the nodes that a job asks for or has, or that a reservation has. slurmctld ignores those that a job excludes.
func claimed(c *slurm.Claim) (names []string, err error) {
	if c.All {
		return nil, nil
	}
	for _, text := range []string{c.Nodes, c.Holds} {
		if text == "" {
			continue
		}
		list, err := hostlist.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("cannot find out which nodes job %s or reservation %s names: %w", c.Job, c.Reservation, err)
		}
		names = slices.AppendSeq(names, list.All())
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// recorded are those of the names that have a record. slurmctld is not asked where there are none.
func (r *Reloader) recorded(ctx context.Context, names map[string]bool) (map[string]bool, error) {
	all := map[string]bool{}
	if len(names) == 0 {
		return all, nil
	}
	nodes, err := r.Client.Nodes(ctx)
	for i := range nodes {
		all[nodes[i].Name] = true
	}
	return all, err
}

func (p removedPartitions) judge(c slurm.Claim, named []string, recorded map[string]bool) lostClaim {
	l := lostClaim{Claim: c}
	for _, name := range named {
		switch {
		case p.nodeChange.removed[name]:
			l.removed = append(l.removed, name)
		case !recorded[name] && !p.nodeChange.kept[name]: // scontrol does not show those with State=FUTURE
			l.unrecorded = append(l.unrecorded, name)
		}
	}
	if c.Reservation != "" && slices.ContainsFunc(p.gone, func(one slurmconf.Partition) bool { return one.Name() == c.Partition }) {
		l.partition = []string{c.Partition}
	}
	return l
}

// loss is a way in which a claim is lost.
type loss struct {
	what func(who, nodes string) string
	lose func(l *lostClaim) []string
}

var losses = []loss{
	{
		func(who, nodes string) string {
			return "slurmctld would end jobs (" + who + ") that name nodes without a record (" + nodes + ")"
		},
		func(l *lostClaim) []string { return l.ofJob(l.unrecorded) },
	},
	{
		func(who, nodes string) string {
			return "slurmctld would end jobs (" + who + ") that name nodes which the edit removes (" + nodes + ")"
		},
		func(l *lostClaim) []string { return l.ofJob(l.removed) },
	},
	{
		func(who, nodes string) string {
			return "slurmctld would take nodes without a record (" + nodes + ") from reservations (" + who + ")"
		},
		func(l *lostClaim) []string { return l.ofReservation(l.unrecorded) },
	},
	{
		func(who, nodes string) string {
			return "slurmctld would take nodes that the edit removes (" + nodes + ") from reservations (" + who + ")"
		},
		func(l *lostClaim) []string { return l.ofReservation(l.removed) },
	},
	{
		func(who, partitions string) string {
			return "slurmctld would delete reservations (" + who + ") of partitions that the edit removes (" + partitions + ")"
		},
		func(l *lostClaim) []string { return l.partition },
	},
}

func (l *lostClaim) ofJob(nodes []string) []string {
	if l.Job == "" {
		return nil
	}
	return nodes
}

func (l *lostClaim) ofReservation(nodes []string) []string {
	if l.Reservation == "" {
		return nil
	}
	return nodes
}

// inUse has a line for each kind of loss, nil for none.
func (all lostClaims) inUse() error {
	var lines []string
	for _, kind := range losses {
		var who, nodes []string
		for i := range all {
			if its := kind.lose(&all[i]); len(its) > 0 {
				who, nodes = append(who, all[i].Job+all[i].Reservation), append(nodes, its...)
			}
		}
		if len(who) > 0 {
			slices.Sort(nodes)
			lines = append(lines, kind.what(few(who), few(slices.Compact(nodes)))+
				": want them changed or ended, or the nodes back; the edit is tried again every "+conf.InUsePause.String())
		}
	}
	if lines == nil {
		return nil
	}
	return conf.InUse{Why: strings.Join(lines, "\n")}
}
