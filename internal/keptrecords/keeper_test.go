package keptrecords

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/merge"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// table is slurmctld's records and claims.
type table struct {
	merge.Slurm
	nodes   []slurm.Node
	claims  []slurm.Claim
	err     error
	deleted []string
	asked   int
}

func (t *table) Nodes(context.Context) ([]slurm.Node, error) {
	t.asked++
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
	const gone = merge.ReasonKept + "job 7 names the node"
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

// TestTold: a record that slurmctld's agent has kept, and nobody answers for a while.
func TestTold(t *testing.T) {
	s := &table{}
	k := keeper(t, s)
	require.Equal(t, searchEvery, k.round(t.Context()).Round(time.Minute))
	require.Equal(t, 1, s.asked)
	k.Keep(map[string]string{"n1": "job 7 names the node"})
	s.nodes, s.err = []slurm.Node{node("n1", merge.ReasonKept+"x", "DOWN")}, slurm.ErrUnreachable
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
		s.nodes = append(s.nodes, node(fmt.Sprintf("n%d", i), merge.ReasonKept+"x", "DOWN"))
	}
	s.claims[0].Nodes = "n1,n7"
	k.round(t.Context())
	require.Equal(t, 2, s.asked)
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
