package peers

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// node is n1, whose state is as scontrol prints it.
func node(state string) slurm.Node {
	all := strings.Split(state, "+")
	return slurm.Node{Name: "n1", State: all}
}

func TestNodeReports(t *testing.T) {
	for state, want := range map[string]wire.State{
		// A node that nobody needs.
		"IDLE+DYNAMIC_NORM": wire.Idle,
		"IDLE+CLOUD":        wire.Idle,
		"IDLE+DRAIN":        wire.Idle,
		"DOWN":              wire.Idle, // an administrator's wish: its slurmd answers
		"DOWN+INVALID_REG":  wire.Idle,
		"IDLE+PLANNED":      wire.Idle, // backfill thinks of a job that does not hold it
		"IDLE+BLOCKED":      wire.Idle, // an exclusive job on other nodes keeps jobs off
		"IDLE+FAIL":         wire.Idle,

		// A job holds it, whatever else there is.
		"ALLOCATED+DYNAMIC_NORM":           wire.Busy,
		"MIXED":                            wire.Busy,
		"IDLE+COMPLETING":                  wire.Busy,
		"DOWN+COMPLETING":                  wire.Busy,
		"DOWN+COMPLETING+NOT_RESPONDING":   wire.Busy,
		"ALLOCATED+NOT_RESPONDING":         wire.Busy,
		"MIXED+CLOUD+POWERING_UP":          wire.Busy,
		"ALLOCATED+DRAIN":                  wire.Busy,
		"ALLOCATED+POWER_DOWN":             wire.Busy,
		"MIXED+PLANNED":                    wire.Busy,
		"ALLOCATED+RESERVED+REBOOT_ISSUED": wire.Busy,

		// Somebody counts on it as it is, or nothing says that nobody does.
		"IDLE+RESERVED":          wire.Busy,
		"IDLE+MAINTENANCE+DRAIN": wire.Busy,
		"DOWN+RESERVED":          wire.Busy,
		"IDLE+REBOOT_REQUESTED":  wire.Busy,
		"DOWN+REBOOT_ISSUED":     wire.Busy,
		"UNKNOWN":                wire.Busy,
		"ERROR":                  wire.Busy,
		"":                       wire.Busy,

		// Its slurmd does not answer, or there is none.
		"DOWN+NOT_RESPONDING":          wire.Absent,
		"IDLE+NOT_RESPONDING":          wire.Absent,
		"IDLE+RESERVED+NOT_RESPONDING": wire.Absent,
		"UNKNOWN+NOT_RESPONDING":       wire.Absent,
		"FUTURE":                       wire.Absent,
		"IDLE+CLOUD+POWERED_DOWN":      wire.Absent,
		"IDLE+CLOUD+POWERING_DOWN":     wire.Absent,
		"IDLE+CLOUD+POWER_DOWN":        wire.Absent,
		"IDLE+CLOUD+POWERING_UP":       wire.Absent,
		"IDLE+CLOUD+POWER_UP":          wire.Absent,
	} {
		assert.Equal(t, want, NodeReports([]slurm.Node{node(state)}, nil, nil)[0].State, state)
		assert.Equal(t, wire.Busy, NodeReports([]slurm.Node{node(state)}, map[string]bool{"n1": true}, nil)[0].State, "a suspended job holds a node that is "+state)
	}
}

// TestNodeReportsOfPods: the next pod of a record that stays without one is not there before its slurmd has registered.
func TestNodeReportsOfPods(t *testing.T) {
	for state, want := range map[string]wire.State{"DOWN+DRAIN": wire.Absent, "IDLE+DRAIN": wire.Idle} {
		n := node(state)
		n.Reason = reasons.Kept + "StatefulSet n makes it again"
		assert.Equal(t, want, NodeReports([]slurm.Node{n}, nil, nil)[0].State, state)
	}
}

func TestNodeReportsOfDrains(t *testing.T) {
	long := strings.Repeat("ä", mostReason)
	for _, tt := range []struct{ state, reason, want string }{
		{"IDLE", "", ""},
		{"IDLE", "it was drained once", ""},
		{"IDLE+DRAIN", "disk is full", "disk is full"},
		{"ALLOCATED+DRAIN", "disk is full", "disk is full"},
		{"DOWN", "fan", "fan"},
		{"DOWN+NOT_RESPONDING", "Not responding", "Not responding"},
		{"IDLE+FAIL", "x", "x"},
		{"IDLE+DRAIN", "", noReason},
		{"IDLE+DRAIN", " ", noReason},
		{"IDLE+DRAIN", "two\nlines\x1b[31m \xff", "two?lines?[31m ?"},
		{"IDLE+DRAIN", long, long[:mostReason]},
		{"IDLE+DRAIN", "x" + long, "x" + long[:mostReason-2]},
	} {
		n := node(tt.state)
		n.Reason = tt.reason
		got := NodeReports([]slurm.Node{n}, nil, nil)
		require.Equal(t, tt.want, got[0].Drain, "%s %q", tt.state, tt.reason)
		require.True(t, utf8.ValidString(got[0].Drain))
	}
	assert.Empty(t, NodeReports(nil, nil, nil))
}
