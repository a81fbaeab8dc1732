package slurmctld

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// TestNoise: errors of a known and harmless cause are none, as long as the cause holds. What tells of a lost job is counted.
func TestNoise(t *testing.T) {
	const (
		noState = "Could not open job state file /state/job_state: No such file or directory"
		backup  = "NOTE: Trying backup state save file. Jobs may be lost!"
		noMail  = "Configured MailProg is invalid"
		noDBD   = "Sending PersistInit msg: Connection refused"
	)
	type world struct{ state, mailProg, old bool }
	var fresh world
	for _, c := range []struct {
		line  process.Line
		world world
		noise bool
		lost  int
	}{
		{process.Line{Level: slog.LevelError, Text: noState}, fresh, true, 0},
		{process.Line{Level: slog.LevelError, Text: backup}, fresh, true, 0},
		{process.Line{Level: slog.LevelError, Text: noState}, world{state: true}, false, 0},
		{process.Line{Level: slog.LevelError, Text: backup}, world{state: true}, false, 1},
		{process.Line{Level: slog.LevelError, Text: "NOTE: Trying backup state save file. Triggers may be lost!"}, world{state: true}, false, 0},
		{process.Line{Level: slog.LevelInfo, Text: "No job state file (/state/job_state.old) to recover"}, world{state: true}, false, 1},
		{process.Line{Level: slog.LevelInfo, Text: "No job state file (/state/job_state.old) to recover"}, fresh, false, 0},
		{process.Line{Level: slog.LevelError, Text: "Script for JobId=7 lost, state set to FAILED"}, fresh, false, 1},
		{process.Line{Level: slog.LevelError, Text: "Incomplete job state save file"}, fresh, false, 1},
		{process.Line{Level: slog.LevelError, Text: `_find_node_record: lookup failure for node "node-7"`}, fresh, true, 0},
		{process.Line{Level: slog.LevelError, Text: noMail}, fresh, true, 0},
		{process.Line{Level: slog.LevelError, Text: noMail}, world{mailProg: true}, false, 0},
		{process.Line{Level: slog.LevelError, Text: noDBD}, fresh, true, 0},
		{process.Line{Level: slog.LevelError, Text: noDBD}, world{old: true}, false, 0},
		{process.Line{Level: slog.LevelError, Text: "slurm_send_node_msg: [socket:[248]] slurm_bufs_sendto(msg_type=RESPONSE_CONFIG) failed: Unexpected missing socket error"}, world{old: true}, true, 0},
		{process.Line{Level: slog.LevelError, Text: "slurm_send_node_msg: [socket:[248]] slurm_bufs_sendto(msg_type=RESPONSE_CONFIG) failed: No route to host"}, world{old: true}, false, 0},
		{process.Line{Level: slog.LevelError, Text: "sched: JobId=7 lost: " + noMail}, fresh, false, 0},
	} {
		t.Run(c.line.Text, func(t *testing.T) {
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
			p := New(Options{
				Client: &slurm.Questions{Client: slurm.Scontrol{}}, RunDir: run, Log: func(slog.Level, string, ...slog.Attr) {}, Life: func() Life { return Life{Started: c.world.old} },
			})
			_, err := p.saved.Prepare(t.Context(), state, "24.11", 0, 0)
			require.NoError(t, err)
			p.Heard(c.line)
			harmless, _ := p.IsNoise(c.line.Text)
			assert.Equal(t, c.noise, harmless)
			l := p.Status().Losses
			assert.Equal(t, c.lost, l.Count)
			if c.lost > 0 {
				p.Heard(process.Line{Level: slog.LevelError, Text: "another error"})
				assert.Equal(t, c.line.Text, p.Status().Losses.Last.Text, "a later error hides no lost job")
			}
		})
	}
}
