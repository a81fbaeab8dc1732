package gonepods

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/confsync"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/gonepods/planner"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// settle does what is to be done with the records of the pods that are gone.
func (r *Reconciler) settle(ctx context.Context, records planner.Records) {
	question, cancel := context.WithTimeout(ctx, time.Second)
	away := confsync.MostAway(len(records.Nodes))
	r.settles = r.began.Add(away)
	connected, err := r.Feed.Recent(question, away)
	cancel()
	if err != nil || !r.client.Status().Fresh() || time.Now().Before(r.settles) {
		return // the table may be an old one, and agents may not have come back yet
	}
	r.note(func(s *Status) { s.Connected = len(connected) })
	records.Connected = func(name string) bool {
		_, found := slices.BinarySearch(connected, name)
		return found
	}
	if time.Since(r.timeoutAt) < timeoutAge {
		records.SlurmdTimeout = r.timeout
	}
	r.mu.Lock()
	plan := r.pods.Plan(records, time.Now())
	r.mu.Unlock()
	r.logNews(plan)
	if plan.Unsettled {
		r.learnTimeout(ctx)
	}
	r.Feed.Doubt(plan.Doubt)
	r.hold(ctx, plan.Held)
	r.Kept.Keep(plan.Stay)
	r.fail(ctx, plan.Fail)
	r.delete(ctx, plan.Delete)
}

func (r *Reconciler) learnTimeout(ctx context.Context) {
	if time.Since(r.timeoutAt) < timeoutAge {
		return
	}
	question, cancel := context.WithTimeout(ctx, r.Slurm.Limit())
	defer cancel()
	conf, err := r.Slurm.Config(question)
	if err == nil {
		r.timeout, err = conf.Seconds("SlurmdTimeout")
	}
	if err != nil {
		r.Log(slog.LevelDebug, "cannot ask slurmctld for SlurmdTimeout", slog.Any("error", err))
		return
	}
	r.timeoutAt = time.Now()
}

// listOf is for the log.
func listOf(names []string) slog.Attr {
	return slog.String("nodes", hostlist.Of(slices.Values(slices.Sorted(slices.Values(names)))).String())
}

// logNews logs what is new about the pods that are gone, once for all nodes of which it is true.
func (r *Reconciler) logNews(plan planner.Plan) {
	names := map[string][]string{}
	for name, why := range plan.New {
		names[why] = append(names[why], name)
	}
	doubted := map[string]bool{}
	for _, name := range plan.Doubt {
		doubted[name] = true
	}
	for _, why := range slices.Sorted(maps.Keys(names)) {
		level := slog.LevelDebug
		if doubted[names[why][0]] {
			level = slog.LevelWarn
		}
		r.Log(level, "pods of nodes are gone: "+why, listOf(names[why]))
	}
}

// delete deletes records with one command.
func (r *Reconciler) delete(ctx context.Context, names []string) {
	if names = r.over(ctx, names); len(names) == 0 {
		return
	}
	answers := r.Kept.Delete(ctx, names)
	var deleted []string
	kept := map[string]string{}
	for _, name := range names {
		switch err := answers[name]; {
		case errors.Is(err, slurm.ErrKept):
			kept[name] = strings.TrimPrefix(err.Error(), slurm.ErrKept.Error()+": ")
		case err != nil:
			r.refused(name, err, slog.LevelDebug)
		default:
			deleted = append(deleted, name)
		}
	}
	if len(kept) > 0 {
		r.Kept.Keep(kept)
	}
	if len(deleted) > 0 {
		r.Log(slog.LevelInfo, "deleted the records of nodes whose pods are gone", listOf(deleted))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range kept {
		r.pods.Deleted(name) // it is settled: they look after it
	}
	if len(deleted) == 0 {
		return
	}
	r.status.Deleted += len(deleted)
	for _, name := range deleted {
		r.pods.Deleted(name)
	}
	r.lookSoon()
}

func (r *Reconciler) refused(name string, err error, level slog.Level) {
	r.Log(level, "slurmctld keeps a node whose pod is gone", slog.String("node", name), slog.Any("error", err))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods.Refused(name, err.Error())
}
