package elastic

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/merge"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic/planner"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// do makes one step.
func (r *Reconciler) do(ctx context.Context, s *planner.Step) {
	list := hostlist.Of(slices.Values(s.Nodes)).String()
	r.Log(slog.LevelInfo, "elastic nodes: "+string(s.Verb), slog.String("nodes", list), slog.String("why", s.Text))
	update := func(fields ...string) func(context.Context, string) error {
		return func(ctx context.Context, names string) error { return r.Client.UpdateNode(ctx, names, fields) }
	}
	var said map[string]error
	switch s.Verb {
	case planner.Create:
		// Not for a part of the list again: 24.11 deletes a record that is created twice.
		said = r.each(ctx, s.Nodes, 1, func(ctx context.Context, names string) error {
			return r.Client.CreateNodes(ctx, names, strings.Fields(s.Text))
		})
		r.settle(ctx, s, said, !r.known.timed)
	case planner.Activate:
		said = map[string]error{}
		r.settle(ctx, s, said, true)
	case planner.Fail:
		said = r.each(ctx, s.Nodes, mostHalves,
			func(ctx context.Context, names string) error { return r.Client.FailNode(ctx, names, s.Text) })
	case planner.Drain:
		said = r.each(ctx, s.Nodes, mostHalves,
			func(ctx context.Context, names string) error { return r.Client.DrainNode(ctx, names, s.Text) })
	case planner.Resume:
		said = r.each(ctx, s.Nodes, mostHalves, r.Client.ResumeNode)
	case planner.Delete:
		said = r.deleteUnnamed(ctx, s.Nodes)
	case planner.Update:
		said = r.each(ctx, s.Nodes, mostHalves, update(s.Fields...))
	case planner.PowerUp, planner.PowerDown:
		said = r.each(ctx, s.Nodes, mostHalves, update("state="+string(s.Verb)))
	}
	refused := map[string][]string{}
	for _, name := range s.Nodes {
		err := said[name]
		r.keeper.Tried(s, name, err, time.Now())
		if err != nil {
			refused[err.Error()] = append(refused[err.Error()], name)
		}
	}
	for why, names := range refused {
		r.Log(slog.LevelWarn, "slurmctld refuses: "+string(s.Verb), listOf(names), slog.String("error", why))
	}
}

// deleteUnnamed deletes records that no job and no reservation names: such a job would end, or run elsewhere. Without an answer
// none goes.
func (r *Reconciler) deleteUnnamed(ctx context.Context, nodes []string) map[string]error {
	said := map[string]error{}
	question, cancel := context.WithTimeout(ctx, r.QuestionLimit())
	defer cancel()
	claims, err := r.Client.Claims(question)
	var named map[string]string
	if err == nil {
		named, err = slurm.Named(claims, nodes)
	}
	free := slices.DeleteFunc(slices.Clone(nodes), func(name string) bool {
		switch {
		case err != nil:
			said[name] = err
		case named[name] != "":
			said[name] = errors.New(named[name])
		}
		return said[name] != nil
	})
	maps.Copy(said, r.each(ctx, free, mostHalves, func(ctx context.Context, names string) error {
		_, err := r.Client.DeleteNodes(ctx, names)
		return err
	}))
	return said
}

// settle marks new records. Before that it has slurmctld take them for nodes that jobs may have, where that is needed.
func (r *Reconciler) settle(ctx context.Context, s *planner.Step, said map[string]error, needed bool) {
	runs := []func(context.Context, string) error{
		func(ctx context.Context, names string) error { return r.Client.FailNode(ctx, names, reasons.SetNew) },
		r.Client.ResumeNode,
		func(ctx context.Context, names string) error { return r.Client.UpdateNode(ctx, names, s.Fields) },
	}
	if !needed {
		runs = runs[2:]
	}
	for _, run := range runs {
		good := slices.DeleteFunc(slices.Clone(s.Nodes), func(name string) bool { return said[name] != nil })
		maps.Copy(said, r.each(ctx, good, mostHalves, run))
	}
}

// each runs a command for all nodes. slurmctld has changed a part of a list that it refuses, and does not say
// which. So the command is run again for halves of the list, and so many commands at most.
func (r *Reconciler) each(ctx context.Context, nodes []string, most int,
	run func(ctx context.Context, names string) error,
) map[string]error {
	said, left := map[string]error{}, most
	var try func([]string)
	try = func(names []string) {
		left--
		limited, cancel := context.WithTimeout(ctx, commandLimit)
		err := run(limited, hostlist.Of(slices.Values(names)).String())
		cancel()
		if err == nil || len(names) == 1 || left < 2 || errors.Is(err, slurm.ErrUnreachable) {
			for _, name := range names {
				said[name] = err
			}
			return
		}
		try(names[:len(names)/2])
		try(names[len(names)/2:])
	}
	for _, part := range merge.Parts(nodes) {
		try(part)
	}
	return said
}

// listOf is for the log.
func listOf(names []string) slog.Attr {
	return slog.String("nodes", hostlist.Of(slices.Values(slices.Sorted(slices.Values(names)))).String())
}
