package agent

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/process"
)

// TestTheLastErrorIsOne: every node is a part of its machine, and slurmd says so at every start.
func TestTheLastErrorIsOne(t *testing.T) {
	const usual = "Node configuration differs from hardware: CPUs=1:64(hw) Boards=1:1(hw)"
	for _, c := range []struct {
		role  Role
		line  process.Line
		error bool
	}{
		{Slurmd, process.Line{Level: slog.LevelError, Text: "cannot bind"}, true},
		{Slurmd, process.Line{Level: slog.LevelError, Text: usual}, false},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: "####################"}, false},
		{Slurmd, process.Line{Level: slog.LevelInfo, Text: "slurmd started"}, false},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: usual}, true},
	} {
		heard := 0
		a := &Agent{daemon: daemon{part: partOf(c.role)}, Options: Options{Observe: func(Notice) { heard++ }}}
		a.heard(c.line)
		assert.Equal(t, c.error, a.lastError.Load() != nil, "%v", c.line)
		assert.Equal(t, 1, heard, "the log has every line")
	}
}

func TestAnErrorBeforeReadyIsAnEarlierOne(t *testing.T) {
	at := time.Unix(1000, 0)
	for _, c := range []struct {
		status Status
		row    string
	}{
		{Status{State: lifecycle.Ready, Since: at.Add(time.Second), LastError: &LastError{At: at}}, "Earlier error"},
		{Status{State: lifecycle.Ready, Since: at, LastError: &LastError{At: at.Add(time.Second)}}, "Last error"},
		{Status{State: lifecycle.Starting, Since: at.Add(time.Second), LastError: &LastError{At: at}}, "Last error"},
	} {
		var text strings.Builder
		require.NoError(t, c.status.WriteText(&text))
		assert.Contains(t, text.String(), c.row)
	}
}
