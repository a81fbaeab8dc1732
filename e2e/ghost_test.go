//go:build e2e

package e2e

import (
	"encoding/json"
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
	server := forward(t, c, "slurmrestd:"+strconv.Itoa(sandbox.RESTPort))
	status, said := submitByREST(t, c.tokenOf(t, "ghost", "60"), server)
	if status != http.StatusOK {
		assert.Contains(t, said, "nobody")
		assert.NotContains(t, c.run(t, sandbox.Slurmctld, "scontrol", "-V"), "24.11")
		return
	}
	var answer struct {
		JobID int64 `json:"job_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(said), &answer))
	id := strconv.FormatInt(answer.JobID, 10)
	until(t, "the status names the job", func() (bool, string) {
		held := c.agent(t, sandbox.Slurmctld).HeldJobs
		return slices.Contains(held, id), strings.Join(held, ",")
	})
	until(t, "the job says why it is held", func() (bool, string) {
		job := c.run(t, sandbox.Slurmctld, "scontrol", "--oneliner", "show", "job", id)
		return strings.Contains(job, "AdminComment=slurmlet: slurmctld does not know the user"), job
	})
	log, err := c.Logs(t.Context(), sandbox.Slurmctld)
	require.NoError(t, err)
	assert.Contains(t, log, "holds job "+id+" for ever")
	c.run(t, sandbox.Slurmctld, "scancel", id)
}
