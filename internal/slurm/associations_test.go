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
	{"job_id": 5, "user_name": "bob", "account": "", "association_id": 0, "eligible_time": {"set": true, "number": 1}}
]}`

func TestUnassociated(t *testing.T) {
	s := scontrol(t, "", "", "0")
	s.Squeue = scontrol(t, waiting, "", "0").Path
	sacctmgr := func(script string) {
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(s.Path), "sacctmgr"), []byte("#!/bin/sh\n"+script), 0o755))
	}
	sacctmgr("printf '|root\\nroot|root\\nalice|A\\n'")
	jobs, err := s.Unassociated(t.Context(), "c")
	require.NoError(t, err)
	var ids []int64
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	assert.Equal(t, []int64{2, 3}, ids)

	sacctmgr("echo no >&2; exit 1")
	_, err = s.Unassociated(t.Context(), "c")
	require.ErrorContains(t, err, "no")
	s.Squeue = scontrol(t, `{"jobs": []}`, "", "0").Path
	jobs, err = s.Unassociated(t.Context(), "c")
	require.NoError(t, err)
	assert.Empty(t, jobs, "sacctmgr is not asked")
	s.Squeue = scontrol(t, `{}`, "", "0").Path
	_, err = s.Unassociated(t.Context(), "c")
	require.ErrorContains(t, err, "jobs")
}
