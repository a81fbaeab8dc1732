// Package keptrecords has node records go that stay without a pod, once no job and no reservation names them.
//
// A record that somebody names is not deleted with its pod: slurmctld would end the pending jobs that name it, or start
// them on the node that gets its number. It stays DOWN, with a reason that begins with merge.ReasonKept, until the next pod of
// the name takes it over, or nobody names the node. The reason is all that is kept of it, so slurmctld's agent finds the
// record after its own restart, and with or without slurmlet's controller.
package keptrecords

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/backoff"
	"github.com/slurmlet/slurmlet/internal/merge"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// Slurm is what is asked of slurmctld.
type Slurm interface {
	merge.Slurm
	Node(ctx context.Context, name string) (*slurm.Node, error)
	Nodes(ctx context.Context) ([]slurm.Node, error)
}

// Options are what a Keeper needs.
type Options struct {
	Slurm Slurm
	// Serving says whether slurmctld serves.
	Serving func() bool
	// QuestionLimit bounds one question.
	QuestionLimit func() time.Duration
	// Done is closed when the agent has ended.
	Done <-chan struct{}
	Log  func(level slog.Level, text string, attrs ...slog.Attr)
}

// Keeper knows the records that stay without a pod.
type Keeper struct {
	Options
	wake chan struct{}

	lock   sync.Mutex
	status Status
	kept   map[string]string // by name, and why

	// searched is when all records were looked at; run's own.
	searched time.Time
	failures int
}

// Status is what there is to tell.
type Status struct {
	// Count is how many records stay without a pod. Names has some of them, and why.
	Count int               `json:"count"`
	Names map[string]string `json:"names,omitempty"`
	// Deleted counts those that nobody named any more.
	Deleted int `json:"deleted"`
}

const (
	// lookEvery is how often it is asked who names the nodes of such records, as long as there are some.
	lookEvery = 10 * time.Second
	// searchEvery is how often all records are looked at: agents that do not ask slurmctld's agent keep records
	// themselves, and tell nobody.
	searchEvery = time.Hour
	// startPause is how long it waits for a slurmctld that does not serve yet.
	startPause = time.Second
	// mostAlone is up to how many records are asked for one by one.
	mostAlone = 16
	// mostNamed is how many the status names.
	mostNamed = 20
)

// New knows no record.
func New(o Options) *Keeper {
	return &Keeper{Options: o, wake: make(chan struct{}, 1), kept: map[string]string{}}
}

// Keep notes records that stay, and why.
func (k *Keeper) Keep(names map[string]string) {
	k.lock.Lock()
	for name, why := range names {
		if _, known := k.kept[name]; !known {
			k.Log(slog.LevelInfo, "a node's record stays without its pod: "+why, slog.String("node", name))
		}
		k.kept[name] = why
	}
	k.lock.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Status is what there is to tell; nil for nothing.
func (k *Keeper) Status() *Status {
	if k == nil {
		return nil
	}
	k.lock.Lock()
	defer k.lock.Unlock()
	s := k.status
	s.Count = len(k.kept)
	for _, name := range slices.Sorted(maps.Keys(k.kept))[:min(len(k.kept), mostNamed)] {
		if s.Names == nil {
			s.Names = map[string]string{}
		}
		s.Names[name] = k.kept[name]
	}
	return &s
}

// Rows are what a person is told.
func (s *Status) Rows(row func(name, format string, args ...any)) {
	if s.Count > 0 || s.Deleted > 0 {
		row("Records kept", "%d stay without a pod, because somebody names the nodes, and %d were deleted later", s.Count, s.Deleted)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Names)) {
		row("Record kept", "%s: %s", name, s.Names[name])
	}
}

// Run looks after the records until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	for {
		pause := k.round(ctx)
		select {
		case <-time.After(pause):
		case <-k.wake:
			select { // not for each record
			case <-time.After(lookEvery):
			case <-ctx.Done():
				return
			case <-k.Done:
				return
			}
		case <-ctx.Done():
			return
		case <-k.Done:
			return
		}
	}
}

// round looks once, and returns the time until the next look.
func (k *Keeper) round(ctx context.Context) time.Duration {
	if !k.Serving() {
		return startPause
	}
	err := k.search(ctx)
	if err == nil {
		err = k.look(ctx)
	}
	switch {
	case err != nil:
		k.Log(slog.LevelDebug, "cannot look after records that stay without a pod", slog.Any("error", err))
		k.failures++
		return backoff.Grow(lookEvery, k.failures-1, searchEvery)
	case len(k.names()) == 0:
		k.failures = 0
		return time.Until(k.searched.Add(searchEvery))
	}
	k.failures = 0
	return lookEvery
}

func (k *Keeper) names() []string {
	k.lock.Lock()
	defer k.lock.Unlock()
	return slices.Sorted(maps.Keys(k.kept))
}

// search finds the records that stay, of whatever agent has kept them.
func (k *Keeper) search(ctx context.Context) error {
	if !k.searched.IsZero() && time.Since(k.searched) < searchEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*k.QuestionLimit())
	defer cancel()
	nodes, err := k.Slurm.Nodes(ctx)
	if err != nil {
		return err
	}
	k.searched = time.Now()
	k.lock.Lock()
	defer k.lock.Unlock()
	for i := range nodes {
		if n := &nodes[i]; Marked(n) {
			why, _, _ := strings.Cut(strings.TrimPrefix(n.Reason, merge.ReasonKept), separator)
			k.kept[n.Name] = why
		}
	}
	return nil
}

// separator is what slurmctld puts before a reason of its own ("Not responding").
const separator = " : "

// Marked says whether a record stays without a pod: nobody has resumed it.
func Marked(n *slurm.Node) bool {
	return strings.HasPrefix(n.Reason, merge.ReasonKept) && (n.Is("DOWN") || n.Drained())
}

// look asks who names the nodes, and deletes the records of those that nobody does.
func (k *Keeper) look(ctx context.Context) error {
	names := k.names()
	if len(names) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 4*k.QuestionLimit())
	defer cancel()
	claims, err := k.Slurm.Claims(ctx)
	if err != nil {
		return err
	}
	named, err := slurm.Named(claims, names)
	if err != nil {
		return err
	}
	nodes, err := k.records(ctx, names)
	if err != nil {
		return err
	}
	var unnamed []merge.Change
	k.lock.Lock()
	for _, name := range names {
		switch n := nodes[name]; {
		case n == nil || !Marked(n):
			delete(k.kept, name) // its next pod has it
		case named[name] != "":
			k.kept[name] = named[name]
		case n.Is("DOWN") || !n.Responding():
			unnamed = append(unnamed, merge.Change{Verb: merge.Delete, Node: name})
		}
	}
	k.lock.Unlock()
	k.delete(ctx, unnamed)
	return nil
}

// records are those of the names that there are.
func (k *Keeper) records(ctx context.Context, names []string) (map[string]*slurm.Node, error) {
	found := map[string]*slurm.Node{}
	if len(names) > mostAlone {
		nodes, err := k.Slurm.Nodes(ctx)
		for i := range nodes {
			found[nodes[i].Name] = &nodes[i]
		}
		return found, err
	}
	for _, name := range names {
		n, err := k.Slurm.Node(ctx, name)
		if err != nil {
			return nil, err
		}
		found[name] = n
	}
	return found, nil
}

func (k *Keeper) delete(ctx context.Context, changes []merge.Change) {
	if len(changes) == 0 {
		return
	}
	said := merge.Make(ctx, k.Slurm, changes)
	var deleted []string
	k.lock.Lock()
	defer k.lock.Unlock()
	for c, err := range said {
		switch {
		case err == nil:
			deleted = append(deleted, c.Node)
			delete(k.kept, c.Node)
		case errors.Is(err, slurm.ErrKept):
			k.kept[c.Node] = strings.TrimPrefix(err.Error(), slurm.ErrKept.Error()+": ")
		default:
			k.Log(slog.LevelDebug, "slurmctld keeps a record that nobody names", slog.String("node", c.Node), slog.Any("error", err))
		}
	}
	if len(deleted) > 0 {
		slices.Sort(deleted)
		k.status.Deleted += len(deleted)
		k.Log(slog.LevelInfo, "deleted the records of nodes without pods that nobody names any more",
			slog.String("nodes", hostlist.Of(slices.Values(deleted)).String()))
	}
}
