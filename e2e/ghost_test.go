//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// userUnknown: slurmrestd takes a job for a user whom slurmctld does not know. slurmctld 24.11 holds it for ever, as
// nobody's.
func userUnknown(t *testing.T, c *cluster) {
	_, token, found := strings.Cut(strings.TrimSpace(c.run(t, sandbox.Controller, "scontrol", "token", "username=ghost", "lifespan=60")), "=")
	require.True(t, found)
	body := `{"job": {"script": "#!/bin/sh\ntrue\n", "current_working_directory": "/tmp", "environment": ["PATH=/usr/bin:/bin"]}}`
	server := forward(t, c, "slurmrestd:"+strconv.Itoa(sandbox.RESTPort))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+"/slurm/v0.0.42/job/submit", bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	request.Header.Set("X-SLURM-USER-TOKEN", token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	said, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	if response.StatusCode != http.StatusOK {
		assert.Contains(t, string(said), "nobody")
		assert.NotContains(t, c.run(t, sandbox.Controller, "scontrol", "-V"), "24.11")
		return
	}
	var answer struct {
		JobID int64 `json:"job_id"`
	}
	require.NoError(t, json.Unmarshal(said, &answer))
	id := strconv.FormatInt(answer.JobID, 10)
	until(t, "the status names the job", func() (bool, string) {
		held := c.agent(t, sandbox.Controller).HeldJobs
		return slices.Contains(held, id), strings.Join(held, ",")
	})
	until(t, "the job says why it is held", func() (bool, string) {
		job := c.run(t, sandbox.Controller, "scontrol", "--oneliner", "show", "job", id)
		return strings.Contains(job, "AdminComment=slurmlet: slurmctld does not know the user"), job
	})
	log, err := c.Logs(t.Context(), sandbox.Controller)
	require.NoError(t, err)
	assert.Contains(t, log, "holds job "+id+" for ever")
	c.run(t, sandbox.Controller, "scancel", id)
}
