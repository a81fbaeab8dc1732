package slurm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const waiting = `{"jobs": [
	{"job_id": 1, "user_name": "alice", "account": "", "association_id": 0, "eligible_time": {"set": true, "number": 4102444800}},
	{"job_id": 2, "user_name": "alice", "account": "b", "association_id": 0, "eligible_time": {"set": true, "number": 4102444800}},
	{"job_id": 3, "user_name": "bob", "account": "", "association_id": 0, "eligible_time": {"set": true, "number": 4102444800}},
	{"job_id": 4, "user_name": "bob", "account": "", "association_id": 7, "eligible_time": {"set": true, "number": 4102444800}},
	{"job_id": 5, "user_name": "bob", "account": "", "association_id": 0, "eligible_time": {"set": true, "number": 1}},
	{"job_id": 6, "user_name": "carol", "account": "a", "partition": "gpu", "association_id": 0, "eligible_time": {"set": true, "number": 4102444800}},
	{"job_id": 7, "user_name": "carol", "account": "a", "partition": "gpu,cpu", "association_id": 0, "eligible_time": {"set": true, "number": 4102444800}},
	{"job_id": 8, "user_name": "carol", "account": "b", "partition": "cpu", "association_id": 0, "eligible_time": {"set": true, "number": 4102444800}},
	{"job_id": 9, "user_name": "carol", "account": "", "partition": "cpu", "association_id": 0, "eligible_time": {"set": true, "number": 4102444800}}
]}`

func TestUnassociated(t *testing.T) {
	s := scontrol(t, "", "", "0")
	s.Squeue = scontrol(t, waiting, "", "0").Path
	sacctmgr := func(script string) {
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(s.Path), "sacctmgr"), []byte("#!/bin/sh\n"+script), 0o755))
	}
	sacctmgr("printf '|root|\\nroot|root|\\nalice|A|\\ncarol|a|gpu\\ncarol|b|\\n'")
	jobs, others, err := s.Unassociated(t.Context(), "c")
	require.NoError(t, err)
	var ids []int64
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	assert.Equal(t, []int64{2, 3, 7, 9}, ids, "9 may be of account a by default")
	require.Len(t, others, 1)
	assert.EqualValues(t, 5, others[0].ID)

	for answer, want := range map[string]string{"": "no account root", `alice|A|\n`: "no account root", `|root|\nalice|A`: "cut off"} {
		sacctmgr("printf '" + answer + "'")
		_, _, err = s.Unassociated(t.Context(), "c")
		require.ErrorContains(t, err, want, answer)
	}
	sacctmgr("echo no >&2; exit 1")
	_, _, err = s.Unassociated(t.Context(), "c")
	require.ErrorContains(t, err, "no")
	s.Squeue = scontrol(t, `{"jobs": []}`, "", "0").Path
	jobs, _, err = s.Unassociated(t.Context(), "c")
	require.NoError(t, err)
	assert.Empty(t, jobs, "sacctmgr is not asked")
	s.Squeue = scontrol(t, `{}`, "", "0").Path
	_, _, err = s.Unassociated(t.Context(), "c")
	require.ErrorContains(t, err, "jobs")
}
