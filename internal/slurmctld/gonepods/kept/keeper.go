// Package kept has node records go that stay without a pod, once no job and no reservation names them, and no
// workload makes the pod again.
//
// A record that somebody names is not deleted with its pod: slurmctld would end the pending jobs that name it, or start
// them on the node that gets its number. Nor is one whose pod a StatefulSet makes again: slurmctld would refuse jobs that
// name the node meanwhile. It stays DOWN, with a reason that begins with reasons.Kept, until the next pod of
// the name takes it over, or nobody names the node. The reason is all that is kept of it, so slurmctld's agent finds the
// record after its own restart, and with or without slurmlet's controller.
package kept

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/link/ask"
	"github.com/slurmlet/slurmlet/internal/link/merge"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// Slurm has the questions to slurmctld, and the changes, that a Keeper needs.
type Slurm interface {
	merge.Slurm
	Node(ctx context.Context, name string) (*slurm.Node, error)
	NamesWith(ctx context.Context, text string) ([]string, error)
	NodesOf(ctx context.Context, names string) ([]slurm.Node, error)
}

// Options are a Keeper's surroundings: what the agent gives it.
type Options struct {
	Slurm Slurm
	// Serving says whether slurmctld serves.
	Serving func() bool
	// QuestionLimit bounds one question.
	QuestionLimit func() time.Duration
	// Done is closed when the agent has ended.
	Done <-chan struct{}
	// Heard is when slurmlet's controller was heard last; zero for never. It is nil without a controller.
	Heard func() time.Time
	Log   func(level slog.Level, text string, attrs ...slog.Attr)
}

// Keeper knows the records that stay without a pod.
type Keeper struct {
	Options
	wake chan struct{}

	lock   sync.Mutex
	status Status
	kept   map[string]string // by name, and why
	// returning is what the controller has sent last of workloads; nil if it has sent nothing.
	returning *wire.Returning

	began time.Time
	// searched is when all records were looked at; run's own.
	searched time.Time
	failures int
}

// Status is what slurmlet status shows of them.
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
	// themselves, and nobody learns of it.
	searchEvery = time.Hour
	// startPause is how long it waits for a slurmctld that does not serve yet.
	startPause = time.Second
	// mostAlone is up to how many records are asked for one by one. With 10,000 records, the question for a list costs
	// as much as four of them.
	mostAlone = 4
	// mostNamed bounds how many records the status names.
	mostNamed = 20
	// timeToHear is how long after the agent's start records stay because a controller may yet say that their pods are
	// made again, and mostSilence how long what it has sent counts while it is away.
	timeToHear  = 5 * time.Minute
	mostSilence = time.Hour
)

// New knows no record.
func New(o Options) *Keeper {
	return &Keeper{Options: o, wake: make(chan struct{}, 1), kept: map[string]string{}, began: time.Now()}
}

// Keep notes records that stay, and why.
func (k *Keeper) Keep(names map[string]string) {
	if len(names) == 0 {
		return
	}
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

// Take notes what the controller sends of workloads.
func (k *Keeper) Take(r *wire.Returning) {
	if k == nil || r == nil {
		return
	}
	k.lock.Lock()
	defer k.lock.Unlock()
	k.returning = r
}

// Returns is a merge.Returns.
func (k *Keeper) Returns(node string) (workload string) {
	k.lock.Lock()
	defer k.lock.Unlock()
	return k.returns(node)
}

// returns names the StatefulSet that makes the node's pod again, empty if none does or nobody knows. The caller holds lock.
func (k *Keeper) returns(node string) (workload string) {
	if k.Heard == nil || time.Since(k.Heard()) > mostSilence {
		return ""
	}
	return k.returning.Of(node)
}

// mayHear: the controller may yet say which pods are made again, as a former agent knew. The caller holds lock.
func (k *Keeper) mayHear() bool {
	return k.Heard != nil && k.returning == nil && time.Since(k.began) < timeToHear
}

// Delete has records deleted, and says what became of each, as merge.Make does.
func (k *Keeper) Delete(ctx context.Context, names []string) map[string]error {
	changes := make([]ask.Change, len(names))
	for i, name := range names {
		changes[i] = ask.Change{Verb: ask.Delete, Node: name}
	}
	said := make(map[string]error, len(names))
	for c, err := range merge.MakeKnowing(ctx, k.Slurm, k.Returns, changes) {
		said[c.Node] = err
	}
	return said
}

// Status is nil where no record stays.
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

// Rows are for people.
func (s *Status) Rows(row func(name, format string, args ...any)) {
	if s.Count > 0 || s.Deleted > 0 {
		row("Records kept", "%d stay without a pod for now, and %d were deleted later", s.Count, s.Deleted)
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
	names, err := k.Slurm.NamesWith(ctx, reasons.Kept)
	if err != nil {
		return err
	}
	nodes, err := k.records(ctx, names)
	if err != nil {
		return err
	}
	k.searched = time.Now()
	k.lock.Lock()
	defer k.lock.Unlock()
	for name, n := range nodes {
		if n != nil && Marked(n) {
			k.kept[name], _ = reasons.IsKept(n.Reason)
		}
	}
	return nil
}

// Marked says whether a record stays without a pod: nobody has resumed it.
func Marked(n *slurm.Node) bool {
	_, kept := reasons.IsKept(n.Reason)
	return kept && (n.Is("DOWN") || n.Drained())
}

// look asks who names the nodes, and deletes the records of those that nobody does and whose pods are not made again.
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
	var unnamed []string
	k.lock.Lock()
	for _, name := range names {
		switch n := nodes[name]; {
		case n == nil || !Marked(n):
			delete(k.kept, name) // its next pod has it
		case named[name] != "":
			k.kept[name] = named[name]
		case k.returns(name) != "":
			k.kept[name] = merge.Again(k.returns(name))
		case k.mayHear() && merge.IsAgain(n.Reason):
		case n.Is("DOWN") || !n.Responding():
			unnamed = append(unnamed, name)
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
		for _, part := range merge.Parts(names) {
			nodes, err := k.Slurm.NodesOf(ctx, hostlist.Of(slices.Values(part)).Sorted().String())
			if err != nil {
				return nil, err
			}
			for i := range nodes {
				found[nodes[i].Name] = &nodes[i]
			}
		}
		return found, nil
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

func (k *Keeper) delete(ctx context.Context, names []string) {
	if len(names) == 0 {
		return
	}
	said := k.Delete(ctx, names)
	var deleted []string
	k.lock.Lock()
	defer k.lock.Unlock()
	for name, err := range said {
		switch {
		case err == nil:
			deleted = append(deleted, name)
			delete(k.kept, name)
		case errors.Is(err, slurm.ErrKept):
			k.kept[name] = strings.TrimPrefix(err.Error(), slurm.ErrKept.Error()+": ")
		default:
			k.Log(slog.LevelDebug, "slurmctld keeps a record whose pod does not come", slog.String("node", name), slog.Any("error", err))
		}
	}
	if len(deleted) > 0 {
		slices.Sort(deleted)
		k.status.Deleted += len(deleted)
		k.Log(slog.LevelInfo, "deleted the records of nodes without pods that nobody names or makes any more",
			slog.String("nodes", hostlist.Of(slices.Values(deleted)).String()))
	}
}
