package slurm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scontrol is a program that answers with files and a status, as a recorded
// scontrol did.
func scontrol(t *testing.T, stdout, stderr, status string) Scontrol {
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"$@\" >> " + dir + "/calls\ncat " + dir + "/out\ncat " + dir + "/err >&2\nexit " + status + "\n"
	for name, content := range map[string]string{"out": stdout, "err": stderr, "scontrol": script} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755))
	}
	return Scontrol{Path: filepath.Join(dir, "scontrol"), Env: os.Environ()}
}

func calls(t *testing.T, s Scontrol) string {
	out, err := os.ReadFile(filepath.Join(filepath.Dir(s.Path), "calls"))
	require.NoError(t, err)
	return string(out)
}

func recorded(t *testing.T, name string) string {
	out, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(out)
}

func TestNode(t *testing.T) {
	for _, version := range []string{"24.11", "26.05"} {
		t.Run(version, func(t *testing.T) {
			s := scontrol(t, recorded(t, "node-"+version+".json"), "", "0")
			n, err := s.WholeNode(t.Context(), "n1")
			require.NoError(t, err)
			assert.Equal(t, "show node n1 --json\n", calls(t, s))
			assert.Equal(t, []any{"n1", 2, 1, int64(300), "0"}, []any{n.Name, n.CPUs, n.CPUsEffective, n.RealMemory, string(n.SpecializedCPUs)})
			assert.Equal(t, []any{2, 1, 1, int64(0)}, []any{n.Sockets, n.Cores, n.Threads, n.TmpDisk})
			assert.True(t, n.Is("IDLE") && n.Is("DYNAMIC_NORM") && n.Responding())
			assert.False(t, n.Busy() || n.Drained() || n.Invalid())
			assert.WithinDuration(t, time.Unix(1795226043, 0), n.SlurmdStartAt.Time(), 24*time.Hour)
			other, err := s.WholeNode(t.Context(), "n2")
			require.NoError(t, err)
			assert.Nil(t, other)
		})
	}
}

func TestNoNode(t *testing.T) {
	n, err := scontrol(t, `{"nodes": [], "errors": [], "warnings": [{"description": "No nodes to dump"}]}`, "", "0").WholeNode(t.Context(), "n1")
	require.NoError(t, err)
	assert.Nil(t, n)
}

// An error is never taken for "there is no record".
func TestNoAnswer(t *testing.T) {
	for name, c := range map[string]struct{ stdout, stderr, status, want string }{
		"unreachable": {
			"", "scontrol: error: Unable to contact slurm controller (connect failure)\n", "1",
			"scontrol show node n1 --json: Unable to contact slurm controller (connect failure)",
		},
		"silent":         {"", "", "3", "scontrol show node n1 --json: exit status 3"},
		"told in JSON":   {`{"nodes": [], "errors": [{"description": "Slurmctld", "error": "is starting"}]}`, "", "0", "Slurmctld is starting"},
		"no JSON":        {"slurm_load_node error: Zero Bytes", "", "0", "cannot read the answer of scontrol show"},
		"a strange time": {`{"nodes": [{"name": "n1", "slurmd_start_time": "now"}]}`, "", "0", "cannot read a time"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := scontrol(t, c.stdout, c.stderr, c.status).WholeNode(t.Context(), "n1")
			require.ErrorContains(t, err, c.want)
		})
	}
}

// An answer without the list is no empty list.
func TestNoList(t *testing.T) {
	for _, out := range []string{`{"errors": [], "warnings": []}`, `{"nodes": null, "jobs": null}`} {
		s := scontrol(t, out, "", "0")
		_, err := s.WholeNode(t.Context(), "n1")
		require.ErrorContains(t, err, `there is no list "nodes" in it`)
		_, err = s.Nodes(t.Context())
		require.ErrorContains(t, err, `there is no list "nodes" in it`)
		_, err = s.Job(t.Context(), "1")
		require.ErrorContains(t, err, `there is no list "jobs" in it`)
	}
	nodes, err := scontrol(t, `{"nodes": [], "errors": []}`, "", "0").Nodes(t.Context())
	require.NoError(t, err)
	require.Empty(t, nodes)
}

func TestPing(t *testing.T) {
	up := `{"pings": [{"hostname": "a", "responding": false}, {"hostname": "b", "responding": true}], "errors": []}`
	require.NoError(t, scontrol(t, up, "", "0").Ping(t.Context()))
	down := `{"pings": [{"hostname": "a", "responding": false}, {"hostname": "b", "responding": false}]}`
	require.EqualError(t, scontrol(t, down, "", "0").Ping(t.Context()), "slurmctld does not answer on a, b")
}

func TestRegistered(t *testing.T) {
	s := scontrol(t, "centre\nslurm_1\n", "", "0")
	require.NoError(t, os.Symlink(s.Path, filepath.Join(filepath.Dir(s.Path), "sacctmgr")))
	for cluster, want := range map[string]bool{"centre": true, "Slurm_1": true, "slurm": false} {
		registered, err := s.Registered(t.Context(), cluster)
		require.NoError(t, err)
		assert.Equal(t, want, registered, cluster)
	}
	assert.Contains(t, calls(t, s), "--noheader --parsable2 show cluster format=Cluster\n")

	s = scontrol(t, "", "sacctmgr: error: Sending PersistInit msg: Connection refused\n", "1")
	require.NoError(t, os.Symlink(s.Path, filepath.Join(filepath.Dir(s.Path), "sacctmgr")))
	_, err := s.Registered(t.Context(), "centre")
	require.ErrorContains(t, err, "sacctmgr show cluster: ")
}

func TestDeleteNode(t *testing.T) {
	require.NoError(t, scontrol(t, "", "", "0").DeleteNode(t.Context(), "n1"))
	gone := scontrol(t, "", "scontrol: error: failed to delete nodes n1\ndelete_node nodename=n1: Invalid node name specified\n", "1")
	require.ErrorIs(t, gone.DeleteNode(t.Context(), "n1"), ErrNoNode)
	busy := scontrol(t, "", "delete_node nodename=n1: Requested nodes are busy\n", "1")
	require.ErrorIs(t, busy.DeleteNode(t.Context(), "n1"), ErrBusy)
	away := scontrol(t, "", "scontrol: error: Unable to contact slurm controller (connect failure)\n", "1")
	err := away.DeleteNode(t.Context(), "n1")
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrBusy)
	require.NotErrorIs(t, away.DeleteNode(t.Context(), "busy-0"), ErrBusy, "the name of a node says nothing")
	refused := scontrol(t, "", "delete_node nodename=busy-0: Access/permission denied\n", "1")
	require.NotErrorIs(t, refused.DeleteNode(t.Context(), "busy-0"), ErrBusy)
}

func TestUpdateNode(t *testing.T) {
	s := scontrol(t, "", "", "0")
	require.NoError(t, s.UpdateNode(t.Context(), "n1", []string{"weight=5", "availablefeatures=a,b"}))
	assert.Equal(t, "update nodename=n1 weight=5 availablefeatures=a,b\n", calls(t, s))
	refused := scontrol(t, "", "scontrol: error: Invalid feature specification\nslurm_update error: Invalid feature specification\n", "1")
	require.NotErrorIs(t, refused.UpdateNode(t.Context(), "n1", nil), ErrUnreachable)
	away := scontrol(t, "", "slurm_update error: Unable to contact slurm controller (connect failure)\n", "1")
	require.ErrorIs(t, away.UpdateNode(t.Context(), "n1", nil), ErrUnreachable)
}

func TestDrainFailAndResume(t *testing.T) {
	s := scontrol(t, "", "", "0")
	require.NoError(t, s.DrainNode(t.Context(), "n1", "slurmlet: why not"))
	require.NoError(t, s.FailNode(t.Context(), "n1", "slurmlet: out of time"))
	require.NoError(t, s.ResumeNode(t.Context(), "n1"))
	require.NoError(t, s.ReinstateNode(t.Context(), "n1"))
	assert.Equal(t, "update nodename=n1 state=drain reason=slurmlet: why not\nupdate nodename=n1 state=down reason=slurmlet: out of time\n"+
		"update nodename=n1 state=resume\nupdate nodename=n1 state=resume reason=slurmlet: the node takes jobs again\n", calls(t, s))
	power := scontrol(t, "", "", "0")
	require.NoError(t, power.PowerDownNode(t.Context(), "n[1-2]", "slurmlet: why not"))
	require.NoError(t, power.PowerDownNode(t.Context(), "n1", ""))
	require.NoError(t, power.PowerOffNode(t.Context(), "n1", "slurmlet: out of time"))
	assert.Equal(t, "update nodename=n[1-2] state=power_down_asap reason=slurmlet: why not\nupdate nodename=n1 state=power_down_asap\n"+
		"update nodename=n1 state=power_down_force reason=slurmlet: out of time\n", calls(t, power))
	gone := scontrol(t, "", "slurm_update error: Invalid node name specified\n", "1")
	require.ErrorContains(t, gone.FailNode(t.Context(), "n1", "x"), "Invalid node name specified")
}

func TestNoAnswerInTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	err := scontrol(t, "", "", "0").UpdateNode(ctx, "n1", nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, ErrUnreachable)
}

// TestDeleteNodes: of a list, slurmctld says what it has not deleted (recorded from 24.11.5 and 26.05.5).
func TestDeleteNodes(t *testing.T) {
	for name, c := range map[string]struct{ stderr, status, kept, says string }{
		"all":        {"", "0", "", ""},
		"one busy":   {"scontrol: error: failed to delete nodes n2\ndelete_node nodename=n1,n2,n3: Requested nodes are busy\n", "1", "n2", "busy"},
		"some gone":  {"scontrol: error: failed to delete nodes n[3-5],nope\ndelete_node nodename=n[3-6],nope: Invalid node name specified\n", "1", "n[3-5],nope", "Invalid node name"},
		"not named":  {"delete_node nodename=n1,n2: Requested nodes are busy\n", "1", "", "busy"},
		"no answer":  {"scontrol: error: Unable to contact slurm controller (connect failure)\n", "1", "", "Unable to contact"},
		"no command": {"", "1", "", "exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := scontrol(t, "", c.stderr, c.status)
			kept, err := s.DeleteNodes(t.Context(), "n1,n2,n3")
			assert.Equal(t, "delete nodename=n1,n2,n3\n", calls(t, s))
			assert.Equal(t, c.kept, kept)
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
			assert.Equal(t, name == "no answer", errors.Is(err, ErrUnreachable))
		})
	}
}
