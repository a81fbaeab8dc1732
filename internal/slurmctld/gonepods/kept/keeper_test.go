package kept

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/merge"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// table is slurmctld's records and claims.
type table struct {
	merge.Slurm
	nodes   []slurm.Node
	claims  []slurm.Claim
	err     error
	deleted []string
	changed []string
	asked   int
	lists   []string
}

func (t *table) NamesWith(_ context.Context, text string) (names []string, err error) {
	t.asked++
	for _, n := range t.nodes {
		if strings.Contains(n.Reason, text) {
			names = append(names, n.Name)
		}
	}
	return names, t.err
}

func (t *table) NodesOf(_ context.Context, names string) ([]slurm.Node, error) {
	t.lists = append(t.lists, names)
	return t.nodes, t.err
}

func (t *table) Node(_ context.Context, name string) (*slurm.Node, error) {
	for i := range t.nodes {
		if t.nodes[i].Name == name {
			return &t.nodes[i], t.err
		}
	}
	return nil, t.err
}

func (t *table) Claims(context.Context) ([]slurm.Claim, error) { return t.claims, t.err }

func (t *table) DeleteNode(_ context.Context, name string) error {
	t.deleted = append(t.deleted, name)
	return nil
}

func (t *table) DrainNode(_ context.Context, names, _ string) error {
	t.changed = append(t.changed, names)
	return nil
}

func node(name, reason string, state ...string) slurm.Node {
	return slurm.Node{Name: name, Reason: reason, State: state}
}

func keeper(t *testing.T, s *table) *Keeper {
	return New(Options{
		Slurm: s, Serving: func() bool { return true }, QuestionLimit: func() time.Duration { return time.Minute },
		Done: t.Context().Done(), Log: func(slog.Level, string, ...slog.Attr) {},
	})
}

// TestKeeper: what becomes of a record that stays without a pod.
func TestKeeper(t *testing.T) {
	const gone = reasons.Kept + "job 7 names the node"
	named := []slurm.Claim{{Job: "8", Nodes: "n[1-3]"}}
	for name, tt := range map[string]struct {
		node    slurm.Node
		claims  []slurm.Claim
		err     error
		told    string // the status, before the keeper looks
		deleted bool
		kept    map[string]string
	}{
		"somebody names it":              {node: node("n1", gone, "DOWN", "DRAIN"), claims: named, kept: map[string]string{"n1": "job 8 names the node"}},
		"nobody names it":                {node: node("n1", gone, "DOWN", "DRAIN"), deleted: true},
		"slurmctld has added a reason":   {node: node("n1", gone+" : Not responding", "DOWN"), deleted: true},
		"its next pod is about to begin": {node: node("n1", gone, "IDLE", "DRAIN"), kept: map[string]string{"n1": "job 7 names the node"}},
		"its slurmd has registered last": {node: node("n1", gone, "IDLE", "DRAIN", "NOT_RESPONDING"), deleted: true},
		"its next pod has it":            {node: node("n1", gone, "IDLE")},
		"somebody else's":                {node: node("n1", "fan", "DOWN", "DRAIN")},
		"nobody answers":                 {node: node("n1", gone, "DOWN"), err: slurm.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			s := &table{nodes: []slurm.Node{tt.node}, claims: tt.claims, err: tt.err}
			k := keeper(t, s)
			pause := k.round(t.Context())
			require.Equal(t, tt.deleted, len(s.deleted) == 1, s.deleted)
			require.Equal(t, tt.kept, k.Status().Names)
			require.Len(t, tt.kept, k.Status().Count)
			require.Positive(t, pause)
			if tt.deleted {
				require.Equal(t, 1, k.Status().Deleted)
			}
		})
	}
}

// TestReturning: what becomes of a record that nobody names, whose pod a StatefulSet makes again, or not.
func TestReturning(t *testing.T) {
	const again = "StatefulSet n makes it again"
	two := &wire.Returning{StatefulSets: []wire.StatefulSet{{Name: "n", Replicas: 2}}}
	for name, tt := range map[string]struct {
		returning    *wire.Returning
		began, heard time.Duration // before now
		alone        bool          // there is no controller
		reason       string
		deleted      bool
		why          string
	}{
		"it is made again":                         {returning: two, began: time.Hour, why: again},
		"the set is scaled in":                     {returning: &wire.Returning{StatefulSets: []wire.StatefulSet{{Name: "n", Replicas: 1}}}, deleted: true},
		"the set is gone":                          {returning: &wire.Returning{}, deleted: true},
		"the controller has told nothing yet":      {why: again},
		"a job named it until now":                 {reason: reasons.Kept + "job 7 names the node", deleted: true},
		"the controller is one of before":          {began: timeToHear, deleted: true},
		"there is no controller":                   {alone: true, deleted: true},
		"the controller is away":                   {returning: two, began: 2 * time.Hour, heard: mostSilence - time.Minute, why: again},
		"the controller has been away for an hour": {returning: two, began: 2 * time.Hour, heard: mostSilence, deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &table{nodes: []slurm.Node{node("n-1", cmp.Or(tt.reason, reasons.Kept+again), "DOWN", "DRAIN")}}
			k := keeper(t, s)
			k.began = time.Now().Add(-tt.began)
			if !tt.alone {
				k.Heard = func() time.Time { return time.Now().Add(-tt.heard) }
			}
			k.Take(tt.returning)
			require.Equal(t, lookEvery, min(lookEvery, k.round(t.Context())))
			require.Equal(t, tt.deleted, len(s.deleted) == 1, s.deleted)
			require.Equal(t, tt.why, k.Status().Names["n-1"])
			require.Empty(t, s.changed, "the record is drained and DOWN already")
		})
	}
	var none *Keeper
	none.Take(two)
}

// TestTold: a record that slurmctld's agent has kept, and nobody answers for a while.
func TestTold(t *testing.T) {
	s := &table{}
	k := keeper(t, s)
	require.Equal(t, searchEvery, k.round(t.Context()).Round(time.Minute))
	require.Equal(t, 1, s.asked)
	k.Keep(map[string]string{"n1": "job 7 names the node"})
	s.nodes, s.err = []slurm.Node{node("n1", reasons.Kept+"x", "DOWN")}, slurm.ErrUnreachable
	require.Equal(t, lookEvery, k.round(t.Context()))
	require.Less(t, lookEvery, k.round(t.Context()))
	require.Equal(t, 1, k.Status().Count)
	s.err = nil
	require.Equal(t, searchEvery, k.round(t.Context()).Round(time.Minute))
	require.Equal(t, []string{"n1"}, s.deleted)
	require.Equal(t, 1, s.asked, "all records were looked at again")

	s.claims = []slurm.Claim{{Job: "7", Nodes: "n[1"}} // nobody knows whom it names
	k.Keep(map[string]string{"n1": "x"})
	k.round(t.Context())
	require.Len(t, s.deleted, 1)
	require.Equal(t, 1, k.Status().Count)
}

// TestMany: many records are asked for at once.
func TestMany(t *testing.T) {
	s := &table{claims: []slurm.Claim{{Reservation: "r", Nodes: "n[0-99]"}}}
	k := keeper(t, s)
	for i := range 2 * mostAlone {
		s.nodes = append(s.nodes, node(fmt.Sprintf("n%d", i), reasons.Kept+"x", "DOWN"))
	}
	s.claims[0].Nodes = "n1,n7"
	k.round(t.Context())
	require.Equal(t, 1, s.asked)
	require.Equal(t, []string{"n[0-7]", "n[0-7]"}, s.lists, "of 10,000 records few stay")
	require.Equal(t, 2, k.Status().Count)
}

func (t *table) DeleteNodes(context.Context, string) (string, error) { return "", nil }

// TestNotServing: a slurmctld that does not serve is not asked.
func TestNotServing(t *testing.T) {
	s := &table{err: errors.New("asked")}
	k := keeper(t, s)
	k.Serving = func() bool { return false }
	require.Equal(t, startPause, k.round(t.Context()))
	require.Zero(t, s.asked)
	var none *Keeper
	require.Nil(t, none.Status())
}
