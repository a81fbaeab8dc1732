package drains

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// cluster is a slurmctld that has one record, and keeps what it is asked to do.
type cluster struct {
	slurm.Client
	record *slurm.Node
	asked  []string
}

func (c *cluster) Node(context.Context, string) (*slurm.Node, error) { return c.record, nil }

func (c *cluster) DrainNode(_ context.Context, _, reason string) error {
	c.asked = append(c.asked, "drain for "+reason)
	return nil
}

func (c *cluster) make(_ context.Context, verb node.Verb, reason, _ string) error {
	word := map[node.Verb]string{node.DrainNode: "drain with others", node.ResumeNode: "resume", node.PowerDownNode: "power down"}[verb]
	c.asked = append(c.asked, word+" for "+reason)
	return nil
}

// TestOwners: each owner sets and lifts its own drain, and leaves those of all others alone.
func TestOwners(t *testing.T) {
	for owner, beginning := range map[reasons.Owner]string{
		reasons.Agent: reasons.ByAgent, reasons.Command: reasons.ByCommand, reasons.Kubernetes: reasons.ByKubernetes, reasons.Disk: reasons.ByDisk,
	} {
		for _, stands := range []string{reasons.ByAgent + "x", reasons.ByCommand + "x", reasons.ByKubernetes + "x", reasons.ByDisk + "x", "bad disk", "Kill task failed"} {
			name := fmt.Sprintf("%s over %q", beginning, stands)
			c := &cluster{record: &slurm.Node{Name: "n1", State: []string{"IDLE", "DRAIN"}, Reason: stands}}
			d := &Drains{Node: "n1", Slurm: &slurm.Questions{Client: c, Least: time.Minute}, Make: c.make}
			own := reasons.Of(stands) == owner
			_, err := d.Set(t.Context(), owner, beginning+"y")
			foreign, is := errors.AsType[*ForeignError](err)
			require.Equal(t, own, !is, name)
			if is {
				require.Equal(t, stands, foreign.Reason)
				require.Empty(t, c.asked, name)
			}
			c.asked = nil
			changed, err := d.Lift(t.Context(), owner)
			require.Equal(t, own, changed, name)
			if own {
				require.NoError(t, err)
				require.Equal(t, []string{"resume for "}, c.asked)
				continue
			}
			require.ErrorAs(t, err, &foreign)
			require.Empty(t, c.asked, name)
		}
	}
}

func TestDrains(t *testing.T) {
	drained := []string{"IDLE", "DRAIN"}
	for name, c := range map[string]struct {
		owner   reasons.Owner
		reason  string // empty: it is lifted
		state   []string
		has     string
		elastic bool
		want    []string
	}{
		"a free node":                              {reasons.Disk, reasons.ByDisk + "x", []string{"IDLE"}, "", false, []string{"drain for " + reasons.ByDisk + "x"}},
		"many nodes for one reason":                {reasons.Agent, reasons.Stale, []string{"IDLE"}, "", false, []string{"drain with others for " + reasons.Stale}},
		"the same reason":                          {reasons.Kubernetes, reasons.ByKubernetes + "x", drained, reasons.ByKubernetes + "x", false, nil},
		"another reason":                           {reasons.Kubernetes, reasons.ByKubernetes + "y", drained, reasons.ByKubernetes + "x", false, []string{"drain for " + reasons.ByKubernetes + "y"}},
		"the disk's figures change":                {reasons.Disk, reasons.ByDisk + "y", drained, reasons.ByDisk + "x", false, nil},
		"nothing to lift":                          {reasons.Disk, "", []string{"IDLE"}, reasons.ByDisk + "x", false, nil},
		"an elastic node":                          {reasons.Kubernetes, reasons.ByKubernetes + "x", []string{"IDLE", "CLOUD"}, "", true, []string{"power down for " + reasons.ByKubernetes + "x"}},
		"an elastic node that comes":               {reasons.Disk, reasons.ByDisk + "x", []string{"IDLE", "CLOUD", "POWERING_UP"}, "", true, []string{"drain for " + reasons.ByDisk + "x"}},
		"an elastic node that goes":                {reasons.Disk, reasons.ByDisk + "x", []string{"IDLE", "CLOUD", "POWERING_DOWN"}, "", true, nil},
		"an elastic node, by command":              {reasons.Command, reasons.ByCommand + "x", []string{"IDLE", "CLOUD"}, "", true, []string{"drain for " + reasons.ByCommand + "x"}},
		"slurmctld's drain of a small node":        {reasons.Agent, reasons.Stale, []string{"IDLE", "DRAIN", "INVALID_REG"}, "Low CPUs", false, []string{"drain with others for " + reasons.Stale}},
		"a drain that slurmctld has added text to": {reasons.Disk, "", []string{"DOWN", "DRAIN"}, reasons.ByDisk + "x : Not responding", false, []string{"resume for "}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &cluster{record: &slurm.Node{Name: "n1", State: c.state, Reason: c.has}}
			d := &Drains{Node: "n1", Elastic: c.elastic, Slurm: &slurm.Questions{Client: m, Least: time.Minute}, Make: m.make}
			change := func() (bool, error) { return d.Set(t.Context(), c.owner, c.reason) }
			if c.reason == "" {
				change = func() (bool, error) { return d.Lift(t.Context(), c.owner) }
			}
			changed, err := change()
			require.NoError(t, err)
			assert.Equal(t, c.want, m.asked)
			assert.Equal(t, len(c.want) > 0, changed)
		})
	}
	m := &cluster{}
	d := &Drains{Node: "n1", Slurm: &slurm.Questions{Client: m, Least: time.Minute}, Make: m.make}
	_, err := d.Set(t.Context(), reasons.Disk, reasons.ByDisk+"x")
	require.ErrorIs(t, err, slurm.ErrNoRecord)
}
