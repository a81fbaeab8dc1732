package slurm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMark(t *testing.T) {
	began := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for extra, want := range map[string]struct{ marked, pod bool }{
		Mark(began, true):  {true, true},
		Mark(began, false): {true, false},
		`{"site":"x"}`:     {},
		"":                 {},
	} {
		n := &Node{Extra: extra}
		require.Equal(t, want, struct{ marked, pod bool }{n.Marked(), n.MarkedPod()}, extra)
	}
	require.JSONEq(t, `{"slurmlet":"2026-11-23T12:00:00Z","pod":true}`, Mark(began, true))
}
