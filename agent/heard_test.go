package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurmctld/savedstate"
)

// TestTheLastErrorIsOne: every node is a part of its machine, and slurmd says so at every start. Errors of a known and
// harmless cause are none, as long as the cause holds.
func TestTheLastErrorIsOne(t *testing.T) {
	const (
		usual   = "Node configuration differs from hardware: CPUs=1:64(hw) Boards=1:1(hw)"
		noState = "Could not open job state file /state/job_state: No such file or directory"
		backup  = "NOTE: Trying backup state save file. Jobs may be lost!"
		noMail  = "Configured MailProg is invalid"
		noDBD   = "Sending PersistInit msg: Connection refused"
	)
	type world struct{ state, mailProg, old bool }
	var fresh world
	for _, c := range []struct {
		role  Role
		line  process.Line
		world world
		error bool
		lost  int
	}{
		{Slurmd, process.Line{Level: slog.LevelError, Text: "cannot bind"}, fresh, true, 0},
		{Slurmd, process.Line{Level: slog.LevelError, Text: usual}, fresh, false, 0},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: "####################"}, fresh, false, 0},
		{Slurmd, process.Line{Level: slog.LevelInfo, Text: "slurmd started"}, fresh, false, 0},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: usual}, fresh, true, 0},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: noState}, fresh, false, 0},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: backup}, fresh, false, 0},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: noState}, world{state: true}, true, 0},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: backup}, world{state: true}, true, 1},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: "NOTE: Trying backup state save file. Triggers may be lost!"}, world{state: true}, true, 0},
		{Slurmctld, process.Line{Level: slog.LevelInfo, Text: "No job state file (/state/job_state.old) to recover"}, world{state: true}, false, 1},
		{Slurmctld, process.Line{Level: slog.LevelInfo, Text: "No job state file (/state/job_state.old) to recover"}, fresh, false, 0},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: "Script for JobId=7 lost, state set to FAILED"}, fresh, true, 1},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: "Incomplete job state save file"}, fresh, true, 1},
		{Slurmd, process.Line{Level: slog.LevelError, Text: "Incomplete job state save file"}, fresh, true, 0},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: `_find_node_record: lookup failure for node "node-7"`}, fresh, false, 0},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: noMail}, fresh, false, 0},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: noMail}, world{mailProg: true}, true, 0},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: noDBD}, fresh, false, 0},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: noDBD}, world{old: true}, true, 0},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: "slurm_send_node_msg: [socket:[248]] slurm_bufs_sendto(msg_type=RESPONSE_CONFIG) failed: Unexpected missing socket error"}, world{old: true}, false, 0},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: "slurm_send_node_msg: [socket:[248]] slurm_bufs_sendto(msg_type=RESPONSE_CONFIG) failed: No route to host"}, world{old: true}, true, 0},
		{Slurmctld, process.Line{Level: slog.LevelError, Text: "sched: JobId=7 lost: " + noMail}, fresh, true, 0},
	} {
		t.Run(string(c.role)+" "+c.line.Text, func(t *testing.T) {
			run, state := t.TempDir(), t.TempDir()
			conf := "ClusterName=c\nSlurmctldHost=c\n"
			if c.world.mailProg {
				conf += "MailProg=/bin/none\n"
			}
			require.NoError(t, os.MkdirAll(filepath.Join(run, "conf"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(run, "conf", "slurm.conf"), []byte(conf), 0o600))
			if c.world.state {
				require.NoError(t, os.WriteFile(filepath.Join(state, "clustername"), []byte("c"), 0o600))
			}
			heard := 0
			a := &Agent{daemon: daemon{part: partOf(c.role)}, began: time.Now(), Options: Options{
				Config: Config{Role: c.role, RunDir: run}, Observe: func(n Notice) {
					if n.Source != Source {
						heard++
					}
				},
			}}
			a.saved = &savedState{agent: a, Store: savedstate.NewStore(savedstate.Options{Log: a.log})}
			_, err := a.saved.Prepare(t.Context(), state, 0, 0)
			require.NoError(t, err)
			a.status.Store(&Status{Started: c.world.old})
			a.heard(c.line)
			assert.Equal(t, c.error, a.lastError.Load() != nil, "%v", c.line)
			assert.Equal(t, 1, heard, "the log has every line")
			lost := 0
			if l := a.loss.Load(); l != nil {
				lost = l.Count
				a.heard(process.Line{Level: slog.LevelError, Text: "another error"})
				assert.Equal(t, c.line.Text, a.loss.Load().Last.Text, "a later error hides no lost job")
			}
			assert.Equal(t, c.lost, lost)
		})
	}
}

// TestWhatAStartWaitsForIsSaid: an error that passes by itself is none of the status, and is the reason of a start that lasts.
func TestWhatAStartWaitsForIsSaid(t *testing.T) {
	a := &Agent{daemon: daemon{part: partOf(Slurmctld)}, Options: Options{Config: Config{Role: Slurmctld}, Observe: func(Notice) {}}}
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
		{Status{State: lifecycle.Ready, Since: at.Add(time.Second), LastError: &LastError{At: at}}, "Earlier error"},
		{Status{State: lifecycle.Ready, Since: at, LastError: &LastError{At: at.Add(time.Second)}}, "Last error"},
		{Status{State: lifecycle.Starting, Since: at.Add(time.Second), LastError: &LastError{At: at}}, "Last error"},
	} {
		var text strings.Builder
		require.NoError(t, c.status.WriteText(&text))
		assert.Contains(t, text.String(), c.row)
	}
}
