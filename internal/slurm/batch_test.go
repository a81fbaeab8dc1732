package slurm

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCommented reads what squeue 24.11.5 and 26.05.5 show of a job of two nodes.
func TestCommented(t *testing.T) {
	const shown = `{"job_id":1,"user_name":"alice","comment":"slurmlet.dev/group=a ns/b","job_state":["RUNNING"],"state_reason":"None",
		"state_description":"","restart_cnt":2,"cpus_per_task":{"set":true,"number":CPUS},"tasks":{"set":true,"number":TASKS},
		"tasks_per_node":{"set":true,"number":PER},"start_time":{"set":true,"number":1795896879},"job_resources":{"nodes":{"allocation":[
		{"name":"n2","cpus":{"count":4}},{"name":"n1","cpus":{"count":2}}]}}}`
	for name, c := range map[string]struct {
		cpus, tasks, per string
		want             []int
	}{
		"one task a node":         {"1", "2", "1", []int{1, 1}},
		"whole nodes":             {"1", "2", "0", []int{1, 1}},
		"as many as fit":          {"2", "3", "0", []int{2, 1}},
		"several on the first":    {"1", "5", "0", []int{4, 1}},
		"more CPUs than a node's": {"8", "2", "0", []int{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			text := []byte(shown)
			for from, to := range map[string]string{"CPUS": c.cpus, "TASKS": c.tasks, "PER": c.per} {
				text = bytes.Replace(text, []byte(from), []byte(to), 1)
			}
			var s shownBatch
			require.NoError(t, json.Unmarshal(text, &s))
			j := s.commented()
			require.Equal(t, []string{"n2", "n1"}, j.NodeNames)
			require.Equal(t, c.want, j.NodeTasks)
			require.Equal(t, "slurmlet.dev/group=a ns/b", j.Comment)
			require.Equal(t, 2, j.Restarts)
			require.Empty(t, j.Reason)
		})
	}
	var s shownBatch
	require.NoError(t, json.Unmarshal([]byte(`{"job_id":2,"job_state":["PENDING"],"state_reason":"Resources","job_resources":null}`), &s))
	require.Empty(t, s.commented().NodeNames)
	require.Equal(t, "Resources", s.commented().Reason)
}

// says is a Scontrol beside which each program is a script.
func says(t *testing.T, programs map[string]string) Scontrol {
	t.Helper()
	dir := t.TempDir()
	for name, script := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755))
	}
	return Scontrol{Path: filepath.Join(dir, "scontrol"), Squeue: filepath.Join(dir, "squeue")}
}

// TestSbatch: only Slurm's own refusal says that there is no job.
func TestSbatch(t *testing.T) {
	self := &Account{Name: "self", UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	if os.Geteuid() != 0 {
		t.Skip("only root becomes another user")
	}
	for name, c := range map[string]struct {
		script  string
		refused string
		unknown bool
	}{
		"a job":        {`[ "$*" = "--mem=1 --parsable" ] && [ "$(cat)" = "#!/bin/sh" ] && echo "7;cluster"`, "", false},
		"refused":      {`echo "sbatch: error: Batch job submission failed: Invalid partition name specified" >&2; exit 1`, "Invalid partition name specified", false},
		"no option":    {`echo "sbatch: unrecognized option '--foo'" >&2; exit 255`, "unrecognized option '--foo'", false},
		"no value":     {`echo "sbatch: error: Invalid --mem specification" >&2; exit 255`, "Invalid --mem specification", false},
		"no slurmctld": {`echo "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)" >&2; exit 1`, "", true},
		"no answer":    {`echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1`, "", true},
		"no number":    {`echo hello`, "", true},
		"killed":       {`kill -9 $$`, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := says(t, map[string]string{"sbatch": c.script}).Sbatch(t.Context(), self, "#!/bin/sh\n", "--mem=1")
			refused, is := errors.AsType[*RefusedError](err)
			switch {
			case c.refused != "":
				require.True(t, is, "%v", err)
				require.Contains(t, refused.Text, c.refused)
			case c.unknown:
				require.Error(t, err)
				require.False(t, is, "%v", err)
			default:
				require.NoError(t, err)
				require.Equal(t, uint32(7), id)
			}
		})
	}
}

// TestCommentedLines: a comment with a line of its own is no job, or one whose record says so.
func TestCommentedLines(t *testing.T) {
	s := says(t, map[string]string{"squeue": `printf '7|RUNNING|None|x|n1|slurmlet.dev/group=a ns/b\n8|RUNNING|None|x|n1|mine\nx|y|slurmlet.dev/group=\n9|PENDING|Priority|x||slurmlet.dev/group=b\n'`})
	all, err := s.CommentedLines(t.Context(), "slurmlet.dev/group=")
	require.NoError(t, err)
	require.Equal(t, map[uint32]string{7: "7|RUNNING|None|x|n1|slurmlet.dev/group=a ns/b", 9: "9|PENDING|Priority|x||slurmlet.dev/group=b"}, all)
	_, err = says(t, map[string]string{"squeue": `echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1`}).CommentedLines(t.Context(), "")
	require.ErrorIs(t, err, ErrUnreachable)
}

// TestCommentedJobs: only slurmctld's own answer says that it has no such job.
func TestCommentedJobs(t *testing.T) {
	all, err := says(t, map[string]string{"squeue": `echo '{"jobs":[{"job_id":7},{"job_id":8}]}'`}).CommentedJobs(t.Context(), []uint32{7})
	require.NoError(t, err)
	require.Len(t, all, 1)
	all, err = says(t, map[string]string{"squeue": `echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1`}).CommentedJobs(t.Context(), []uint32{7})
	require.NoError(t, err)
	require.Empty(t, all)
	for _, script := range []string{`echo '{}'`, `echo`, `exit 1`, `echo "squeue: error: Unable to contact slurm controller" >&2; exit 1`} {
		_, err = says(t, map[string]string{"squeue": script}).CommentedJobs(t.Context(), []uint32{7})
		require.Error(t, err, script)
	}
}

// TestFindAccount asks this machine's own name services.
func TestFindAccount(t *testing.T) {
	a, err := Scontrol{}.FindAccount(t.Context(), "root")
	require.NoError(t, err)
	require.Equal(t, "root", a.Name)
	require.Zero(t, a.UID)
	require.Contains(t, a.Groups, uint32(0))
	_, err = Scontrol{}.FindAccount(t.Context(), "nobody-has-this-name")
	require.Error(t, err)
}
