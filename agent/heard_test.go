package agent

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// TestTheLastErrorIsOne: every node is a part of its machine, and slurmd says so at every start. The frame of a warning says
// nothing.
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
		{Slurmctld, process.Line{Level: slog.LevelError, Text: `_find_node_record: lookup failure for node "node-7"`}, false},
		{Slurmd, process.Line{Level: slog.LevelError, Text: "Incomplete job state save file"}, true},
	} {
		t.Run(string(c.role)+" "+c.line.Text, func(t *testing.T) {
			heard := 0
			a := &Agent{daemon: daemon{part: partOf(c.role)}, Options: Options{
				Config: Config{Role: c.role}, Observe: func(n Notice) {
					if n.Source != Source {
						heard++
					}
				},
			}}
			if c.role == Slurmctld {
				a.client = &slurm.Questions{Client: slurm.Scontrol{}}
				a.ctld = a.newSlurmctld(slurm.Scontrol{})
			}
			a.status.Store(&Status{})
			a.heard(c.line)
			assert.Equal(t, c.error, a.lastError.Load() != nil, "%v", c.line)
			assert.Equal(t, 1, heard, "the log has every line")
		})
	}
}

// TestWhatAStartWaitsForIsSaid: an error that passes by itself is none of the status, and is the reason of a start that lasts.
func TestWhatAStartWaitsForIsSaid(t *testing.T) {
	a := &Agent{daemon: daemon{part: partOf(Slurmctld)}, Options: Options{Config: Config{Role: Slurmctld}, Observe: func(Notice) {}}}
	a.client = &slurm.Questions{Client: slurm.Scontrol{}}
	a.ctld = a.newSlurmctld(slurm.Scontrol{})
	a.status.Store(&Status{})
	a.heard(process.Line{Level: slog.LevelError, Text: "Sending PersistInit msg: Connection refused"})
	assert.Nil(t, a.lastError.Load())
	require.NotNil(t, a.lastSaid.Load())
	a.heard(process.Line{Level: slog.LevelError, Text: `_find_node_record: lookup failure for node "n"`})
	assert.Contains(t, a.lastSaid.Load().Text, "PersistInit", "what never means anything explains nothing")
}

func TestAnErrorBeforeReadyIsAnEarlierOne(t *testing.T) {
	at := time.Unix(1000, 0)
	for _, c := range []struct {
		status Status
		row    string
	}{
		{Status{State: supervisor.Ready, Since: at.Add(time.Second), LastError: &LastError{At: at}}, "Earlier error"},
		{Status{State: supervisor.Ready, Since: at, LastError: &LastError{At: at.Add(time.Second)}}, "Last error"},
		{Status{State: supervisor.Starting, Since: at.Add(time.Second), LastError: &LastError{At: at}}, "Last error"},
	} {
		var text strings.Builder
		require.NoError(t, c.status.WriteText(&text))
		assert.Contains(t, text.String(), c.row)
	}
}
