//go:build e2e

package e2e

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/chaos"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// workload is the jobs that were submitted.
type workload struct {
	*cluster
	dice *rand.Rand
	jobs []chaos.Job
}

func newWorkload(c *cluster, dice *rand.Rand) *workload { return &workload{cluster: c, dice: dice} }

// submitUntil submits a job every second or so. While slurmctld is away sbatch
// waits, or fails, and then the job was not submitted.
func (w *workload) submitUntil(end time.Time) {
	for i := 0; time.Now().Before(end); i++ {
		job, args := chaos.Draw(w.dice, chaos.Kinds, i, "/shared")
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		out, _, code, err := w.ExecAs(ctx, "login", sandbox.How{User: "alice", Dir: "/tmp"}, append([]string{"sbatch", "--mem=32"}, args...)...)
		cancel()
		if err == nil && code == 0 {
			job.ID = strings.TrimSpace(out)
			w.jobs = append(w.jobs, job)
		}
		<-time.After(time.Duration(w.dice.Int64N(int64(2 * time.Second))))
	}
}

// judge waits for the end of all jobs and says how each has ended.
func (w *workload) judge(t *testing.T, blows int) {
	require.NotEmpty(t, w.jobs)
	within(t, 3*limit, "the queue is empty", func() (bool, string) {
		left := w.run(t, sandbox.Slurmctld, "squeue", "--noheader", "--array", "--format=%i %r %T %N %j")
		steps := w.run(t, sandbox.Slurmctld, "squeue", "--noheader", "--steps", "--format=%i %N %M")
		for line := range strings.Lines(left) {
			// A job that was requeued may not begin for two minutes.
			if id, rest, _ := strings.Cut(line, " "); strings.HasPrefix(rest, "BeginTime") {
				_, _, _, err := w.Exec(t.Context(), sandbox.Slurmctld, "scontrol", "update", "jobid="+id, "starttime=now+3")
				assert.NoError(t, err)
			}
		}
		return strings.TrimSpace(left) == "", left + steps
	})
	runs, again := 0, 0
	for _, job := range w.jobs {
		for part := range job.Parts {
			runs++
			if w.judgeOne(t, job, part, blows) {
				again++
			}
		}
	}
	t.Logf("%d jobs, %d runs, %d of them more than once; %d containers were killed", len(w.jobs), runs, again, blows)
}

// judgeOne says whether a job was started more than once.
func (w *workload) judgeOne(t *testing.T, job chaos.Job, part, blows int) bool {
	id, file := job.Part(part)
	fields := w.job(t, id)
	text, _, _, err := w.Exec(t.Context(), "login", "cat", "/shared/"+file)
	require.NoError(t, err)
	restarts, _ := strconv.Atoi(fields["Restarts"])
	assert.NoError(t, job.Judge(chaos.Fate{State: fields["JobState"], Restarts: restarts, Text: text, Failed: blows, CutOff: true}),
		"job %s (%s): %s, %d restarts, %s; %q", id, job.Name, fields["JobState"], restarts, fields["ExitCode"], text)
	return restarts > 0
}
