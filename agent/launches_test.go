package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

func TestHolds(t *testing.T) {
	for _, c := range []struct {
		name   string
		o      slurm.Outgoing
		waited time.Duration
		want   bool
	}{
		{"nothing is on its way", slurm.Outgoing{}, 0, false},
		{"a launch is", slurm.Outgoing{Sending: 1}, 9 * time.Second, true},
		{"and stays so", slurm.Outgoing{Sending: 1}, 10 * time.Second, false},
		{"one is about to be sent", slurm.Outgoing{Queued: 1}, 900 * time.Millisecond, true},
		{"it is for a dead node, and was sent before", slurm.Outgoing{Queued: 1}, time.Second, false},
		{"as another one is on its way", slurm.Outgoing{Sending: 1, Queued: 1}, 2 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, holds(c.o, c.waited)) })
	}
}
