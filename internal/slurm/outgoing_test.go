package slurm

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sdiag answers as scontrol does in the other tests.
func sdiag(t *testing.T, stdout, stderr, status string) Scontrol {
	s := scontrol(t, stdout, stderr, status)
	s.Sdiag = s.Path
	return s
}

func TestOutgoing(t *testing.T) {
	for _, version := range []string{"24.11", "26.05"} {
		t.Run(version, func(t *testing.T) {
			s := sdiag(t, recorded(t, "outgoing-"+version+".json"), "", "0")
			o, err := s.Outgoing(t.Context())
			require.NoError(t, err)
			assert.Equal(t, Outgoing{Sending: 1}, o)
			assert.Equal(t, "--json\n", calls(t, s))
		})
	}
	o, err := sdiag(t, `{"statistics": {"agent_count": 0, "agent_queue_size": 2}, "errors": []}`, "", "0").Outgoing(t.Context())
	require.NoError(t, err)
	assert.Equal(t, Outgoing{Queued: 2}, o)
}

func TestNoOutgoing(t *testing.T) {
	for _, c := range []struct{ name, stdout, stderr, status, want string }{
		{"slurmctld is away", "", "slurm_get_statistics: Unable to contact slurm controller (connect failure)\n", "1", "sdiag: slurm_get_statistics: Unable to contact slurm controller (connect failure)"},
		{"no statistics", `{"errors": []}`, "", "0", "cannot read the answer of sdiag: there is no agent_count in it"},
		{"errors in the answer", `{"errors": [{"description": "no"}]}`, "", "0", "sdiag: no"},
		{"no JSON", "x", "", "0", "cannot read the answer of sdiag: invalid character 'x' looking for beginning of value\ninvalid character 'x' looking for beginning of value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := sdiag(t, c.stdout, c.stderr, c.status).Outgoing(t.Context())
			require.EqualError(t, err, c.want)
			require.Equal(t, c.name == "slurmctld is away", errors.Is(err, ErrUnreachable))
		})
	}
}

func TestReserve(t *testing.T) {
	s := scontrol(t, "", "", "0")
	require.NoError(t, s.Reserve(t.Context(), "x"))
	require.NoError(t, s.Unreserve(t.Context(), "x"))
	assert.Equal(t, "create reservation reservationname=x starttime=now duration=1 users=root nodes=ALL flags=ignore_jobs,overlap\ndelete reservationname=x\n", calls(t, s))
	refused := scontrol(t, "", "Error creating the reservation: Duplicate reservation name\n", "1")
	require.ErrorContains(t, refused.Reserve(t.Context(), "x"), "Duplicate reservation name")
}
