package noderecords

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

// node is n1, whose state is as scontrol prints it.
func node(state string) clusterview.Node {
	all := strings.Split(state, "+")
	return clusterview.Node{Name: "n1", State: all[0], Flags: all[1:]}
}

func TestReport(t *testing.T) {
	for state, want := range map[string]peers.State{
		// A node that nobody needs.
		"IDLE+DYNAMIC_NORM": peers.Idle,
		"IDLE+CLOUD":        peers.Idle,
		"IDLE+DRAIN":        peers.Idle,
		"DOWN":              peers.Idle, // an administrator's wish: its slurmd answers
		"DOWN+INVALID_REG":  peers.Idle,
		"IDLE+PLANNED":      peers.Idle, // backfill thinks of a job that does not hold it
		"IDLE+BLOCKED":      peers.Idle, // an exclusive job on other nodes keeps jobs off
		"IDLE+FAIL":         peers.Idle,

		// A job holds it, whatever else there is.
		"ALLOCATED+DYNAMIC_NORM":           peers.Busy,
		"MIXED":                            peers.Busy,
		"IDLE+COMPLETING":                  peers.Busy,
		"DOWN+COMPLETING":                  peers.Busy,
		"DOWN+COMPLETING+NOT_RESPONDING":   peers.Busy,
		"ALLOCATED+NOT_RESPONDING":         peers.Busy,
		"MIXED+CLOUD+POWERING_UP":          peers.Busy,
		"ALLOCATED+DRAIN":                  peers.Busy,
		"ALLOCATED+POWER_DOWN":             peers.Busy,
		"MIXED+PLANNED":                    peers.Busy,
		"ALLOCATED+RESERVED+REBOOT_ISSUED": peers.Busy,

		// Somebody counts on it as it is, or nothing says that nobody does.
		"IDLE+RESERVED":          peers.Busy,
		"IDLE+MAINTENANCE+DRAIN": peers.Busy,
		"DOWN+RESERVED":          peers.Busy,
		"IDLE+REBOOT_REQUESTED":  peers.Busy,
		"DOWN+REBOOT_ISSUED":     peers.Busy,
		"UNKNOWN":                peers.Busy,
		"ERROR":                  peers.Busy,
		"":                       peers.Busy,

		// Its slurmd does not answer, or there is none.
		"DOWN+NOT_RESPONDING":          peers.Absent,
		"IDLE+NOT_RESPONDING":          peers.Absent,
		"IDLE+RESERVED+NOT_RESPONDING": peers.Absent,
		"UNKNOWN+NOT_RESPONDING":       peers.Absent,
		"FUTURE":                       peers.Absent,
		"IDLE+CLOUD+POWERED_DOWN":      peers.Absent,
		"IDLE+CLOUD+POWERING_DOWN":     peers.Absent,
		"IDLE+CLOUD+POWER_DOWN":        peers.Absent,
		"IDLE+CLOUD+POWERING_UP":       peers.Absent,
		"IDLE+CLOUD+POWER_UP":          peers.Absent,
	} {
		assert.Equal(t, want, Report([]clusterview.Node{node(state)}, nil, nil)[0].State, state)
		assert.Equal(t, peers.Busy, Report([]clusterview.Node{node(state)}, map[string]bool{"n1": true}, nil)[0].State, "a suspended job holds a node that is "+state)
	}
}

// TestReportOfPods: the next pod of a record that stays without one is not there before its slurmd has registered.
func TestReportOfPods(t *testing.T) {
	for state, want := range map[string]peers.State{"DOWN+DRAIN": peers.Absent, "IDLE+DRAIN": peers.Idle} {
		n := node(state)
		n.Reason = reasons.Kept + "StatefulSet n makes it again"
		assert.Equal(t, want, Report([]clusterview.Node{n}, nil, nil)[0].State, state)
	}
}

func TestReportOfDrains(t *testing.T) {
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
		got := Report([]clusterview.Node{n}, nil, nil)
		require.Equal(t, tt.want, got[0].Drain, "%s %q", tt.state, tt.reason)
		require.True(t, utf8.ValidString(got[0].Drain))
	}
	assert.Empty(t, Report(nil, nil, nil))
}
