package reconfig

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// registry is a slurmctld with claims and records.
type registry struct {
	reader
	claims         []slurm.Claim
	nodes          []slurm.Node
	fault          error
	begins, others []slurm.Job
}

func (r *registry) Claims(context.Context) ([]slurm.Claim, error)          { return r.claims, r.fault }
func (r *registry) Nodes(context.Context) ([]slurm.Node, error)            { return r.nodes, nil }
func (r *registry) Unfinished(context.Context) ([]slurm.Unfinished, error) { return nil, nil }

const againLater = ": want them changed or ended, or the nodes back; the edit is tried again every 20s"

func TestClaims(t *testing.T) {
	before := "PartitionName=a Nodes=ALL\nPartitionName=b Nodes=ALL\nNodeName=s[1-3]\n"
	for name, c := range map[string]struct {
		after  string
		claims []slurm.Claim
		why    string
	}{
		"nobody names a node":         {},
		"the node has a record":       {claims: []slurm.Claim{{Job: "1", Nodes: "d1"}, {Job: "2", Nodes: "d[1-2]", Holds: "d[1-2]"}}},
		"slurm.conf has it":           {claims: []slurm.Claim{{Job: "1", Nodes: "s[1-3]"}}},
		"an excluded node is no loss": {claims: []slurm.Claim{{Job: "1", Excluded: "gone"}}},
		"a reservation of all nodes":  {claims: []slurm.Claim{{Reservation: "r", Nodes: "gone", All: true}}},
		"a node has no record": {
			claims: []slurm.Claim{{Job: "1", Nodes: "d1,gone"}, {Job: "7_[1-3]", Nodes: "gone"}, {Reservation: "r", Nodes: "d[1-2],off"}},
			why: "slurmctld would end jobs (1,7_[1-3]) that name nodes without a record (gone)" + againLater +
				"\nslurmctld would take nodes without a record (off) from reservations (r)" + againLater,
		},
		"a job that runs names one": {
			claims: []slurm.Claim{{Job: "1", Nodes: "d1,gone", Holds: "d1"}},
			why:    "slurmctld would end jobs (1) that name nodes without a record (gone)" + againLater,
		},
		"nodes are removed": {
			after:  "PartitionName=a Nodes=ALL\nPartitionName=b Nodes=ALL\nNodeName=s1\n",
			claims: []slurm.Claim{{Job: "1", Holds: "s2"}, {Job: "2", Nodes: "s1"}, {Reservation: "r", Nodes: "s[1-3]"}},
			why: "slurmctld would end jobs (1) that name nodes which the edit removes (s2)" + againLater +
				"\nslurmctld would take nodes that the edit removes (s2,s3) from reservations (r)" + againLater,
		},
		"a partition is removed": {
			after:  "PartitionName=a Nodes=ALL\nNodeName=s[1-3]\n",
			claims: []slurm.Claim{{Reservation: "r", Nodes: "s1", Partition: "b"}, {Reservation: "q", Nodes: "s1", Partition: "a"}},
			why:    "slurmctld would delete reservations (r) of partitions that the edit removes (b)" + againLater,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.after == "" {
				c.after = before
			}
			was, next := readConf(t, before), readConf(t, c.after)
			r := opened(t, &registry{claims: c.claims, nodes: []slurm.Node{{Name: "d1"}, {Name: "d2"}, {Name: "s2"}, {Name: "s3"}}}, PreflightParse)
			err := r.claimsMayGo(t.Context(), removedPartitions{set: read(t, r), gone: gone(was, next), nodeChange: changeOfNodes(was, next)}, false)
			if c.why == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.why)
			assert.True(t, conf.IsInUse(err))
		})
	}
}

// TestNoClaims: a slurmctld that is away is asked again before it reconfigures. What cannot be read then is no answer.
func TestNoClaims(t *testing.T) {
	q := &registry{fault: slurm.ErrUnreachable}
	r := opened(t, q, PreflightParse)
	set := removedPartitions{set: read(t, r)}
	require.NoError(t, r.claimsMayGo(t.Context(), set, true))
	require.True(t, conf.IsInUse(r.claimsMayGo(t.Context(), set, false)))
	q.fault = errors.New("cannot read the answer of squeue")
	require.True(t, conf.IsInUse(r.claimsMayGo(t.Context(), set, true)))
	q.fault, q.claims = nil, []slurm.Claim{{Job: "1", Nodes: "n[1"}}
	require.True(t, conf.IsInUse(r.claimsMayGo(t.Context(), set, true)))
	r.Preflight = PreflightOff
	require.NoError(t, r.claimsMayGo(t.Context(), set, false))
}

func (r *registry) Unassociated(context.Context, string) (begins, others []slurm.Job, err error) {
	return r.begins, r.others, r.fault
}

// TestBegins: slurmctld is asked only when an edit begins to require associations.
func TestBegins(t *testing.T) {
	enforcing := func(enforce string) string { return "ClusterName=c1\nAccountingStorageEnforce=" + enforce + "\n" }
	for _, c := range []struct {
		before, after, cluster string
	}{
		{"none", "associations", "c1"}, {"nojobs", "Limits,nojobs", "c1"}, {"", "all", "c1"}, {"none", "none", ""}, {"limits", "associations", ""}, {"qos", "none", ""},
	} {
		assert.Equal(t, c.cluster, beginsToEnforce(readConf(t, enforcing(c.before)), readConf(t, enforcing(c.after))), "%+v", c)
	}
	q := &registry{fault: errors.New("sacctmgr: no")}
	r := opened(t, q, PreflightParse)
	require.NoError(t, r.beginsMayGo(t.Context(), removedPartitions{}))
	require.True(t, conf.IsInUse(r.beginsMayGo(t.Context(), removedPartitions{enforces: "c1"})))
	q.fault = nil
	require.NoError(t, r.beginsMayGo(t.Context(), removedPartitions{enforces: "c1"}))
	q.others = []slurm.Job{{ID: 6, User: "bob"}}
	require.NoError(t, r.beginsMayGo(t.Context(), removedPartitions{enforces: "c1"}), "it loses nothing")
	assert.Contains(t, *r.unassociated.Load(), "6 of bob")
	require.NoError(t, r.beginsMayGo(t.Context(), removedPartitions{}))
	assert.Nil(t, r.unassociated.Load(), "another edit")
	q.begins = []slurm.Job{{ID: 5, User: "alice"}}
	err := r.beginsMayGo(t.Context(), removedPartitions{enforces: "c1"})
	require.ErrorContains(t, err, "5 of alice")
	require.True(t, conf.IsInUse(err))
}
